package logs

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
)

// A screen is what a display has shown. It shows "|" where a line is ended without a line end.
type screen struct {
	syncBuffer
	rig    *rig
	opened atomic.Int32 // logs
	fails  atomic.Bool
	wrote  chan struct{}
}

// show makes the store show its output. It must be called before there are programs.
func (r *rig) show() *screen {
	s := &screen{rig: r, wrote: make(chan struct{}, 1)}
	r.store.ShowOn(&Display{
		Expect: func(string) {},
		Open: func(string) follow.LineWriter {
			s.opened.Add(1)
			return s
		},
	})
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	defer signal(s.wrote)
	if s.fails.Load() {
		return 0, errors.New("closed")
	}
	return s.syncBuffer.Write(p)
}

func (s *screen) EndLine() error {
	if text := s.String(); text != "" && !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "|") {
		_, err := s.Write([]byte("|"))
		return err
	}
	return nil
}

// expect waits until all of want is shown.
func (s *screen) expect(want string) {
	s.rig.Helper()
	for s.Len() < len(want) {
		s.rig.await(s.wrote, "output to be shown after "+s.String())
	}
	logstest.Equal(s.rig, "shown", s.String(), want)
}

// await waits until nothing is left to show.
func (s *screen) await() {
	s.rig.Helper()
	if err := s.rig.store.AwaitShown(s.rig.Context()); err != nil {
		s.rig.Fatal(err)
	}
}

func TestDisplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, "from a predecessor\n")
	r := newRig(t)
	shown := r.show()
	p := r.program(Options{Path: path, MaxSize: 30, Keep: 10})
	p.log("one\n")
	p.log("two\nthree\n")
	shown.expect("one\ntwo\nthree\n")
	p.log("fo")
	shown.expect("one\ntwo\nthree\nfo")
	p.log("ur\n")
	p.log("five")
	r.do(p.scope.Close)
	r.waitForStore()
	shown.await()
	logstest.Equal(t, "shown", shown.String(), "one\ntwo\nthree\nfour\nfive|")
}

// TestDisplayOfQuietProgram: a log without output has no tail.
func TestDisplayOfQuietProgram(t *testing.T) {
	r := newRig(t)
	shown := r.show()
	dir := t.TempDir()
	logstest.WriteFile(t, filepath.Join(dir, "web.log"), "from a predecessor\n")
	p := r.program(Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "err.log"), Split: true})
	r.do(func() {
		p.BeginRun("1", false)
		p.EndRun()
		p.SetOptions(Options{Path: filepath.Join(dir, "new.log")})
	})
	if n := shown.opened.Load(); n > 0 {
		t.Errorf("%d logs without output are shown", n)
	}
	p.log("one\n")
	shown.expect("one\n")
	if n := shown.opened.Load(); n != 1 {
		t.Errorf("%d logs are shown, want 1", n)
	}
}

// TestDisplayEndsLineOfRun: the last line of a run gets no end from the next one, however late it
// is shown.
func TestDisplayEndsLineOfRun(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newRig(t)
		shown := r.show()
		p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
		hold := func(hold func()) { hold() }
		if late {
			hold = shown.hold
		}
		hold(func() {
			r.do(func() { p.BeginRun("1", false) })
			p.log("one")
			r.do(func() { p.EndRun() })
			r.await(p.drained(), "the end of the run")
			r.do(func() { p.BeginRun("2", false) })
			p.log("two\nthr")
		})
		p.log("ee\n")
		shown.expect("one|two\nthree\n")
	}
}

// hold runs f while nothing can be shown.
func (s *screen) hold(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// TestDisplayOfStderr: a log that standard error gets later is shown, too.
func TestDisplayOfStderr(t *testing.T) {
	r := newRig(t)
	shown := r.show()
	dir := t.TempDir()
	p := r.program(Options{Path: filepath.Join(dir, "web.log")})
	p.log("one\n")
	shown.expect("one\n")
	read, stderr := r.fifo()
	r.do(func() {
		p.SetOptions(Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "err.log"), Split: true})
		if err := p.Attach(Stderr, read); err != nil {
			t.Error(err)
		}
	})
	if _, err := stderr.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	shown.expect("one\ntwo\n")
}

// TestDisplayThatFails: what a closed terminal does not show is in the log.
func TestDisplayThatFails(t *testing.T) {
	r := newRig(t)
	shown := r.show()
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	shown.fails.Store(true)
	p.log("one\n")
	r.await(shown.wrote, "the line")
	shown.await()
	shown.fails.Store(false)
	p.log("two\n")
	shown.await()
	logstest.Equal(t, "shown", shown.String(), "")
	logstest.Equal(t, "log", logstest.Joined(t, p.Path()), "one\ntwo\n")
}

// TestDisplayOfDirectLog: what a program has written to its file itself is shown.
func TestDisplayOfDirectLog(t *testing.T) {
	r := newRig(t)
	shown := r.show()
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Direct}
	logstest.WriteFile(t, o.Path, "from a predecessor\n")
	p := r.program(o)
	shown.await()
	f := r.openDirect(p.Collector)
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	shown.expect("one\ntwo\n")
}

// TestDisplayShowsAllInTurn: programs that print faster than their lines are shown do not keep
// others from being shown.
func TestDisplayShowsAllInTurn(t *testing.T) {
	r := newRig(t)
	shown := r.show()
	loud := map[string]*program{}
	var ended atomic.Bool
	r.store.display.Open = func(name string) follow.LineWriter {
		if p := loud[name]; p != nil {
			return lineWriter(func() {
				if !ended.Load() {
					p.log(strings.Repeat("x", 32<<10) + "\n")
				}
			})
		}
		return shown
	}
	for i := range 20 {
		p := r.program(Options{Path: filepath.Join(t.TempDir(), "loud.log")})
		p.Collector.name = strconv.Itoa(i)
		loud[p.Name()] = p
	}
	quiet := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	for _, p := range loud {
		p.log("first\n")
	}
	quiet.log("one\n")
	shown.expect("one\n")
	ended.Store(true)
	shown.await()
}

// A lineWriter is called with each text.
type lineWriter func()

func (w lineWriter) EndLine() error { return nil }

func (w lineWriter) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}
