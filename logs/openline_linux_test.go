package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/logs/frame"
	"superd/logs/frame/frametest"
	"superd/logs/pipe"
	"superd/logs/sink"
)

// TestPrioritiesOfPieces: only the start of a line can have a priority, which applies to all its
// pieces, also if a write of the rest fails, if a successor writes the rest, and if a run ends
// before it.
func TestPrioritiesOfPieces(t *testing.T) {
	address := filepath.Join(t.TempDir(), "journal")
	conn := listen(t, address)
	r := newRig(t)
	o := Options{Program: "web", Sink: sink.Journald, Address: address}
	p := r.program(o)
	r.do(func() { p.BeginRun("1", false) })
	want := func(line, priority string, partial bool) {
		t.Helper()
		fields, err := frametest.Journal([]byte(receive(t, conn)))
		got := fmt.Sprintf("%.20q of %d, priority %s, partial %t", fields["MESSAGE"], len(fields["MESSAGE"]), fields["PRIORITY"], fields["SUPERD_PARTIAL"] == "1")
		if want := fmt.Sprintf("%.20q of %d, priority %s, partial %t", line, len(line), priority, partial); err != nil || got != want {
			t.Errorf("message is %s, %v, want %s", got, err, want)
		}
	}
	succeed := func(open func() int) {
		t.Helper()
		r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
		next := open()
		r.do(p.scope.Close)
		p = &program{rig: r, File: p.File}
		r.do(func() {
			p.scope = r.loop.Root().Child()
			p.Collector = r.store.NewCollector(p.scope, "web", o)
			if err := p.Attach(Stdout, next); err != nil {
				r.Error(err)
			}
			p.ResumeRun("1")
		})
	}
	fromStore := func() int { // as the keeper stores it
		fd, err := unix.FcntlInt(uintptr(p.FD(Stdout)), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	byPath := func() int {
		path, err := os.Readlink(fmt.Sprint("/proc/self/fd/", p.File.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		fd, err := pipe.AdoptFIFO(path)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	const usual = "6"

	p.print("abc")
	want("abc", usual, true)
	p.print("<0>rest\n<2>next\n")
	want("<0>rest", usual, false)
	want("next", "2", false)

	long := strings.Repeat("x", frame.MaxLine-3)
	p.print("<3>" + long + "<0>" + long + "y\n<7>\n")
	want(long, "3", true)
	want("<0>"+long, "3", true)
	want("y", "3", false)
	want("", "7", false)

	p.print("<4>abc")
	want("abc", "4", true)
	succeed(fromStore)
	p.print("<0>")
	want("<0>", "4", true)
	succeed(fromStore)
	p.print("rest\n")
	want("rest", "4", false)
	succeed(fromStore)
	p.print("<5>line\n")
	want("line", "5", false)
	succeed(byPath)
	p.print("<0>rest?\n<5>line\n")
	want("<0>rest?", usual, false)
	want("line", "5", false)

	p.print("<1>abc")
	want("abc", "1", true)
	r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
	r.do(func() { p.EndRun(); p.BeginRun("2", false) })
	p.print("<5>of another run\n")
	want("of another run", "5", false)
}

// TestPriorityAfterADroppedLine: the rest of a line whose start was dropped is not a line of its
// own for any writer.
func TestPriorityAfterADroppedLine(t *testing.T) {
	p := newRig(t).program(Options{Program: "web", Sink: sink.Journald, Address: filepath.Join(t.TempDir(), "journal"), Drop: true})
	p.print("<3>abc")
	p.rig.poll("it is dropped", func() bool { bytes, _ := p.Dropped(); return bytes == 6 })
	if got := frame.OpenLine(pipe.MarkOf(p.FD(Stdout))); got != frame.DroppedLine {
		t.Errorf("after a part of a line was dropped the next byte belongs to %d, want %d", got, frame.DroppedLine)
	}
	p.print("<0>rest\n")
	p.rig.poll("the rest is", func() bool { bytes, _ := p.Dropped(); return bytes == 14 })
	if got := frame.OpenLine(pipe.MarkOf(p.FD(Stdout))); got != frame.AtBeginning {
		t.Errorf("after all of it was dropped the next byte belongs to %d, want %d", got, frame.AtBeginning)
	}
}

// TestPieceAtTheEndOfARun: a line with a message already sent ends with its run, even if another
// Line is being written then.
func TestPieceAtTheEndOfARun(t *testing.T) {
	address := filepath.Join(t.TempDir(), "journal")
	conn := listen(t, address)
	p := newRig(t).twoStreams(Options{Program: "web", Sink: sink.Journald, Address: address})
	p.print("<1>abc")
	receive(t, conn)
	p.printError("def")
	p.rig.do(func() { p.EndRun() })
	receive(t, conn)
	p.awaitDrained() // later output comes after the end
	p.print("<5>of another run\n")
	fields, err := frametest.Journal([]byte(receive(t, conn)))
	if err != nil || fields["PRIORITY"] != "5" {
		t.Errorf("message is %v, %v, want priority 5", fields, err)
	}
}
