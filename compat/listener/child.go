package listener

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// A child is a process of the listener.
type child struct {
	cmd   *exec.Cmd
	input chan []byte // room for one event: the next is sent when the listener has answered

	stdin, stdout *os.File
	ended         chan struct{} // closed when the process has ended
	drained       chan struct{} // closed at the end of its output
}

// drainTimeout is how long output that was written before the end is waited for: a process that
// the listener has left behind may keep its standard output open.
const drainTimeout = time.Second

// start starts the listener as the process of a name. The caller reads its output, and waits for
// it.
func start(ctx context.Context, o *Options, name string) (*child, error) {
	stdinRead, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdinRead.Close()
	stdout, stdoutWrite, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, err
	}
	defer stdoutWrite.Close()
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env = append(os.Environ(), "SUPERVISOR_ENABLED=1",
		"SUPERVISOR_PROCESS_NAME="+name, "SUPERVISOR_GROUP_NAME="+o.Pool)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdinRead, stdoutWrite, os.Stderr
	detach(cmd)
	if err := cmd.Start(); err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	c := &child{cmd: cmd, input: make(chan []byte, 1), stdin: stdin, stdout: stdout,
		ended: make(chan struct{}), drained: make(chan struct{})}
	go c.write(ctx)
	return c, nil
}

// write passes on events.
func (c *child) write(ctx context.Context) {
	for {
		select {
		case text := <-c.input:
			_, _ = c.stdin.Write(text) // after an error the listener ends, or gets no more
		case <-c.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read calls f with each part of the output, until its end.
func (c *child) read(f func(text []byte)) {
	defer close(c.drained)
	for {
		text := make([]byte, 4096)
		n, err := c.stdout.Read(text)
		if n > 0 {
			f(text[:n])
		}
		if err != nil {
			return
		}
	}
}

// wait returns the exit status of the process when it has ended and its output is read.
func (c *child) wait() int {
	status := statusUnknown
	if state, err := c.cmd.Process.Wait(); err == nil {
		status = statusOf(state)
	}
	close(c.ended)
	select {
	case <-c.drained:
	case <-time.After(drainTimeout):
	}
	for _, f := range []io.Closer{c.stdin, c.stdout} {
		_ = f.Close() // a write that hangs ends
	}
	return status
}

func (c *child) signal(sig os.Signal) { _ = c.cmd.Process.Signal(sig) } // an error: it has ended
func (c *child) kill()                { _ = c.cmd.Process.Kill() }
