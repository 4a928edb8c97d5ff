package pidfd

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReopen(t *testing.T) {
	child := spawn(t, "read x")
	id, err := child.Identity()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Reopen(id)
	if err != nil {
		t.Fatalf("Reopen(%v): %v", id, err)
	}
	if now, err := second.Identity(); now != id || err != nil {
		t.Errorf("reopened, it is %v, %v, want %v", now, err, id)
	}
	defer second.Close()

	other := id
	if other.Inode != 0 {
		other.Inode++
	} else {
		other.Start++
	}
	if p, err := Reopen(other); !errors.Is(err, ErrGone) {
		t.Errorf("Reopen(%v) = %v, %v while %v lives, want ErrGone", other, p, err, id)
	}
	for _, wanted := range []Identity{id, other} {
		fd, err := unix.FcntlInt(uintptr(child.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Take(fd, wanted)
		if wanted == id && err != nil || wanted == other && !errors.Is(err, ErrGone) {
			t.Errorf("Take(%v) = %v, %v; it is %v", wanted, p, err, id)
		}
		if p != nil {
			p.Close()
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the descriptor for %v is still open: %v", wanted, err)
		}
	}

	if second.Gone() {
		t.Error("it counts as gone, but lives")
	}
	child.in.Close()
	mustExit(t, child.Process)
	if !second.Gone() {
		t.Error("it was reaped and does not count as gone")
	}
	if p, err := Reopen(id); !errors.Is(err, ErrGone) {
		t.Errorf("Reopen(%v) = %v, %v after its end, want ErrGone", id, p, err)
	}
}

// TestOpenThread: a pid may be that of another process's thread.
func TestOpenThread(t *testing.T) {
	tids, done := make(chan int), make(chan bool)
	defer close(done)
	for range 2 { // at least one of them is not the main thread, whose number is the pid
		go func() {
			runtime.LockOSThread()
			tids <- unix.Gettid()
			<-done
		}()
	}
	for range 2 {
		if id := <-tids; id != os.Getpid() {
			if p, err := Open(id); !errors.Is(err, ErrGone) {
				t.Errorf("Open(%d) = %v, %v; that is a thread: want ErrGone", id, p, err)
			}
		}
	}
}
