package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/internal/mounts"
	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/sink"
)

// TestTurnAfterRouteChange: if the options have changed the route to the log, a turn ends, and one
// with the slots of the new route follows.
func TestTurnAfterRouteChange(t *testing.T) {
	file := Options{Path: filepath.Join(t.TempDir(), "web.log")}
	drops, sink := file, Options{Sink: sink.Syslog, Address: filepath.Join(t.TempDir(), "none")}
	drops.Drop = true
	p := newRig(t).undrained()
	s := p.shared.streams[0]
	for _, o := range []Options{drops, sink, file} {
		p.print("line\n")
		p.rig.do(func() { p.SetOptions(o) })
		before := s.source.Bytes()
		if more, err := s.moveTurn(); !more || !errors.Is(err, errRouteChanged) || s.source.Bytes() != before {
			t.Errorf("moveTurn() = %v, %v with %d of %d bytes in the pipe, want that nothing is moved by the old route", more, err, s.source.Bytes(), before)
		}
	}
	p.mustTurn(false)
	if got := logstest.ReadFile(t, file.Path); got != "line\nline\nline\n" {
		t.Errorf("the log is %q", got)
	}
}

// TestDropDuringATurn: the log changes to overflow = drop during a turn that holds the only
// slot; the change must not wait for it.
func TestDropDuringATurn(t *testing.T) {
	r := newRig(t)
	r.store.writers = fslimit.New(new(mounts.Table), 1, maxWriters)
	r.store.stallTimeout = 50 * time.Millisecond
	o := Options{Path: filepath.Join(t.TempDir(), "web.log")}
	p := r.program(o)
	p.log("first\n")
	o.Drop = true
	n := 0
	cancel := p.Notify(func() {
		switch n++; n {
		case 1:
			p.print("second\n")
			r.do(func() {
				p.EndRun()
				p.SetOptions(o)
			})
		case 2:
			p.print("third\n")
		}
	})
	p.print("now\n")
	r.poll("the second line is written", func() bool { return strings.Contains(p.tail(), "second\n") })
	p.rest()
	cancel()
	p.log("last\n")
	if d := p.Drops(); d != (Drops{}) {
		t.Errorf("%+v: want nothing dropped", d)
	}
}

// TestWorkersAwaitingSlotsAreReplaced: any number of programs whose file system stalls wait for a
// slot there, and delay no others.
func TestWorkersAwaitingSlotsAreReplaced(t *testing.T) {
	const most = 2
	r := newRig(t)
	r.store.poller.SetLimits(most, time.Hour)
	dir, memory := t.TempDir(), "/dev/shm"
	elsewhere, err := os.MkdirTemp(memory, "superd-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(elsewhere) })
	good := r.program(Options{Path: filepath.Join(elsewhere, "good.log")})
	good.log("one\n")
	var blocked []*program
	for i := range 3 * most {
		p := r.program(Options{Path: filepath.Join(dir, fmt.Sprint(i))})
		p.print("one\n")
		blocked = append(blocked, p)
	}
	stalled := r.fileSystemOf(filepath.Join(dir, "0"))
	if stalled == r.fileSystemOf(good.Path()) {
		t.Skipf("%s and %s are one file system", dir, memory)
	}
	// No worker may be draining: one that is may wait for a slot before the file system
	// counts as stalled. So no barrier is used here, with which another goroutine drains.
	for _, p := range blocked {
		r.poll("the first line", func() bool {
			text, _ := os.ReadFile(p.Path())
			return string(text) == "one\n"
		})
		p.rest()
	}
	var held []*fslimit.Slot
	for range writersPerFileSystem {
		held = append(held, must(t, r.store.writers.Acquire(stalled, nil)))
	}
	r.poll("the file system to stall", func() bool { return r.store.writers.Stalls(stalled) })
	for _, p := range blocked {
		p.print("two\n")
	}
	good.print("two\n")
	r.poll("a line that has nothing to wait for", func() bool { return logstest.ReadFile(t, good.Path()) == "one\ntwo\n" })
	for _, h := range held {
		h.Release()
	}
	for _, p := range blocked {
		r.await(p.drained(), "the end of the stall")
	}
	if r.store.writers.Stalls(stalled) {
		t.Error("it stalls yet")
	}
}

// TestNothingIsDroppedAnyMore: when a program no longer drops output, what was dropped within a
// line gets a drop record, and the rest of that line is dropped, too.
func TestNothingIsDroppedAnyMore(t *testing.T) {
	p := newRig(t).undrained()
	s := p.shared.streams[0]
	s.ensureErrors().dropped.cause = errStalled
	s.drop([]byte("one\nhalf a "))
	p.print("line\ntwo\n")
	p.mustTurn(false)
	p.print("three\n")
	p.mustTurn(false)
	dropRecord, rest, _ := strings.Cut(logstest.ReadFile(t, p.Path()), "\n")
	if dropRecord != "superd: 16 bytes in 2 lines were dropped: "+errStalled.Error() || rest != "two\nthree\n" {
		t.Errorf("the log is %q, then %q; want a record of 16 bytes in 2 lines, and two lines", dropRecord, rest)
	}
	if d := p.Drops(); d != (Drops{16, 2, 16, 2}) {
		t.Errorf("%+v: want that drop records report all of it", d)
	}
}

// TestBarrierAfterPartialRecords: the FIFO records for the successor what its next byte belongs to,
// also after the rest of a line that was written in parts.
func TestBarrierAfterPartialRecords(t *testing.T) {
	for _, o := range []Options{{Drop: true}, {Format: frame.Text}, {Sink: sink.Syslog}} {
		r := newRig(t)
		o.Path = filepath.Join(t.TempDir(), "web.log")
		if o.Sink != "" {
			o.Address = filepath.Join(t.TempDir(), "log")
			conn := listen(t, o.Address)
			go func() {
				for buffer := make([]byte, 1000); ; {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
				}
			}()
		}
		p := r.program(o)
		p.print("Loading...")
		r.poll("the part is marked", func() bool {
			return frame.OpenLine(pipe.MarkOf(p.FD(Stdout))) != frame.AtBeginning && p.unwritten() == 0
		})
		p.print(" done\nanother\n")
		r.poll("the line state to be reset", func() bool {
			return frame.OpenLine(pipe.MarkOf(p.FD(Stdout))) == frame.AtBeginning && p.unwritten() == 0
		})
	}
}

// TestBarrierAfterBytesInFlight: output in flight when its log stalled is dropped before later
// output, which the next byte follows.
func TestBarrierAfterBytesInFlight(t *testing.T) {
	tests := []struct {
		name, later, flight string
		lineBytes           int
		want                frame.OpenLine
	}{
		{"the later part of a line", "dropped\nhalf a ", "in flight\n", 7, frame.DroppedLine},
		{"the later end of a line", "f a line\n", "in flight\nhal", 0, frame.AtBeginning},
		{"nothing came later", "", "in flight\nhal", 3, frame.DroppedLine},
		{"and nothing is dropped", "half", "", 4, frame.DroppedLine},
	}
	for _, tt := range tests {
		s := newRig(t).undrained().shared.streams[0]
		s.drop([]byte(tt.later))
		s.prependDrop([]byte(tt.flight))
		if got := frame.OpenLine(pipe.MarkOf(s.source.FD())); got != tt.want || s.dropped.lineBytes != tt.lineBytes {
			t.Errorf("%s: the next byte belongs to %d, with %d of a dropped line before it; want %d and %d", tt.name, got, s.dropped.lineBytes, tt.want, tt.lineBytes)
		}
	}
}
