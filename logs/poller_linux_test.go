package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/mounts"
	"superd/internal/syscalls"
	"superd/logs/fslimit"
	"superd/logs/logstest"
	"superd/logs/read"
	"superd/loop"
)

// TestOneWorkerAlwaysWaits: whatever number of workers is blocked, a further one waits for events.
// Afterwards there are no more than needed.
func TestOneWorkerAlwaysWaits(t *testing.T) {
	const many = 30
	r := newRig(t)
	r.store.writers = fslimit.New(new(mounts.Table), 2*many, 2*many)
	dir := t.TempDir()
	block := make(chan struct{})
	var blocked []*program
	for i := range many {
		p := r.program(Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i))})
		arrived := make(chan struct{}, 1)
		defer p.Notify(func() {
			signal(arrived)
			<-block
		})()
		p.print("a line\n")
		r.await(arrived, "a line of one more that is blocked")
		blocked = append(blocked, p)
	}
	free := r.program(Options{Path: filepath.Join(dir, "free.log")})
	free.log("a line\n")
	close(block)
	for _, p := range blocked {
		r.await(p.drained(), "the end of what holds up")
		logstest.Equal(t, p.Path(), logstest.ReadFile(t, p.Path()), "a line\n")
	}
	r.poll("the others to end", func() bool {
		now := r.store.poller.State()
		return now.Alive == read.MaxWaiting && now.Waiting == read.MaxWaiting
	})
}

// TestWatchesComeAndGo: a collector may be made and closed at any time, with output in its FIFO.
func TestWatchesComeAndGo(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	stay := r.program(Options{Path: filepath.Join(dir, "stay.log")})
	for i := range 200 {
		p := r.program(Options{Path: filepath.Join(dir, "web.log"), Split: i%2 == 0})
		if i%2 == 0 {
			read, write := r.fifo()
			r.do(func() {
				if err := p.Attach(Stderr, read); err != nil {
					t.Error(err)
				}
			})
			if _, err := write.WriteString("a line\n"); err != nil {
				t.Fatal(err)
			}
			write.Close()
		}
		p.print("a line\n")
		stay.print("a line\n")
		r.do(p.scope.Close)
		p.File.Close()
	}
	r.await(stay.drained(), "the lines of the one that stays")
	if got := len(logstest.ReadFile(t, stay.Path())); got != 200*len("a line\n") {
		t.Errorf("%d bytes of the one that stays, want those of 200 lines", got)
	}
	r.poll("the entries of the others", func() bool { return r.store.poller.State().Watches == 1 })
}

// TestWatchFails: if no watch can be made, output waits until one can.
func TestWatchFails(t *testing.T) {
	r := newRig(t)
	p := &program{rig: r}
	in, write := r.fifo()
	defer write.Close()
	path := filepath.Join(t.TempDir(), "web.log")
	dup, err := unix.FcntlInt(uintptr(in), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var scope *loop.Scope
	r.do(func() {
		scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(scope, "web", Options{Path: path})
		s := p.Collector.shared.streams[0]
		file, err := os.Open(os.DevNull) // epoll accepts no such file: EPERM
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		s.source.Attach(int(file.Fd()))
		if err := p.Collector.watchFIFOs(); err == nil {
			t.Error("what can't be watched is watched")
		}
		if now := r.store.poller.State(); now.Watches+now.Alive > 0 {
			t.Error("an epoll is left for nothing")
		}
		s.source.Attach(-1)
		if err := p.Attach(Stdout, dup); err != nil {
			t.Error(err)
		}
	})
	if _, err := write.WriteString("a line\n"); err != nil {
		t.Fatal(err)
	}
	r.await(p.drained(), "a line")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "a line\n")
	syscalls.Close(in)
	r.do(scope.Close)
}

// TestTwoStreamsWithoutDescriptors: without free descriptors, two streams are watched nevertheless,
// and their order is known when there are some.
func TestTwoStreamsWithoutDescriptors(t *testing.T) {
	r := newRig(t)
	r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")}) // so that there is an epoll
	path := filepath.Join(t.TempDir(), "web.log")
	var writers [streams]*os.File
	var c *Collector
	var fds [streams]int
	for i := range fds {
		fds[i], writers[i] = r.fifo()
	}
	r.do(func() {
		c = r.store.NewCollector(r.loop.Root().Child(), "web", Options{Path: path, Split: true})
		for i, s := range c.shared.streams {
			s.source.Attach(fds[i])
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
			t.Error(err)
		}
		err := c.watchFIFOs()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("add() = %v", err)
		}
	})
	want := ""
	logBoth := func() {
		for _, w := range writers {
			if _, err := w.WriteString("a line\n"); err != nil {
				t.Fatal(err)
			}
			want += "a line\n"
			r.poll("the line", func() bool {
				data, _ := os.ReadFile(path)
				return string(data) == want
			})
		}
	}
	logBoth()
	logBoth()
	r.do(func() {
		if err := c.watchFIFOs(); err != nil || c.shared.watch.Inner() == 0 {
			t.Errorf("add() = %v, both %d", err, c.shared.watch.Inner())
		}
	})
	logBoth()
	logBoth()
}
