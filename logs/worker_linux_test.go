package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/sink"
)

// TestWorkersAreBounded: at most that many workers drain at a time, however many programs print.
func TestWorkersAreBounded(t *testing.T) {
	const most, many = 2, 20
	r := newRig(t)
	r.store.poller.SetLimits(most, time.Hour)
	dir := t.TempDir()
	wrong := make(chan int, 1)
	var programs []*program
	for i := range many {
		p := r.program(Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i))})
		defer p.Notify(func() {
			if n := r.store.poller.State().Working; n > most {
				select {
				case wrong <- n:
				default:
				}
			}
			time.Sleep(time.Millisecond) // the other programs print meanwhile
		})()
		programs = append(programs, p)
	}
	for range 10 {
		for _, p := range programs {
			p.print("a line\n")
		}
	}
	for _, p := range programs {
		r.await(p.drained(), "the lines")
	}
	select {
	case n := <-wrong:
		t.Errorf("%d workers drain, want %d at most", n, most)
	default:
	}
}

// TestBlockedWorkersAreReplaced: a worker that waits for something other than bytes is replaced at
// once, however large blockedAfter is.
func TestBlockedWorkersAreReplaced(t *testing.T) {
	tests := []struct {
		name    string
		options func(dir string) Options
	}{
		{"a file that can't be written", func(dir string) Options { return Options{Path: filepath.Join(dir, "file", "web.log")} }},
		{"the same, output is dropped", func(dir string) Options { return Options{Path: filepath.Join(dir, "file", "web.log"), Drop: true} }},
		{"a sink that is not there", func(dir string) Options { return Options{Sink: sink.Syslog, Address: filepath.Join(dir, "none")} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			r.store.poller.SetLimits(1, time.Hour)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			blocked := r.program(test.options(dir))
			blocked.print("a line\n")
			r.poll("the one that is blocked", func() bool {
				now := r.store.poller.State()
				return now.Alive > now.Waiting && now.Waiting > 0
			})
		})
	}
}

// TestBusyWorkerServesOthers: a program that prints more than a turn moves waits for its next turn
// only while others have output.
func TestBusyWorkerServesOthers(t *testing.T) {
	p := newRig(t).undrained()
	if _, err := unix.FcntlInt(uintptr(p.Collector.FD(Stdout)), unix.F_SETPIPE_SZ, turnBytes); err != nil {
		t.Skipf("cannot make the pipe bigger: %v", err)
	}
	p.rig.do(func() { // it is watched, and no worker waits
		p.store.poller.SetLimits(0, time.Hour)
		if err := p.watchFIFOs(); err != nil {
			t.Error(err)
		}
	})
	p.print(string(make([]byte, turnBytes)))
	p.mustTurn(false)
	if p.shared.streams[0].littleLeft {
		t.Error("its next turn is only after a pause, while its pipe is full")
	}
}
