package harness

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo terminal as a person at a keyboard has it.
type Terminal struct {
	Screen *Output // everything written to it

	t      testing.TB
	master *os.File
	slave  *os.File
}

// NewTerminal makes a terminal of the given size.
func NewTerminal(t testing.TB, columns, rows int) *Terminal {
	t.Helper()
	// Non-blocking, so that Close wakes the reader.
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	err = conn.Control(func(fd uintptr) {
		size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		if failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size); failed != nil {
			return
		}
		number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	if err != nil || failed != nil {
		t.Fatalf("set up terminal: %v, %v", err, failed)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	term := &Terminal{Screen: new(Output), t: t, master: master, slave: slave}
	go io.Copy(term.Screen, master) // until master is closed
	return term
}

// Run is an option of Site.Start: superd in this terminal, as its foreground process group.
func (term *Terminal) Run(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctty is descriptor 0
}

// Command returns a superd command of the site in this terminal.
func (term *Terminal) Command(s *Site, args ...string) *exec.Cmd {
	cmd := s.Command(args...)
	cmd.Env = append(s.Env, "TERM=xterm")
	term.Run(cmd)
	return cmd
}

// Echoes reports whether the terminal echoes what is typed, line by line, as a shell expects.
func (term *Terminal) Echoes() bool {
	term.t.Helper()
	attr, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return attr.Lflag&unix.ECHO != 0 && attr.Lflag&unix.ICANON != 0
}

// Type types keys.
func (term *Terminal) Type(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.master, keys); err != nil {
		term.t.Fatal(err)
	}
}

// Hangup closes the terminal, as its window does.
func (term *Terminal) Hangup() {
	term.t.Helper()
	if err := term.master.Close(); err != nil {
		term.t.Fatal(err)
	}
}
