package logs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
	"superd/loop"
)

// TestOutputIsByteExact: binary data, NUL and invalid UTF-8 are written unchanged. Source: row 21
// of the failure table.
func TestOutputIsByteExact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "yet", "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 300_000, Keep: 1000})
	var text []byte
	for rng := rand.New(rand.NewPCG(1, 1)); len(text) < 2<<20; {
		text = fmt.Appendf(text, "\x1b[31m\x00\xff%c%s", rng.IntN(256), "\n"[:rng.IntN(2)])
	}
	p.log(string(text))
	logstest.Equal(t, "files joined", logstest.Joined(t, path), string(text))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o640 {
		t.Errorf("mode of the log file = %v, want 0640", info.Mode())
	}
	if info, err = os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode of its directory = %v (%v), want 0750", info.Mode(), err)
	}
}

func TestAttachWritesWhatIsThere(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "web.log")
	read, write := r.fifo()
	if _, err := write.WriteString("early\n"); err != nil {
		t.Fatal(err)
	}
	p := &program{rig: r, File: write}
	wrote := make(chan struct{}, 8)
	r.do(func() {
		p.Collector = r.store.NewCollector(r.loop.Root(), "web", Options{Path: path})
		p.Notify(func() { wrote <- struct{}{} })
		if p.FD(Stdout) != -1 {
			t.Errorf("FD() before Attach = %d, want -1", p.FD(Stdout))
		}
		if err := p.Attach(Stdout, read); err != nil {
			t.Error(err)
		}
	})
	r.await(wrote, "what was in the FIFO")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "early\n")
	if got := p.lastLine(); got != "early" {
		t.Errorf("lastLine() = %q, want early", got)
	}
	r.do(func() {
		other, err := pipe.MakeFIFO(filepath.Join(t.TempDir(), "other"), os.Geteuid(), os.Getegid())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Attach(Stdout, other); err == nil {
			t.Error("a second Attach succeeded")
		}
		if pipeIsOpen(other) {
			t.Error("a second Attach left its descriptor open")
		}
	})
}

func pipeIsOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// TestEndRunShowsThePartialLine: the last line has no newline. Source: row 19 of the failure table.
func TestEndRunShowsThePartialLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path})
	p.log("one\ntwo")
	if got := p.lastLine(); got != "one" {
		t.Errorf("lastLine() = %q, want one", got)
	}
	p.print(", and more")
	p.rig.do(func() { p.EndRun() })
	p.rig.await(p.drained(), "the end")
	if got := p.lastLine(); got != "two, and more" {
		t.Errorf("lastLine() after EndRun = %q, want the partial line", got)
	}
	p.log("three\n")
	if got := p.lastLine(); got != "three" {
		t.Errorf("lastLine() of the next run = %q, want three", got)
	}
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "one\ntwo, and morethree\n")
}

// TestWritersComeAndGo: a program closes its output and other writers of it continue later. No
// goroutine spins meanwhile. Source: rows 6 and 7 of the failure table.
func TestWritersComeAndGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	p := r.program(Options{Path: path})
	fd, err := pipe.OpenWriter(p.Collector.FD(Stdout))
	if err != nil {
		t.Fatal(err)
	}
	grandchild := os.NewFile(uintptr(fd), "grandchild")
	p.log("one\n")
	p.File.Close()
	r.do(func() { p.EndRun() })
	if _, err := grandchild.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	grandchild.Close()
	r.await(p.drained(), "what a grandchild wrote")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "one\ntwo\n")

	waits := r.store.poller.State().Returns
	quiet := make(chan uint64)
	r.do(func() {
		before := r.loop.Turns()
		r.loop.Root().After(50*time.Millisecond, func() { quiet <- r.loop.Turns() - before })
	})
	if turns := <-quiet; turns > 3 {
		t.Errorf("%d turns of the loop without a writer, want none but the timer's", turns)
	}
	// The end of the last writer may be noticed only now; a spinning wait returns a thousand times
	if n := r.store.poller.State().Returns - waits; n > 2 {
		t.Errorf("%d waits for output returned without a writer, want at most 2", n)
	}
	if state := p.state.Load(); state != idle {
		t.Errorf("state without a writer = %d, want idle", state)
	}
	if fd, err = pipe.OpenWriter(p.Collector.FD(Stdout)); err != nil {
		t.Fatal(err)
	}
	p.File = os.NewFile(uintptr(fd), "next run")
	p.log("three\n")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "one\ntwo\nthree\n")
}

// TestEndlessLine: a line of 100 MB passes through 64 KiB of memory, and other programs are not
// delayed. Source: row 20 of the failure table.
func TestEndlessLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 3e6, Keep: 100})
	other := r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")})
	const size = 30e6
	block := bytes.Repeat([]byte("0123456789"), 6250)
	want := sha256.New()
	var peak uint64
	runtime.GC()
	start := heap()
	for remaining := int(size); remaining > 0; remaining -= len(block) {
		part := block[:min(len(block), remaining)]
		want.Write(part)
		if _, err := p.Write(part); err != nil {
			t.Fatal(err)
		}
		if remaining%(64*len(block)) == 0 { // heap stops the world
			peak = max(peak, heap())
		}
	}
	other.log("still here\n")
	r.await(p.drained(), "30 MB")
	if grown := int64(peak) - int64(start); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes, want a few MiB at most", grown)
	}
	_, names := logstest.Files(t, path)
	if len(names) != 8 {
		t.Errorf("%d files, want 8", len(names))
	}
	remaining := int64(size)
	got := sha256.New()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		full := min(remaining, 3e6+segment.MaxOverrun)
		if n, err := io.Copy(got, f); n != full || err != nil {
			t.Errorf("%s has %d bytes (%v), want %d", name, n, err, full)
		}
		remaining -= full
		f.Close()
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("files joined differ from what was written")
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDrainedUnderEndlessFlood: Drained does not wait for output written after the call, so that a
// program which never stops writing does not block it.
func TestDrainedUnderEndlessFlood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 1e6, Keep: 1})
	var stop flag
	done := flood(p.File, &stop)
	for range 5 {
		r.await(p.drained(), "Drained under a flood")
	}
	stop.set()
	<-done
	r.await(p.drained(), "the rest")
}

func TestDrainedBeforeAttachAndAfterClose(t *testing.T) {
	r := newRig(t)
	p := &program{rig: r}
	var scope *loop.Scope
	r.do(func() {
		scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(scope, "web", Options{Path: "/nowhere"})
	})
	r.await(p.drained(), "Drained without a FIFO")
	r.do(scope.Close)
	r.await(p.drained(), "Drained of a closed collector")
	r.waitForStore()
	r.await(p.drained(), "Drained of a released collector")
	if got := p.FD(Stdout); got != -1 {
		t.Errorf("FD() of a closed collector = %d, want -1", got)
	}
	read, _ := r.fifo()
	r.do(func() {
		if err := p.Attach(Stdout, read); err == nil {
			t.Error("Attach to a closed collector succeeded")
		}
	})
	if pipeIsOpen(read) {
		t.Error("Attach to a closed collector left its descriptor open")
	}
}

// TestCloseUnderFlood: a close at any time of a flood closes the read end exactly once, so that a
// reused number is not affected.
func TestCloseUnderFlood(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	for i := range 100 {
		p := r.program(Options{Path: filepath.Join(dir, "web.log"), MaxSize: 1e5, Keep: 1})
		var stop flag
		done := flood(p.File, &stop)
		if i%2 == 0 {
			p.until("bytes", func() bool { return p.lastLine() != "" })
		}
		fd := p.Collector.FD(Stdout)
		r.do(p.scope.Close)
		r.waitForStore()
		if pipeIsOpen(fd) {
			t.Fatalf("round %d: the read end is open after its collector is closed", i)
		}
		// A new owner of the number still has it.
		duplicate, err := unix.FcntlInt(p.Fd(), unix.F_DUPFD_CLOEXEC, fd)
		if err != nil {
			t.Fatal(err)
		}
		stop.set()
		drainAll(duplicate)
		<-done
		if !pipeIsOpen(duplicate) {
			t.Fatalf("round %d: a descriptor that isn't the collector's is closed", i)
		}
		syscalls.Close(duplicate)
		p.File.Close()
	}
}

// drainAll empties a pipe, so that its writer continues.
func drainAll(fd int) {
	_ = unix.SetNonblock(fd, true)
	for buf := make([]byte, 1<<20); ; {
		if n, err := unix.Read(fd, buf); n <= 0 || err != nil {
			break
		}
	}
}

// TestFloodsShareSlots: fifty fast writers share the slots of one file system, and a quiet
// program's line is written in between.
func TestFloodsShareSlots(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	line := strings.Repeat("x", 99) + "\n"
	text := strings.Repeat(line, 20_000)
	var programs []*program
	written := make(chan error)
	for i := range 50 {
		p := r.program(Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i))})
		programs = append(programs, p)
		go func() {
			_, err := p.WriteString(text)
			written <- err
		}()
	}
	quiet := r.program(Options{Path: filepath.Join(dir, "quiet.log")})
	quiet.log("here\n")
	for range programs {
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		r.await(p.drained(), "a flood")
		logstest.Equal(t, p.Path(), logstest.ReadFile(t, p.Path()), text)
	}
}

// TestBusyProgramWakesNoWorker: output during a drain wakes no goroutine, and output after it is
// written.
func TestBusyProgramWakesNoWorker(t *testing.T) {
	r := newRig(t)
	stall := newStall(t, t.TempDir())
	p := r.program(Options{Path: stall.path})
	stall.fill(p)
	before := r.store.poller.State().Returns
	for range 100 {
		p.print("x\n")
		r.do(func() {})
	}
	// One may be for the output that filled the file
	if n := r.store.poller.State().Returns - before; n > 1 {
		t.Errorf("%d of 100 writes of a program that is being drained woke a worker, want none", n)
	}
	stall.release()
	r.await(p.drained(), "the end of the stall")
	wrote := make(chan struct{}, 1)
	defer p.Notify(func() { signal(wrote) })()
	p.print("last\n")
	r.await(wrote, "a line after the stall")
}

// TestNoLineRemainsWhereDrainsEnd: lines that come at any time around the end of a drain are
// written without a further wakeup.
func TestNoLineRemainsWhereDrainsEnd(t *testing.T) {
	r := newRig(t)
	for name, o := range map[string]Options{"raw": {}, "text": {Format: frame.Text}, "drop": {Drop: true}, "split": {Split: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o.Path = filepath.Join(dir, "out.log")
			p := r.program(o)
			writers := []*os.File{p.File}
			if o.Split {
				read, write := r.fifo()
				r.do(func() {
					if err := p.Attach(Stderr, read); err != nil {
						t.Error(err)
					}
				})
				writers = append(writers, write)
			}
			wrote := make(chan struct{}, 1)
			defer p.Notify(func() { signal(wrote) })()
			seed := rand.New(rand.NewPCG(1, 2))
			for i := range 3000 {
				for range 1 + seed.IntN(3) {
					if _, err := writers[seed.IntN(len(writers))].WriteString("a line\n"); err != nil {
						t.Fatal(err)
					}
					for range seed.IntN(2000) { // at another time in each round
					}
				}
				for start := time.Now(); p.unwritten() > 0; {
					select {
					case <-wrote:
					case <-time.After(10 * time.Millisecond):
						if time.Since(start) > testTimeout {
							t.Fatalf("round %d: a line stays in the FIFO, state %d", i, p.state.Load())
						}
					}
				}
			}
		})
	}
}

// unwritten returns the number of bytes in the FIFOs.
func (p *program) unwritten() (n int64) {
	for _, s := range p.Collector.all() {
		if fd := s.source.FD(); fd >= 0 {
			n += pipe.Bytes(fd)
		}
	}
	return n
}

func TestSetOptions(t *testing.T) {
	dir := t.TempDir()
	p := newRig(t).program(Options{Path: filepath.Join(dir, "a.log"), MaxSize: 10, Keep: 10})
	p.log("one\ntwo\n")
	p.rig.do(func() { p.SetOptions(Options{Path: filepath.Join(dir, "b.log"), MaxSize: 10, Keep: 10}) })
	p.log("three\n")
	p.rig.do(func() { p.SetOptions(Options{Path: filepath.Join(dir, "b.log"), MaxSize: 100, Keep: 10}) })
	p.log("four\nfive\n")
	logstest.Equal(t, "the old file", logstest.Joined(t, filepath.Join(dir, "a.log")), "one\ntwo\n")
	logstest.Equal(t, "the new file", logstest.ReadFile(t, filepath.Join(dir, "b.log")), "three\nfour\nfive\n")
	if got, want := p.Path(), filepath.Join(dir, "b.log"); got != want {
		t.Errorf("Path() = %q, want %q", got, want)
	}
}

// A flag stops a writer.
type flag struct{ c chan struct{} }

func (f *flag) set() { close(f.c) }

// flood writes lines until stop is set.
func flood(w io.Writer, stop *flag) (done <-chan struct{}) {
	stop.c = make(chan struct{})
	end := make(chan struct{})
	go func() {
		defer close(end)
		block := []byte(strings.Repeat("a line of the flood\n", 500))
		for {
			select {
			case <-stop.c:
				return
			default:
			}
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}()
	return end
}

func TestTailIsOfOneRun(t *testing.T) {
	p := newRig(t).program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	end := p.tail
	p.log("one\ntwo")
	logstest.Equal(t, "tail", end(), "one\ntwo")
	p.rig.do(func() { p.BeginRun("", false) })
	logstest.Equal(t, "tail of a run that prints nothing", end(), "")
	p.print("three\n")
	logstest.Equal(t, "tail of the next run", end(), "three\n")
	p.print("late\n") // in the FIFO before the next run begins
	p.rig.do(func() { p.BeginRun("", false) })
	p.rig.await(p.drained(), "the position of the start")
	p.print("four\n")
	logstest.Equal(t, "tail of the last run", end(), "four\n")
}

// TestTailOfRunBeforeCollector: output that a predecessor has written belongs to a run that it
// began.
func TestTailOfRunBeforeCollector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, "one\ntwo\n")
	p := newRig(t).program(Options{Path: path})
	if got := p.lastLine(); got != "two" {
		t.Errorf("last line = %q, want two", got)
	}
	logstest.Equal(t, "tail of an adopted run", p.tail(), "one\ntwo\n")
	p.rig.do(func() { p.BeginRun("", false) })
	logstest.Equal(t, "tail of a run that has begun since", p.tail(), "")
	if got := p.lastLine(); got != "" {
		t.Errorf("last line of a run that has printed nothing = %q", got)
	}
	p.log("three\n")
	logstest.Equal(t, "tail of what it wrote", p.tail(), "three\n")
}

// TestLineCache: the newest lines of many programs are cached for a while, within bounds.
func TestLineCache(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	p.log("one\n")
	p.lastLine()
	logstest.WriteFile(t, p.Path(), "two\n") // of the same size: only a new read shows it
	if got := p.lastLine(); got != "one" {
		t.Errorf("last line of a quiet program = %q: it was read again", got)
	}
	if n := r.store.readers.Cached(); n != 1 {
		t.Errorf("%d lines are cached, want one", n)
	}
	r.do(p.scope.Close)
	r.poll("its line to be forgotten", func() bool { return r.store.readers.Cached() == 0 })
}

// TestLineCacheWithoutFile: the file of a program that has printed nothing is looked for once. What
// it then prints is found.
func TestLineCacheWithoutFile(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	for range 2 { // the first one finds out that there is no file
		if got := p.lastLine(); got != "" {
			t.Errorf("last line of a program that has printed nothing = %q", got)
		}
	}
	logstest.WriteFile(t, p.Path(), "other\n") // only a new read shows it
	if got := p.lastLine(); got != "" {
		t.Errorf("last line = %q: the file was looked for again", got)
	}
	p.log("one\n")
	if got := p.lastLine(); got != "one" {
		t.Errorf("last line = %q, want one", got)
	}
}

// TestBusyPipeGrows: a program that fills its pipe gets a bigger one; an idle one does not.
func TestBusyPipeGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log") // removed after the rig, which may still write
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 1e6, Keep: 1})
	for range 100 {
		p.log("a line now and then\n")
	}
	size := func() int {
		n, err := unix.FcntlInt(uintptr(p.Collector.FD(Stdout)), unix.F_GETPIPE_SZ, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := size(); got != 64<<10 {
		t.Errorf("pipe of a quiet program holds %d bytes, want 64 KiB", got)
	}
	var stop flag
	done := flood(p.File, &stop)
	p.until("a bigger pipe", func() bool { return size() == pipe.BusyCapacity })
	stop.set()
	<-done
	r.await(p.drained(), "the rest")
}
