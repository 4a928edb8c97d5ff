package keeper

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
)

// threadVariable makes the test binary a process whose first thread has ended.
const threadVariable = "KEEPER_TEST_THREAD"

func init() {
	if os.Getenv(threadVariable) == "" {
		return
	}
	runtime.LockOSThread() // an init function runs on the first thread
	go func() {
		for { // the kernel reports the end of a thread only by its state
			if s, err := procfs.ReadStat(os.Getpid()); err == nil && s.State == 'Z' {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println("ended")
		time.Sleep(time.Minute)
		os.Exit(1)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// TestFirstThreadEnded: a process whose first thread has ended is alive while it has others.
func TestFirstThreadEnded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), threadVariable+"=1")
	fd := -1
	cmd.SysProcAttr = &unix.SysProcAttr{PidFD: &fd}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ended\n" {
		t.Fatalf("read %q, %v, want that the first thread has ended", line, err)
	}
	if pid := pidOf(fd); pid != cmd.Process.Pid {
		t.Errorf("pidOf = %d, want %d", pid, cmd.Process.Pid)
	}
}
