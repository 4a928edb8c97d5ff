package terminal

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Bridge is a new terminal for another session, whose screen and keyboard are those of this
// process's terminal.
type Bridge struct {
	Terminal *os.File // the new terminal; closed by Begin or Close

	master  *os.File
	outer   int // the descriptor of this process's terminal
	usual   *term.State
	resized chan os.Signal
	shown   chan struct{} // closed when all output is shown
}

// OpenBridge opens a terminal of the size of outer.
func OpenBridge(outer *os.File) (*Bridge, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	b := &Bridge{master: master, outer: int(outer.Fd()), resized: make(chan os.Signal, 1), shown: make(chan struct{})}
	fd := -1
	if err := b.control(func(master int) error {
		if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		// By its number, so that it works in any mount namespace: ioctl_tty(2)
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		fd = int(peer)
		return nil
	}); err != nil {
		master.Close()
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	b.Terminal = os.NewFile(uintptr(fd), "terminal")
	b.resize()
	return b, nil
}

// control calls f with the descriptor of the master, which stays non-blocking.
func (b *Bridge) control(f func(fd int) error) error {
	raw, err := b.master.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = f(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// resize gives the terminal the size of the outer one.
func (b *Bridge) resize() {
	if size, err := unix.IoctlGetWinsize(b.outer, unix.TIOCGWINSZ); err == nil {
		_ = b.control(func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
	}
}

// Begin begins to copy between stdin, stdout and the terminal, which another process has by now.
func (b *Bridge) Begin(stdin io.Reader, stdout io.Writer) (err error) {
	b.Terminal.Close() // so that the master sees when the others have closed it
	if b.usual, err = term.MakeRaw(b.outer); err != nil {
		return fmt.Errorf("set terminal to raw mode: %w", err)
	}
	signal.Notify(b.resized, unix.SIGWINCH)
	go func() {
		for range b.resized {
			b.resize()
		}
	}()
	go func() { _, _ = io.Copy(b.master, stdin) }() // ends with this process
	go func() {
		_, _ = io.Copy(stdout, b.master) // EIO when no process has the terminal any more
		close(b.shown)
	}()
	return nil
}

// lastOutput bounds the wait for output after the end of the command: other processes may keep the
// terminal open.
const lastOutput = 200 * time.Millisecond

// Close ends the bridge when all output is shown. The other session gets SIGHUP.
func (b *Bridge) Close() {
	b.Terminal.Close()
	if b.usual != nil {
		select {
		case <-b.shown:
		case <-time.After(lastOutput):
		}
		signal.Stop(b.resized)
		close(b.resized)
		_ = term.Restore(b.outer, b.usual)
	}
	b.master.Close()
}
