package pidfd

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deadline bounds each wait for an event; only a failing test ever uses it up.
const deadline = 90 * time.Second

// A child is a shell script under test, with pipes of the test as input and output.
type child struct {
	*Process
	in  *os.File // its standard input
	out *bufio.Reader
	end *os.File // read end under out: end of file when the last process with the other end is gone
}

// spawn runs a shell script. Its leftover processes are killed and reaped at the end of the test.
func spawn(t *testing.T, script string) *child {
	t.Helper()
	return spawnAttr(t, &Attr{Path: "/bin/sh", Args: []string{"sh", "-c", script}, CgroupFD: -1})
}

// spawnAttr runs a, with descriptors 0 and 1 (and 2, which is /dev/null) filled in.
func spawnAttr(t *testing.T, a *Attr) *child {
	t.Helper()
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a.Files = append([]int{int(stdin.Fd()), int(stdout.Fd()), int(null.Fd())}, a.Files...)
	p, err := Spawn(a)
	if err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	t.Cleanup(func() {
		if p.exit == nil {
			if err := p.SignalGroup(unix.SIGKILL); err != nil {
				t.Error(err)
			}
			mustExit(t, p)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &child{Process: p, in: in, out: bufio.NewReader(out), end: out}
}

// pipe returns both ends of a pipe, closed at the end of the test at the latest.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	c.end.SetReadDeadline(time.Now().Add(deadline))
	s, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read from the child: %v after %q", err, s)
	}
	return strings.TrimSuffix(s, "\n")
}

// number returns the next line as a number.
func (c *child) number(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(c.line(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// silent waits until no process has the child's output open, and returns the rest of it.
func (c *child) silent(t *testing.T) string {
	t.Helper()
	c.end.SetReadDeadline(time.Now().Add(deadline))
	rest, err := io.ReadAll(c.out)
	if err != nil {
		t.Fatalf("wait for the end of the output: %v", err)
	}
	return string(rest)
}

// await blocks until the descriptor reports one of events.
func await(t *testing.T, p *Process, events int16) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.FD()), Events: events}}
	for end := time.Now().Add(deadline); ; {
		_, err := unix.Poll(fds, int(time.Until(end).Milliseconds()))
		if err == nil && fds[0].Revents&events != 0 {
			return
		}
		if time.Now().After(end) || err != nil && err != unix.EINTR {
			t.Fatalf("poll of process %d: events %#x, %v; want %#x", p.Pid(), fds[0].Revents, err, events)
		}
	}
}

// mustExit waits for the end of the process, reaps it and returns its exit.
func mustExit(t *testing.T, p *Process) Exit {
	t.Helper()
	await(t, p, unix.POLLIN)
	e, ok, err := p.Wait()
	if !ok || err != nil {
		t.Fatalf("Wait() of an ended process = %v, %v, %v", e, ok, err)
	}
	return e
}

// open opens a process that is not a child of the test, and closes it at the end.
func open(t *testing.T, pid int) *Process {
	t.Helper()
	p, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// becomeSubreaper makes this process the parent of orphaned descendants until the end of the test.
func becomeSubreaper(t *testing.T) {
	t.Helper()
	set := func(on uintptr) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	t.Cleanup(func() { set(0) })
}

// status returns a line of /proc/pid/status, without its name.
func status(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in the status of process %d", name, pid)
	return ""
}

// killed returns the exit of a process that a signal ended.
func killed(sig syscall.Signal) Exit { return Exit{Known: true, Signal: sig} }

// outcome returns e without its resource usage.
func outcome(e Exit) Exit {
	e.UserTime, e.SystemTime, e.MaxRSSBytes = 0, 0, 0
	return e
}
