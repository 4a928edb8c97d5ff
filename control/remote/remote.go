// Package remote connects to the control socket of a superd on another host, through ssh.
//
// A connection is one ssh that executes `superd ctl proxy` there, which copies between its standard
// input and output and the socket. The proxy writes [Greeting] when it has connected, so a failure
// of ssh, of the remote shell or of superd is known before the first request. No port is open, and
// ssh decides who may do what.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"superd/control"
)

// Greeting is what a proxy writes first, once it is connected to a superd.
const Greeting = "superd proxy 1\n"

// Exit statuses of ssh and of shells.
const (
	statusSSH      = 255 // ssh itself failed; ssh(1)
	statusNotFound = 127 // a shell has not found the command
)

// A Host is a host to connect to.
type Host struct {
	Name    string        // as ssh takes it: user@host, or a name of ssh_config
	SSH     string        // program in place of ssh; empty: ssh
	Args    []string      // arguments of `superd ctl proxy`
	Timeout time.Duration // for a connection; more than 0
}

// CheckName returns an error for a name that ssh would take for an option.
func CheckName(name string) error {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\r\n") {
		return fmt.Errorf("not a host: %q", name)
	}
	return nil
}

// command returns the ssh of a connection. It asks for no password, and notices within some 15
// seconds that the host is gone.
func (h *Host) command() *exec.Cmd {
	seconds := max(1, int(h.Timeout/time.Second))
	args := []string{
		"-T", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", seconds),
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", h.Name, "superd", "ctl", "proxy",
	}
	for _, arg := range h.Args {
		args = append(args, quote(arg))
	}
	return exec.Command(cmp.Or(h.SSH, "ssh"), args...)
}

// quote returns text as one word of a POSIX shell: sshd passes what it executes to one.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Dial connects to the superd of the host. The connection ends its ssh when it is closed.
func (h *Host) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout,
		fmt.Errorf("no answer within %s", h.Timeout))
	defer cancel()
	c, err := h.start()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", h.Name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = c.greeted()
	if !stop() || err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else {
			err = c.explain(err)
		}
		return nil, fmt.Errorf("connect to %s: %w", h.Name, err)
	}
	return c, nil
}

// A conn is a connection: the ends of two pipes, and the ssh at the other ends.
type conn struct {
	in, out *os.File // standard input and output of ssh
	ssh     *exec.Cmd
	stderr  tail
	ended   chan struct{} // closed when ssh has ended

	closeOnce sync.Once
}

func (h *Host) start() (*conn, error) {
	inReader, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	out, outWriter, err := os.Pipe()
	if err != nil {
		inReader.Close()
		in.Close()
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	c := &conn{in: in, out: out, ssh: h.command(), ended: make(chan struct{})}
	c.ssh.Stdin, c.ssh.Stdout, c.ssh.Stderr = inReader, outWriter, &c.stderr
	c.ssh.WaitDelay = time.Second // a process that ssh has left may hold its standard error
	err = c.ssh.Start()
	inReader.Close()
	outWriter.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go func() {
		_ = c.ssh.Wait() // its status is in ProcessState
		close(c.ended)
	}()
	return c, nil
}

// greeted reads the greeting.
func (c *conn) greeted() error {
	got := make([]byte, 0, len(Greeting))
	for len(got) < cap(got) {
		n, err := c.out.Read(got[len(got):cap(got)])
		got = got[:len(got)+n]
		if !strings.HasPrefix(Greeting, string(got)) {
			return fmt.Errorf("unexpected output: %q: does its shell print something at its start?", got)
		}
		if err != nil {
			return errNoGreeting
		}
	}
	return nil
}

var errNoGreeting = errors.New("the connection ended at once")

// explain returns why there is no connection, once ssh has ended.
func (c *conn) explain(err error) error {
	if !errors.Is(err, errNoGreeting) {
		return err
	}
	text := c.stderr.lastLine()
	switch c.ssh.ProcessState.ExitCode() {
	case control.StatusNoSuperd:
		return fmt.Errorf("%w%s", control.ErrNoSuperd, strings.TrimPrefix(text, control.ErrNoSuperd.Error()))
	case statusNotFound:
		return errors.New("superd is not in its PATH: " + cmp.Or(text, "command not found"))
	case statusSSH:
		return errors.New(cmp.Or(text, "ssh failed"))
	}
	return errors.New(cmp.Or(text, c.ssh.ProcessState.String()))
}

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) { return c.out.Read(b) }

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) { return c.in.Write(b) }

// Close ends ssh, and returns when it has ended. The proxy on the host ends by itself.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		c.in.Close()
		c.out.Close()
		select {
		case <-c.ended: // its exit status says why
		case <-time.After(endTimeout):
			_ = c.ssh.Process.Kill() // an error means that it has ended
			<-c.ended
		}
	})
	return nil
}

// endTimeout is how long an ssh may take to end by itself.
const endTimeout = 200 * time.Millisecond

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.out.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return addr{} }

type addr struct{}

// Network implements [net.Addr].
func (addr) Network() string { return "ssh" }

// String implements [net.Addr].
func (addr) String() string { return "ssh" }

// A tail keeps the end of what ssh prints as errors.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// lastLine returns the last line that is not empty.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	return strings.TrimPrefix(strings.TrimSpace(string(lines[len(lines)-1])), "superd: ")
}
