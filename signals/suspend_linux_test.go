package signals

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// suspendEnv makes the test binary execute itself that many times, with signals suspended
// meanwhile.
const suspendEnv = "SIGNALS_TEST_SUSPEND"

func executeAgain(left string) {
	caught, err := Catch(unix.SIGHUP, unix.SIGINT, unix.SIGUSR1)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString("caught\n")
	n, _ := strconv.Atoi(left)
	if n == 0 {
		return
	}
	caught.Suspend()
	os.Setenv(suspendEnv, strconv.Itoa(n-1))
	panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// TestSuspend: signals that come during an exec don't kill the program.
func TestSuspend(t *testing.T) {
	path, _ := executablePath(t)
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), suspendEnv+"=20")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // it catches them from here on
	go func() {
		for cmd.Process.Signal(unix.SIGHUP) == nil {
		}
	}()
	for n := 1; n <= 20; n++ {
		if !lines.Scan() {
			t.Fatalf("it ended after %d executions of 20: %v", n-1, cmd.Wait())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestSuspendResumed: no signal is dropped that has arrived and was not delivered. Without an exec,
// everything continues as before.
func TestSuspendResumed(t *testing.T) {
	caught, err := Catch(unix.SIGUSR1, unix.SIGUSR2)
	if err != nil {
		t.Fatal(err)
	}
	defer caught.close()
	unix.Kill(os.Getpid(), unix.SIGUSR1)
	for polled := []unix.PollFd{{Fd: int32(caught.r), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(polled, int(deadline.Milliseconds())); n == 1 {
			break
		} else if err != unix.EINTR {
			t.Fatalf("SIGUSR1 does not arrive: %v", err)
		}
	}
	arrived, release := caught.Suspend()
	unix.Kill(os.Getpid(), unix.SIGUSR2) // ignored
	if len(arrived) != 1 || arrived[0] != unix.SIGUSR1 {
		t.Errorf("arrived before Suspend: %v, want SIGUSR1", arrived)
	}
	release()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	l.Root().After(deadline, l.Stop)
	var got []syscall.Signal
	if err := caught.Watch(l.Root(), func(sig syscall.Signal) {
		got = append(got, sig)
		if len(got) == 2 {
			l.Stop() // no further signal, which could come in the next test
			return
		}
		unix.Kill(os.Getpid(), unix.SIGUSR2)
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != unix.SIGUSR1 || got[1] != unix.SIGUSR2 {
		t.Errorf("delivered after resume: %v, want SIGUSR1, then SIGUSR2", got)
	}
}
