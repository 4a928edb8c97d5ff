package terminal

import (
	"io"

	"golang.org/x/sys/unix"
)

// Keys delivers what is typed on a terminal, key by key and without echo. Ctrl-C and Ctrl-Z still
// send signals.
type Keys struct {
	C <-chan byte // never closed

	fd    int
	usual unix.Termios // settings to restore
}

// OpenKeys reads keys from r until Close. It returns false if r is not a terminal, or if another
// process group is in the foreground: reading would stop this process.
func OpenKeys(r io.Reader) (*Keys, bool) {
	f, ok := r.(interface {
		io.Reader
		Fd() uintptr
	})
	if !ok {
		return nil, false
	}
	typed := make(chan byte)
	k := &Keys{C: typed, fd: int(f.Fd())}
	if !k.Resume() {
		return nil, false
	}
	go func() {
		var key [1]byte
		for {
			n, err := f.Read(key[:])
			if err != nil {
				return
			}
			if n > 0 {
				typed <- key[0]
			}
		}
	}()
	return k, true
}

// Resume turns the echo off. It returns false if this process group is not in the foreground.
func (k *Keys) Resume() bool {
	usual, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return false
	}
	front, err := unix.IoctlGetInt(k.fd, unix.TIOCGPGRP)
	if err != nil || front != unix.Getpgrp() {
		return false
	}
	k.usual = *usual
	changed := *usual
	changed.Lflag &^= unix.ICANON | unix.ECHO
	changed.Cc[unix.VMIN], changed.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(k.fd, unix.TCSETS, &changed) == nil
}

// Close restores the terminal and drops unread input. A nil k is allowed.
func (k *Keys) Close() {
	if k != nil {
		// An error means that the terminal is gone.
		_ = unix.IoctlSetTermios(k.fd, unix.TCSETSF, &k.usual)
	}
}
