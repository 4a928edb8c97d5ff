package threads

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func threadsNow(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// TestReservedThreadsAreUsed: once threads are reserved, that many goroutines may wait in the
// kernel without a new thread.
func TestReservedThreadsAreUsed(t *testing.T) {
	const n = 50
	if err := Reserve(n); err != nil {
		t.Fatal(err)
	}
	before := threadsNow(t)
	if before < n {
		t.Fatalf("%d threads after Reserve(%d)", before, n)
	}
	for range 5 {
		var waiting, ended sync.WaitGroup
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		waiting.Add(n)
		for range n {
			ended.Go(func() {
				waiting.Done()
				_, _ = unix.Read(pipe[0], make([]byte, 1))
			})
		}
		waiting.Wait()
		for range 100 { // others run meanwhile
			runtime.Gosched()
		}
		unix.Close(pipe[1])
		ended.Wait()
		unix.Close(pipe[0])
	}
	if after := threadsNow(t); after != before {
		t.Errorf("%d threads, then %d: those reserved were not used", before, after)
	}
}

func TestThreadsOfThisUser(t *testing.T) {
	if got, own := threadsOf(os.Getuid()), threadsNow(t); got < own {
		t.Errorf("threadsOf(%d) = %d, this process alone has %d", os.Getuid(), got, own)
	}
	if got := threadsOf(1<<31 - 7); got != 0 {
		t.Errorf("threadsOf(nobody at all) = %d", got)
	}
}

func TestRoomInCgroup(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		most, now string
		want      int
	}{{"100\n", "40\n", 60}, {"10\n", "40\n", 0}} {
		for name, text := range map[string]string{"pids.max": tt.most, "pids.current": tt.now} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := roomIn(dir); got != tt.want {
			t.Errorf("roomIn(%q of %q) = %d, want %d", tt.now, tt.most, got, tt.want)
		}
	}
	if err := os.WriteFile(dir+"/pids.max", []byte("max\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := roomIn(dir); got < 1<<30 {
		t.Errorf("roomIn(without a limit) = %d", got)
	}
}

// TestRoomOfUser: the limit of processes applies to users other than root.
func TestRoomOfUser(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		t.Fatal(err)
	}
	if r := roomHere(); os.Getuid() == 0 && r.processes < 1<<30 && r.limit == "" {
		t.Errorf("roomHere() = %+v", r)
	}
}
