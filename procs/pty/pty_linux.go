package pty

import (
	"fmt"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// The size of a terminal that no client has set.
const (
	columns = 80
	rows    = 24
)

// Open opens a new terminal and returns its master, non-blocking and close-on-exec.
func Open() (master int, err error) {
	master, err = syscalls.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("open terminal: %w", err)
	}
	err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		syscalls.Close(master)
		return -1, fmt.Errorf("open terminal: %w", err)
	}
	return master, nil
}

// IsMaster reports whether fd is the master of a terminal.
func IsMaster(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err == nil
}

// openSlave returns a program's end of the terminal, which does not become a controlling one.
func openSlave(master int) (fd int, err error) {
	// By its number, so that it works in any mount namespace: ioctl_tty(2)
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1, errno
	}
	return int(peer), nil
}

// OpenSlave returns a program's end of the terminal for a new run as the user uid. The terminal has
// the usual modes again, and no input of an earlier run.
func OpenSlave(master int, uid uint32) (fd int, err error) {
	fd, err = openSlave(master)
	if err != nil {
		return -1, fmt.Errorf("open terminal: %w", err)
	}
	_ = unix.Fchown(fd, int(uid), -1) // a convenience: the program can open it by its name
	_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, usual()); err != nil {
		syscalls.Close(fd)
		return -1, fmt.Errorf("set modes of terminal: %w", err)
	}
	return fd, nil
}

// usual returns the modes of a new terminal, as the kernel has them (tty_std_termios), for UTF-8.
func usual() *unix.Termios {
	t := &unix.Termios{
		Iflag: unix.ICRNL | unix.IXON | unix.IUTF8,
		Oflag: unix.OPOST | unix.ONLCR,
		Cflag: unix.B38400 | unix.CS8 | unix.CREAD | unix.HUPCL,
		Lflag: unix.ISIG | unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHOCTL |
			unix.ECHOKE | unix.IEXTEN,
		Ispeed: unix.B38400, Ospeed: unix.B38400,
	}
	for key, b := range map[int]byte{
		unix.VINTR: 'C', unix.VQUIT: '\\', unix.VKILL: 'U', unix.VEOF: 'D', unix.VSTART: 'Q',
		unix.VSTOP: 'S', unix.VSUSP: 'Z', unix.VREPRINT: 'R', unix.VDISCARD: 'O',
		unix.VWERASE: 'W', unix.VLNEXT: 'V',
	} {
		t.Cc[key] = b & 0x1f // with Ctrl
	}
	t.Cc[unix.VERASE], t.Cc[unix.VMIN] = 0x7f, 1
	return t
}
