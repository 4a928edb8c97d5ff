package harness

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Superd is one run of superd in its site.
type Superd struct {
	*Site
	Pid       int     // of the supervisor, when Start has returned
	KeeperPid int     // of the process that was started; 0 with NoKeeper
	ErrOut    *Output // standard error; standard output is discarded

	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	killed bool          // or aborted, so its programs may live on
}

// Start starts superd run and waits until its control socket answers. The options may change the
// command before.
func (s *Site) Start(options ...func(*exec.Cmd)) *Superd {
	s.T.Helper()
	d := s.Launch(options...)
	Until(s.T, "superd answers", func() bool {
		if d.Ended() {
			s.T.Fatalf("superd run: exit status %d\n%s", d.Exit(), d.ErrOut)
		}
		_, err := s.status()
		return err == nil
	})
	d.FindSupervisor()
	return d
}

// Launch starts superd run and does not wait.
func (s *Site) Launch(options ...func(*exec.Cmd)) *Superd {
	s.T.Helper()
	d := &Superd{Site: s, ErrOut: new(Output), done: make(chan struct{})}
	d.cmd = exec.Command("superd", "run", "-c", s.Config)
	d.cmd.Dir = s.Dir
	d.cmd.Env = s.Env
	d.cmd.Stderr = d.ErrOut
	// A session of its own, as a service manager gives it: a Ctrl-C for the tests must not reach
	// superd.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, o := range options {
		o(d.cmd)
	}
	d.cmd.WaitDelay = Deadline // for a descriptor that a program inherited
	if err := d.cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	if d.Pid = d.cmd.Process.Pid; !slices.Contains(d.cmd.Args, noKeeper) {
		d.KeeperPid = d.Pid
	}
	s.superd = d
	go func() {
		defer close(d.done)
		// Exit returns the exit status.
		_ = d.cmd.Wait()
	}()
	return d
}

// Ended reports whether superd has ended.
func (d *Superd) Ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// FindSupervisor waits until the keeper has a supervisor other than d.Pid, and sets d.Pid to its
// pid.
func (d *Superd) FindSupervisor() {
	d.T.Helper()
	if d.KeeperPid == 0 {
		return
	}
	before := d.Pid
	Until(d.T, "the keeper has started a supervisor", func() bool {
		if d.Pid = supervisorOf(d.KeeperPid); d.Pid == 0 && strings.HasPrefix(commandLine(d.KeeperPid), "superd: terminal") {
			// In a terminal the process that was started is the front process, the parent of the
			// keeper.
			for _, child := range childrenOf(d.KeeperPid) {
				if pid := supervisorOf(child); pid != 0 {
					d.KeeperPid, d.Pid = child, pid
				}
			}
		}
		return d.Pid != 0 && d.Pid != before
	})
}

// Signal sends superd a signal, as its parent or the terminal does.
func (d *Superd) Signal(sig syscall.Signal) {
	d.T.Helper()
	if sig == syscall.SIGKILL || sig == syscall.SIGABRT {
		d.killed = true
	}
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.T.Fatalf("send superd %v: %v", sig, err)
	}
}

// Insist sends superd a signal repeatedly until it has ended, and returns its exit status: a second
// request to shut down counts only a second after the first.
func (d *Superd) Insist(sig syscall.Signal) int {
	d.T.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for timeout := time.After(Deadline); !d.Ended(); {
		select {
		case <-d.done:
		case <-ticker.C:
			if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				d.T.Fatalf("send superd %v: %v", sig, err)
			}
		case <-timeout:
			d.T.Fatalf("superd did not end after repeated %v", sig)
		}
	}
	return d.Exit()
}

// Kill kills keeper and supervisor with SIGKILL and waits for their end. The programs may live on.
func (d *Superd) Kill() {
	d.T.Helper()
	var supervisor *Tracked
	if pid := supervisorOf(d.KeeperPid); d.KeeperPid != 0 && pid != 0 {
		supervisor = d.Track(pid)
		supervisor.process.Signal(syscall.SIGSTOP) // or it might take the keeper's place meanwhile
	}
	d.Signal(syscall.SIGKILL)
	if supervisor != nil {
		supervisor.Kill()
		Until(d.T, "the supervisor has ended", func() bool { return !supervisor.Alive() })
	}
	d.Wait()
}

// Abandon records that superd is killed by other means than Kill: its programs may live on, and
// superd itself may, in another process.
func (d *Superd) Abandon() { d.killed = true }

// Wait waits for the end of superd and returns its exit status, -1 for a signal.
func (d *Superd) Wait() int {
	d.T.Helper()
	Until(d.T, "superd ends", d.Ended)
	return d.Exit()
}

// Exit returns the exit status of a superd that has ended, -1 for a signal.
func (d *Superd) Exit() int { return d.cmd.ProcessState.ExitCode() }

// CPU returns the processor time of a superd that has ended, and of the processes that it reaped.
func (d *Superd) CPU() time.Duration {
	return d.cmd.ProcessState.UserTime() + d.cmd.ProcessState.SystemTime()
}

// end is the clean-up: an orderly shutdown if superd still runs.
func (d *Superd) end() {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.T.Errorf("end superd: %v", err)
	}
	if !within(d.Ended) {
		d.T.Errorf("superd did not end within %v of SIGTERM\n%s", Deadline, d.ErrOut)
		d.killed = true
		d.cmd.Process.Kill()
		<-d.done
	}
	if s := d.ErrOut.String(); strings.Contains(s, "panic:") || strings.Contains(s, "DATA RACE") {
		d.T.Errorf("superd broke:\n%s", s)
	}
}

// Output collects what superd writes.
type Output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Wait waits until the output contains text.
func (o *Output) Wait(t testing.TB, text string) {
	t.Helper()
	o.WaitTimes(t, text, 1)
}

// WaitTimes waits until the output contains text that often.
func (o *Output) WaitTimes(t testing.TB, text string, times int) {
	t.Helper()
	if !within(func() bool { return strings.Count(o.String(), text) >= times }) {
		t.Fatalf("waiting for %q, %d times, in the output of superd, got:\n%s", text, times, o)
	}
}
