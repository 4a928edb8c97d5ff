package logs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/follow"
	"superd/logs/fslimit"
	"superd/logs/logstest"
	"superd/logs/pipe"
)

// A stall is a log file that blocks after some output: a FIFO whose reader does not read.
type stall struct {
	testing.TB
	path   string
	reader *os.File
	done   chan struct{} // closed by release
	once   sync.Once
}

func newStall(t testing.TB, dir string) *stall {
	path := filepath.Join(dir, "stalled")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &stall{TB: t, path: path, reader: reader, done: make(chan struct{})}
	t.Cleanup(func() { // before the loop ends
		s.release()
		reader.Close()
		<-s.done
	})
	return s
}

// fill writes until the stalled file is full and a write to it waits.
func (s *stall) fill(p *program) {
	s.Helper()
	p.print(strings.Repeat("x", 60_000))
	p.rig.await(p.drained(), "what the stalled file still takes")
	p.print(strings.Repeat("y", 30_000))
	p.print("\n")
}

// release makes the reader read.
func (s *stall) release() {
	s.once.Do(func() {
		go func() {
			defer close(s.done)
			_, _ = io.Copy(io.Discard, s.reader)
		}()
	})
}

// TestWriteError: while the disk is full, the program waits, and superd reports that once.
// Everything recovers without a restart. Source: row 25 of the failure table.
func TestWriteError(t *testing.T) {
	r := newRig(t)
	tried := make(chan struct{}, 1)
	r.store.retryDelay = func(int) time.Duration {
		signal(tried)
		return time.Millisecond
	}
	path := filepath.Join(t.TempDir(), "web.log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	p := r.program(Options{Path: path})
	r.awaitLog("the program blocks", func() { p.print("one\n") })
	done := p.drained()
	for range 5 {
		r.await(tried, "another try")
	}
	select {
	case <-done:
		t.Fatal("Drained called back although the file can't be written")
	default:
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.await(done, "the file to be written again")
	p.log("two\n")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "one\ntwo\n")
	// Reported after the turn in which the second line may have come, too
	r.awaitLog("into its log again", func() {})
	said := r.log.String()
	for _, want := range []string{"the program blocks", "no space left on device", "into its log again"} {
		if n := strings.Count(said, want); n != 1 {
			t.Errorf("%q was logged %d times, want once:\n%s", want, n, said)
		}
	}
}

// awaitLog calls f and waits until what is in the store's log.
func (r *rig) awaitLog(what string, f func()) {
	r.Helper()
	f()
	r.poll(fmt.Sprintf("%q in the log", what), func() bool { return strings.Contains(r.log.String(), what) })
}

// TestDiskFull is TestWriteError on a real file system. Source: row 25 of the failure table.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	r := newRig(t)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	logstest.WriteFile(t, filler, strings.Repeat("x", 700_000))
	path := filepath.Join(dir, "web.log")
	p := r.program(Options{Path: path})
	var text strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	written := make(chan error)
	r.awaitLog("no space left on device", func() {
		go func() {
			_, err := p.WriteString(text.String())
			written <- err
		}()
	})
	if pipe.Bytes(p.Collector.FD(Stdout)) == 0 {
		t.Error("the FIFO is empty: output is in superd, which may be killed")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	r.await(p.drained(), "the disk to have room")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), text.String())
}

// TestNoSuchDirectory: a log file that can't be made, as its path leads through a file. Source: row
// 46 of the failure table.
func TestNoSuchDirectory(t *testing.T) {
	r := newRig(t)
	base := filepath.Join(t.TempDir(), "logs")
	logstest.WriteFile(t, base, "in the way")
	p := r.program(Options{Path: filepath.Join(base, "web.log")})
	r.awaitLog("not a directory", func() { p.print("one\n") })
	if err := os.Remove(base); err != nil {
		t.Fatal(err)
	}
	r.await(p.drained(), "the directory")
	logstest.Equal(t, "log", logstest.ReadFile(t, p.Path()), "one\n")
}

func TestCloseWhileFileCannotBeWritten(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: "/dev/full"})
	r.awaitLog("the program blocks", func() { p.print("lost\n") })
	done := p.drained()
	r.do(p.scope.Close)
	r.await(done, "Drained of a closed collector")
	r.waitForStore()
	if said := r.log.String(); !strings.Contains(said, "output lost") || !strings.Contains(said, "bytes=5") {
		t.Errorf("the log doesn't say how much was lost:\n%s", said)
	}
}

// TestStalledFileSystem: a stalled file system blocks the programs that log there, and as many
// goroutines as it has slots, but nothing else. Source: row 26 of the failure table.
func TestStalledFileSystem(t *testing.T) {
	other := "/dev/shm"
	if _, err := os.Stat(other); err != nil || logstest.Stat(t, other).Dev == logstest.Stat(t, t.TempDir()).Dev {
		t.Skipf("%s is not another file system", other)
	}
	dir, err := os.MkdirTemp(other, "superd-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)

	r := newRig(t)
	neighbour := r.program(Options{Path: filepath.Join(dir, "neighbour.log")})
	device := r.fileSystemOf(dir)
	var held []*fslimit.Slot
	for range writersPerFileSystem { // as many writers hang
		held = append(held, must(t, neighbour.shared.streams[0].file.Log().AcquireSlot(r.store.writers, nil)))
	}
	neighbour.print("one\n")
	waits := neighbour.drained()
	r.poll("the neighbour to wait", func() bool { return r.store.writers.Users(device) == writersPerFileSystem+1 })

	elsewhere := r.program(Options{Path: filepath.Join(t.TempDir(), "elsewhere.log")})
	for i := range 100 {
		elsewhere.log(fmt.Sprintf("%d\n", i))
	}
	select {
	case <-waits:
		t.Error("a program got a slot of a file system that has none left")
	default:
	}
	for _, h := range held {
		h.Release()
	}
	r.await(waits, "a slot")
}

// TestStalledFIFOsBlockNoOthers: a FIFO without a reader, configured as a log, blocks its own
// program, but no other that logs on its file system.
func TestStalledFIFOsBlockNoOthers(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	var stalls []*stall
	var blocked []*program
	for i := range writersPerFileSystem + 1 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		s := newStall(t, sub)
		p := r.program(Options{Path: s.path})
		s.fill(p)
		stalls, blocked = append(stalls, s), append(blocked, p)
	}
	for _, p := range blocked {
		r.poll("an outage", func() bool { return p.Outage() != nil })
	}
	if got := blocked[0].Outage().Reason; !strings.HasSuffix(got, pipe.ErrReaderStalls.Error()) {
		t.Errorf("the outage's reason is %q, want %q", got, pipe.ErrReaderStalls)
	}
	neighbour := r.program(Options{Path: filepath.Join(dir, "neighbour.log")})
	for i := range 100 {
		neighbour.log(fmt.Sprintf("%d\n", i))
	}
	for i, s := range stalls {
		s.release()
		r.await(blocked[i].drained(), "the end of the stall")
	}
}

// TestLastLinesOfAStalledFileSystem: a query of last lines waits only briefly for a stalled file
// system, and only for logs there. Source: row 26 of the failure table.
func TestLastLinesOfAStalledFileSystem(t *testing.T) {
	r := newRig(t)
	stalled := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	stalled.log("one\n")
	if got := stalled.lastLine(); got != "one" {
		t.Fatalf("last line = %q, want one", got)
	}
	stalled.log("two\n")
	var held []*fslimit.Slot
	for range readersPerFileSystem { // as many readers hang
		held = append(held, must(t, stalled.shared.streams[0].file.Log().AcquireSlot(r.store.readers.Limiter, nil)))
	}
	elsewhere := r.program(Options{Path: "/dev/shm/not there"})
	if got := follow.LastLines([]follow.Log{stalled.Log(Stdout), nil, elsewhere.Log(Stdout)}, time.Millisecond); !slices.Equal(got, []string{"one", "", ""}) {
		t.Errorf("last lines in a stall = %q, want the one of before", got)
	}
	for _, h := range held {
		h.Release()
	}
	if got := stalled.lastLine(); got != "two" {
		t.Errorf("last line after the stall = %q, want two", got)
	}
	device := stalled.shared.streams[0].file.Log().FileSystem(r.store.readers.Limiter)
	r.poll("all readers to be gone", func() bool { return r.store.readers.Limiter.Users(device) == 0 })
}

// TestSilentRunsWhileALogStalls: a program that ends repeatedly while its log stalls costs no more
// memory than its output. The starts of runs with output are right when the log recovers.
func TestSilentRunsWhileALogStalls(t *testing.T) {
	tests := []struct {
		name  string
		stall func(t *testing.T, r *rig) (p *program, end func())
	}{
		{"it hangs", func(t *testing.T, r *rig) (*program, func()) {
			s := newStall(t, t.TempDir())
			p := r.program(Options{Path: s.path})
			s.fill(p)
			r.poll("the log to stall", func() bool { return pipe.Bytes(p.FD(Stdout)) > 0 && p.state.Load() != idle })
			return p, s.release
		}},
		{"it is full", func(t *testing.T, r *rig) (*program, func()) {
			path := filepath.Join(t.TempDir(), "web.log")
			if err := os.Symlink("/dev/full", path); err != nil {
				t.Fatal(err)
			}
			p := r.program(Options{Path: path})
			r.awaitLog("the program blocks", func() { p.print("one\n") })
			return p, func() {
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p, end := tt.stall(t, r)
			located := func() bool {
				p.shared.Lock()
				defer p.shared.Unlock()
				return p.shared.barriers[len(p.shared.barriers)-1].at[Stdout] >= 0
			}
			run := func(i int, f func([]byte, bool)) {
				r.do(func() {
					p.BeginRun(fmt.Sprint(i), false)
					p.AwaitLine(p.scope.Child(), Stdout, regexp.MustCompile("ready"), nil, func(string, error) {})
				})
				if f != nil {
					r.poll("the position of its start", located)
					p.print("last words\n")
				}
				r.do(func() {
					p.EndRun()
					p.Tail(func(end []byte, cut bool) {
						if f != nil {
							f(end, cut)
						}
					})
				})
			}
			countBarriers := func() int {
				p.shared.Lock()
				defer p.shared.Unlock()
				return len(p.shared.barriers)
			}
			for i := range 1000 {
				run(i, nil)
			}
			r.poll("few barriers", func() bool { return countBarriers() <= 8 })
			said := make(chan string, 1)
			if tt.name == "it is full" { // otherwise the start of the output is unknown
				run(1000, func(end []byte, _ bool) { said <- string(end) })
				for i := range 1000 {
					run(1001+i, nil)
				}
				r.poll("few barriers", func() bool { return countBarriers() <= 12 })
			}
			end()
			r.await(p.drained(), "the log to take it")
			if tt.name == "it is full" {
				if got := <-said; got != "last words\n" {
					t.Errorf("the tail of the one run that has written something is %q", got)
				}
			}
			p.shared.Lock()
			defer p.shared.Unlock()
			if len(p.shared.barriers) > 0 {
				t.Errorf("%d barriers remain", len(p.shared.barriers))
			}
		})
	}
}
