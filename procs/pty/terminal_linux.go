// Package pty is the terminal of a program with pty = true.
//
// superd and the keeper hold its master, so that the program outlives each of them. A [Terminal]
// copies what the program writes from the master into the FIFO from which the log is read, and to
// the clients that are attached; it copies their input to the program.
//
// What is read from the master is in no store until it is in the FIFO. So the copy reads only when
// the FIFO takes a whole read at once, and writes it before anything else: a SIGKILL just between
// the two loses at most maxRead bytes.
package pty

import (
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// maxRead is the longest read: with a carriage return that was held back, it is at most what a pipe
// takes whole, PIPE_BUF of pipe(7).
const maxRead = 4095

// A Terminal copies between the master of a terminal, the log and clients, on a goroutine of its
// own. Its methods never block, and may be called from any goroutine.
type Terminal struct {
	log *slog.Logger
	// Duplicates of its own, closed by the copy: the master; a program's end, so that the master
	// has no end of file between two runs; and an eventfd that wakes the copy
	master, slave, wake int

	mu             sync.Mutex
	fifo           int // writes to the log; -1: not yet
	raw            bool
	filter         filter
	unwritten      []byte
	buf            [maxRead]byte
	paused, closed bool
	clients        map[*Client]struct{}
}

// Begin begins to copy the terminal with that master, once [Terminal.SetOutput] is called.
func Begin(master int, log *slog.Logger) (*Terminal, error) {
	t := &Terminal{log: log, master: -1, slave: -1, wake: -1, fifo: -1, clients: map[*Client]struct{}{}}
	var err error
	if t.master, err = unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		t.master = -1
	} else if t.slave, err = openSlave(master); err != nil {
		t.slave = -1
	} else if t.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		t.wake = -1
	}
	if err != nil {
		t.release()
		return nil, fmt.Errorf("hold terminal: %w", err)
	}
	go t.copy()
	return t, nil
}

func (t *Terminal) release() {
	for _, fd := range []int{t.master, t.slave, t.wake, t.fifo} {
		if fd >= 0 {
			syscalls.Close(fd)
		}
	}
}

// SetOutput sets the FIFO, by its read end, that gets the output: with raw byte for byte, otherwise
// without the carriage returns before line feeds.
func (t *Terminal) SetOutput(readEnd int, raw bool) error {
	fifo, err := syscalls.Open(fmt.Sprintf("/proc/self/fd/%d", readEnd), unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return fmt.Errorf("open FIFO for terminal: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		syscalls.Close(fifo)
		return nil
	}
	before := t.fifo
	t.fifo, t.raw = fifo, raw
	if before >= 0 {
		syscalls.Close(before)
	}
	t.rouse()
	return nil
}

// rouse makes the copy look at what has changed.
func (t *Terminal) rouse() { _, _ = syscalls.Write(t.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// Pause ends the copy where nothing is lost, before another binary is executed; Resume continues
// it if that failed.
func (t *Terminal) Pause() { t.setPaused(true) }

// Resume continues the copy.
func (t *Terminal) Resume() { t.setPaused(false) }

func (t *Terminal) setPaused(paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.paused = paused; !paused {
		t.rouse()
	}
}

// Close ends the copy, and cuts the clients.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	for c := range t.clients {
		t.cut(c, "the program has no terminal any more")
	}
	t.rouse()
}

// maxDrain bounds what Drain copies: far more than the kernel keeps for a terminal.
const maxDrain = 64

// Drain copies what the program has written by now, as far as the FIFO takes it.
func (t *Terminal) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range maxDrain {
		if !t.step() {
			return
		}
	}
}

// copy copies until the terminal is closed.
func (t *Terminal) copy() {
	for {
		t.mu.Lock()
		if t.closed {
			t.release()
			t.mu.Unlock()
			return
		}
		for range maxDrain {
			if !t.step() {
				break
			}
		}
		fds := []unix.PollFd{{Fd: int32(t.wake), Events: unix.POLLIN}}
		switch {
		case t.fifo < 0 || t.paused:
		case ready(t.fifo, unix.POLLOUT) && len(t.unwritten) == 0:
			fds = append(fds, unix.PollFd{Fd: int32(t.master), Events: unix.POLLIN})
		default:
			fds = append(fds, unix.PollFd{Fd: int32(t.fifo), Events: unix.POLLOUT})
		}
		t.mu.Unlock()
		err := syscalls.Retry(func() error {
			_, err := unix.Poll(fds, -1)
			return err
		})
		if err != nil {
			t.log.Error("terminal of a program not copied any more", "error", err)
			return
		}
		if fds[0].Revents != 0 {
			_, _ = syscalls.RetryInt(func() (int, error) { return unix.Read(t.wake, make([]byte, 8)) })
		}
	}
}

// ready reports whether fd is ready for events now.
func ready(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&events != 0
}

// step copies one read, and reports whether there may be more.
func (t *Terminal) step() bool {
	if t.closed || t.paused || t.fifo < 0 || !ready(t.fifo, unix.POLLOUT) {
		return false
	}
	if len(t.unwritten) > 0 && !t.write(t.unwritten) {
		return false
	}
	n, err := syscalls.RetryInt(func() (int, error) { return unix.Read(t.master, t.buf[:]) })
	if err != nil || n <= 0 {
		return false // nothing to read: all else ends the program, too
	}
	read := t.buf[:n]
	text := read
	if !t.raw {
		text = t.filter.filter(read)
	}
	more := t.write(text)
	t.show(read)
	return more
}

// write writes text to the log, and keeps what the FIFO does not take.
func (t *Terminal) write(text []byte) (whole bool) {
	n, err := syscalls.Write(t.fifo, text)
	if err != nil || n < 0 {
		n = 0
	}
	t.unwritten = append([]byte(nil), text[n:]...)
	return n == len(text)
}
