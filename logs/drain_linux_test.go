package logs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/read"
)

// undrained returns a program without a drain of its own: the test calls moveTurn.
func (r *rig) undrained() *program {
	in, write := r.fifo()
	p := &program{rig: r, File: write}
	r.do(func() {
		p.scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(p.scope, "web", Options{Path: filepath.Join(r.TempDir(), "web.log")})
		p.shared.streams[0].source.Attach(in)
		p.state.Store(draining)
		p.setWakeup(read.NewWakeup())
	})
	r.Cleanup(func() {
		r.do(p.scope.Close)
		p.release()
	})
	return p
}

func (p *program) mustTurn(wantMore bool) {
	p.rig.Helper()
	if more, err := p.shared.streams[0].moveTurn(); more != wantMore || err != nil {
		p.rig.Fatalf("turn() = %v, %v, want %v", more, err, wantMore)
	}
}

// TestTurnEnds: a turn releases its slot after a while, however much there is to read.
func TestTurnEnds(t *testing.T) {
	p := newRig(t).undrained()
	if _, err := unix.FcntlInt(uintptr(p.Collector.FD(Stdout)), unix.F_SETPIPE_SZ, turnBytes); err != nil {
		t.Skipf("cannot make the pipe bigger: %v", err)
	}
	p.print(string(make([]byte, turnBytes)))
	p.mustTurn(true)
	p.mustTurn(false)
	if got := len(logstest.ReadFile(t, p.Path())); got != turnBytes {
		t.Errorf("%d bytes in the file, want %d", got, turnBytes)
	}
}

// TestTurnMakesNoEmptyFile: after a log file was moved away, no new one is created before there is
// a byte for it.
func TestTurnMakesNoEmptyFile(t *testing.T) {
	r := newRig(t)
	r.shortenDelays()
	p := r.undrained()
	p.print("one\n")
	p.mustTurn(false)
	if err := os.Rename(p.Path(), p.Path()+".1"); err != nil {
		t.Fatal(err)
	}
	p.mustTurn(false)
	if _, err := os.Stat(p.Path()); err == nil {
		t.Error("a file was made without a byte for it")
	}
	p.print("two\n")
	p.mustTurn(false)
	logstest.Equal(t, "the moved file", logstest.ReadFile(t, p.Path()+".1"), "one\n")
	logstest.Equal(t, "the new file", logstest.ReadFile(t, p.Path()), "two\n")
}

func TestTurnOfClosingCollector(t *testing.T) {
	p := newRig(t).undrained()
	p.print("one\n")
	p.state.Store(closing)
	p.mustTurn(false)
	if got := pipe.Bytes(p.Collector.FD(Stdout)); got != 4 {
		t.Errorf("%d bytes are left in the FIFO, want all 4", got)
	}
}

// TestBarrierHasItsPosition: a barrier stands for the output at its creation: it neither waits for
// later output nor includes it.
func TestBarrierHasItsPosition(t *testing.T) {
	p := newRig(t).undrained()
	p.print("old")
	var atBarrier string
	p.addBarrier(outputBarrier, func() { atBarrier = logstest.ReadFile(t, p.Path()) })
	p.EndRun()
	p.shared.streams[0].nextLimit()
	p.print("new\n")
	p.mustTurn(false)
	if atBarrier != "old" {
		t.Errorf("the file at the barrier is %q, want old", atBarrier)
	}
	if got := p.lastLine(); got != "new" {
		t.Errorf("lastLine() = %q, want new: the run before has ended", got)
	}
}

// TestBarrierIsReachedWhenFIFOIsEmpty: a barrier is reached although the program has read its own
// output back.
func TestBarrierIsReachedWhenFIFOIsEmpty(t *testing.T) {
	p := newRig(t).undrained()
	p.print("gone")
	reached := false
	p.addBarrier(outputBarrier, func() { reached = true })
	p.shared.streams[0].nextLimit()
	if n, err := p.File.Read(make([]byte, 10)); n != 4 || err != nil {
		t.Fatalf("read of the program's own output = %d, %v", n, err)
	}
	p.mustTurn(false)
	if !reached {
		t.Error("the barrier waits for bytes that are no longer there")
	}
	if _, err := os.Stat(p.Path()); err == nil {
		t.Error("a file was made without a byte for it")
	}
}
