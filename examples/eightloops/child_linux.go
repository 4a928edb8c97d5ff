package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// A child is a process, the pipe of its output, and its newest line.
type child struct {
	name    string
	process *pidfd.Process
	output  int // read end of the pipe, non-blocking
	open    bool
	partial []byte
	newest  string
	lines   int
	exit    pidfd.Exit
	onLine  func(string)

	mu    sync.Mutex // guards the fields below, for kill
	ended bool
}

// startChild starts a child in its own session, so that Ctrl-C does not reach it.
func startChild(name string, command []string) (*child, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("start %s: %w (run this in the root of the project, or name another by -child)", name, err)
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(p[1])
	attr := &pidfd.Attr{Path: path, Args: command, Env: os.Environ(), Files: []int{0, p[1], 2}, CgroupFD: -1}
	process, err := pidfd.Spawn(attr)
	if err == nil {
		err = unix.SetNonblock(p[0], true)
	}
	if err != nil {
		unix.Close(p[0])
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &child{name: name, process: process, output: p[0], open: true}, nil
}

// read reads the available output, at most one page. It reports whether there is a new line.
func (c *child) read() (bool, error) {
	before := c.lines
	_, err := c.fill()
	return c.lines > before, err
}

// fill is like read, but reports whether there was any output: a line, a part of one, or the end.
func (c *child) fill() (bool, error) {
	var buf [4096]byte
	for {
		n, err := unix.Read(c.output, buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read output of %s: %w", c.name, err)
		default:
			c.open = n > 0
			c.take(buf[:n])
			return true, nil
		}
	}
}

// take notes the complete lines of what was read.
func (c *child) take(p []byte) {
	c.partial = append(c.partial, p...)
	for {
		line, rest, found := bytes.Cut(c.partial, []byte("\n"))
		if !found {
			return
		}
		c.note(string(line))
		c.partial = rest
	}
}

// note notes a line.
func (c *child) note(line string) {
	c.newest = line
	c.lines++
	if c.onLine != nil {
		c.onLine(line)
	}
}

// state returns what the board shows.
func (c *child) state() string {
	if c.ended {
		return fmt.Sprintf("%s (%v)", c.newest, c.exit)
	}
	return c.newest
}

// end notes the end of the process: it kills the rest of its group and reads the last output. It
// reports whether the process has ended.
func (c *child) end() (bool, error) {
	if !readable(c.process.FD(), 0) {
		return false, nil
	}
	c.kill() // the group, while its number cannot be reused
	if err := unix.SetNonblock(c.output, true); err != nil {
		return false, fmt.Errorf("read output of %s: %w", c.name, err)
	}
	for c.open {
		if there, err := c.fill(); err != nil {
			return false, err
		} else if !there {
			break
		}
	}
	return c.reap()
}

func (c *child) reap() (_ bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exit, c.ended, err = c.process.Wait()
	return c.ended, err
}

// kill kills the group of the process unless the process was reaped. Any goroutine may call it.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		_ = c.process.SignalGroup(syscall.SIGKILL) // fails only if the group is empty
	}
}

// close waits for the end of a killed child and closes its descriptors.
func (c *child) close() {
	if c.process.FD() < 0 {
		return
	}
	readable(c.process.FD(), -1)
	_, _ = c.reap() // the result is not needed
	_ = c.process.Close()
	unix.Close(c.output)
}

// file returns a duplicate of the output as a file.
func (c *child) file() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(c.output), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the output of %s: %w", c.name, err)
	}
	return os.NewFile(uintptr(fd), c.name), nil
}

// readable reports whether fd is readable or at its end. It waits for at most timeout milliseconds;
// -1 means without limit.
func readable(fd, timeout int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, timeout)
		if err != unix.EINTR {
			return n > 0
		}
	}
}
