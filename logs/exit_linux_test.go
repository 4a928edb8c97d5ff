package logs

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/fslimit"
	"superd/logs/pipe"
)

// isOpen reports whether the descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// TestPrepareExit: a superd about to exit leaves only its FIFOs to the kernel: it closes log files,
// calls waiting callbacks and reports dropped output.
func TestPrepareExit(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	quiet := r.program(Options{Program: "quiet", Path: filepath.Join(dir, "quiet.log")})
	wrote := r.program(Options{Program: "wrote", Path: filepath.Join(dir, "wrote.log")})
	fails := r.program(Options{Program: "fails", Path: filepath.Join(dir, "quiet.log", "no-directory")})
	wrote.log("line\n")
	quiet.log("line\n")
	wrote.rest()
	fails.print("lost\n")
	r.poll("the failure to be logged", func() bool { return strings.Contains(r.log.String(), "does not get into its log") })
	if !hasOpen(t, wrote.Path()) {
		t.Fatal("the log file is not open")
	}
	var fds []int
	notified := make(chan struct{}, 10)
	r.do(func() {
		r.store.PrepareExit()
		for _, p := range []*program{quiet, wrote, fails} {
			fds = append(fds, p.FD(Stdout))
			p.Notify(func() { notified <- struct{}{} })
			p.scope.Close()
		}
	})
	r.waitForStore()
	for _, fd := range fds {
		if !isOpen(fd) {
			t.Errorf("read end %d was closed", fd)
		}
		syscalls.Close(fd)
	}
	if hasOpen(t, wrote.Path()) {
		t.Error("the log file is still open")
	}
	if len(notified) != 3 {
		t.Errorf("%d of 3 were notified of the end", len(notified))
	}
	if !strings.Contains(r.log.String(), "output lost") {
		t.Errorf("what is lost is not logged:\n%s", r.log.String())
	}
}

// TestDrainedAtOnce: Drained calls back at once if the output of the run is in its log already.
func TestDrainedAtOnce(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	p := r.program(Options{Path: filepath.Join(dir, "web.log")})
	p.log("line\n")
	p.rest()
	r.do(func() {
		if !p.EndRun() || !p.DrainedOrFailed(func(error) { t.Error("it is called later as well") }) {
			t.Error("all is in the file, and it is not known")
		}
	})
	blocked := r.program(Options{Path: filepath.Join(dir, "web.log", "no-directory")})
	blocked.print("line\n")
	r.do(func() {
		if blocked.EndRun() {
			t.Error("what can't be written is said to be in the file")
		}
	})
}

// TestClosedWhileItsLogStalls: a collector that closes while it waits for a slot of its file system
// leaves what is in the pipe, for a successor, also where it may drop output.
func TestClosedWhileItsLogStalls(t *testing.T) {
	for _, drop := range []bool{false, true} {
		r := newRig(t)
		p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log"), Drop: drop})
		device := r.fileSystemOf(p.Path())
		var held []*fslimit.Slot
		for range writersPerFileSystem {
			held = append(held, must(t, r.store.writers.Acquire(device, nil)))
		}
		p.print("one\n")
		r.poll("it to wait for a slot", func() bool { return r.store.writers.Users(device) == writersPerFileSystem+1 })
		var read int
		r.do(func() {
			read = p.FD(Stdout)
			r.store.PrepareExit()
			p.scope.Close()
		})
		r.waitForStore()
		if n := pipe.Bytes(read); n != 4 {
			t.Errorf("drop %v: %d bytes are in the pipe, want all 4", drop, n)
		}
		if d := p.Drops(); d != (Drops{}) {
			t.Errorf("drop %v: %+v were dropped, want nothing", drop, d)
		}
		syscalls.Close(read)
		for _, h := range held {
			h.Release()
		}
	}
}

// TestLossOfARemovedProgram: superd logs how much is lost when a program is removed while its log
// stalls, for there is no successor.
func TestLossOfARemovedProgram(t *testing.T) {
	for _, drop := range []bool{false, true} {
		r := newRig(t)
		p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log"), Drop: drop})
		device := r.fileSystemOf(p.Path())
		var held []*fslimit.Slot
		for range writersPerFileSystem {
			held = append(held, must(t, r.store.writers.Acquire(device, nil)))
		}
		p.print("one\n")
		r.poll("it to wait for a slot", func() bool { return r.store.writers.Users(device) == writersPerFileSystem+1 })
		drained := make(chan bool, 1)
		r.do(func() {
			p.Drained(func() { drained <- true })
			p.scope.Close()
		})
		<-drained
		for _, h := range held {
			h.Release()
		}
		r.waitForStore()
		if said := r.log.String(); !strings.Contains(said, "output lost") || !strings.Contains(said, "bytes=4") {
			t.Errorf("drop %v: nothing says that 4 bytes are lost:\n%s", drop, said)
		}
	}
}
