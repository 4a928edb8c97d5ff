package signals

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"
)

// marker is in the environment of a program that ResetInherited has executed again. Its value is
// the pid, which an exec does not change, so a marker from elsewhere is ignored.
const marker = "SUPERD_SIGNALS_RESET"

// nohupMarker tells a program that replaces this one by exec whether this one was started with
// SIGHUP ignored: PID:true or PID:false, with the pid as in marker.
const nohupMarker = "SUPERD_NOHUP"

// startedByNohup reports whether the process was started with SIGHUP ignored, as by nohup(1). After
// an exec during which signals were ignored, the previous program's answer counts.
func startedByNohup() (bool, error) {
	value := os.Getenv(nohupMarker)
	if err := os.Unsetenv(nohupMarker); err != nil {
		return false, err
	}
	if pid, is, ok := strings.Cut(value, ":"); ok && pid == strconv.Itoa(os.Getpid()) {
		return is == "true", nil
	}
	now, err := disposition.Get(syscall.SIGHUP)
	if err != nil {
		return false, fmt.Errorf("read the disposition of SIGHUP: %w", err)
	}
	return now.Ignores(), nil
}

// OutlivesTerminal reports whether the process was started with SIGHUP ignored, as by nohup(1).
func (c *Caught) OutlivesTerminal() bool { return c.nohup }

// Environment returns env for a program that replaces this one by exec, so that OutlivesTerminal is
// the same there.
func (c *Caught) Environment(env []string) []string {
	return append(slices.Clip(env), fmt.Sprintf("%s=%d:%t", nohupMarker, os.Getpid(), c.nohup))
}

// ResetInherited makes sure that the process has no inherited blocked or ignored signals. Call it
// first in main, before there are children. caught has the signals caught by then; nil: none.
//
// A parent may have ignored or blocked signals: nohup, a shell that starts a background job, a
// daemon that blocks what it reads from a signalfd. The kernel keeps that across an exec. Go resets
// a part and passes the signals that it does not handle on to its children, which breaks programs
// that rely on a default: they never get SIGINT, or can't be stopped from the terminal. Each thread
// of the runtime has a mask, and they can't all be changed from here. So one thread clears its mask
// and executes the program again, with the same file, arguments and environment, but nothing
// blocked and nothing ignored. ResetInherited does not return then. This happens at most once: what
// remains after it is an error that names the signals.
//
// Source: execve(2), signal(7); package os/signal, "Changing the behavior of signals".
func ResetInherited(caught *Caught) error {
	again := os.Getenv(marker) == strconv.Itoa(os.Getpid())
	if err := os.Unsetenv(marker); err != nil {
		return fmt.Errorf("reset inherited signals: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked, ignored, err := inherited()
	switch {
	case err != nil:
		return fmt.Errorf("reset inherited signals: %w", err)
	case blocked|ignored == 0:
		return nil
	case again:
		return fmt.Errorf("reset inherited signals: %s", residue(blocked, ignored))
	}
	return fmt.Errorf("reset inherited signals: %w", restart(ignored, caught))
}

// residue describes what is still blocked and ignored.
func residue(blocked, ignored set) string {
	var parts []string
	if blocked != 0 {
		parts = append(parts, fmt.Sprintf("still blocked: %v", blocked))
	}
	if ignored != 0 {
		parts = append(parts, fmt.Sprintf("still ignored: %v", ignored))
	}
	return strings.Join(parts, "; ")
}

// inherited returns the signals that the calling thread blocks, and those that the process ignores.
// In a Go program without calls of signal.Ignore both come from its parent, except those that the
// runtime handles; after a clean start they are empty.
func inherited() (blocked, ignored set, err error) {
	mask, err := disposition.Blocked()
	if err != nil {
		return 0, 0, fmt.Errorf("read the signal mask: %w", err)
	}
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		now, err := disposition.Get(sig)
		if err != nil {
			return 0, 0, fmt.Errorf("read the disposition of signal %d: %w", int(sig), err)
		}
		if now.Ignores() {
			ignored |= only(sig)
		}
	}
	return set(mask), ignored, nil
}

// restart resets the ignored signals to their defaults, clears the mask of the calling thread and
// executes the program again. It returns only on failure.
func restart(ignored set, caught *Caught) error {
	path, err := Executable()
	if err != nil {
		return err
	}
	for sig := range ignored.all() {
		if _, err := disposition.Set(sig, disposition.Default()); err != nil {
			return fmt.Errorf("reset signal %d: %w", int(sig), err)
		}
	}
	if _, err := disposition.SetBlocked(0); err != nil {
		return fmt.Errorf("clear the signal mask: %w", err)
	}
	env := append(os.Environ(), marker+"="+strconv.Itoa(os.Getpid()))
	if caught != nil {
		env = caught.Environment(env)
	}
	return fmt.Errorf("execute %s again: %w", path, syscall.Exec(path, os.Args, env))
}

// Die ends the process by the default action of sig, without the handler of Go's runtime.
func Die(sig syscall.Signal) {
	_, _ = disposition.Set(sig, disposition.Default())
	unix.Kill(os.Getpid(), sig)
	select {}
}

// Executable returns a path of the running program: by its name if that still leads to it, since
// the kernel names a process after the last part of what it executes, else through /proc.
func Executable() (string, error) { return executable("/proc/self/exe") }

// ExecutableOf is Executable of another process.
func ExecutableOf(pid int) (string, error) { return executable(fmt.Sprintf("/proc/%d/exe", pid)) }

func executable(link string) (string, error) {
	running, err := os.Stat(link)
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	name, err := os.Readlink(link)
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	if named, err := os.Stat(name); err == nil && os.SameFile(named, running) {
		return name, nil
	}
	return link, nil
}

// MarkInheritedCloexec sets close-on-exec on every open descriptor except 0, 1 and 2, so that
// children do not get inherited ones. Descriptors opened by the Go runtime and this program have it
// already.
//
// Source: close_range(2), CLOSE_RANGE_CLOEXEC (Linux 5.11); before that, /proc/self/fd.
func MarkInheritedCloexec() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	return markEachCloexec()
}

// markEachCloexec is MarkInheritedCloexec for kernels and sandboxes that refuse close_range.
func markEachCloexec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("set close-on-exec: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		// EBADF: the descriptor of the directory listing itself, already closed.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("set close-on-exec of descriptor %d: %w", fd, err)
		}
	}
	return nil
}
