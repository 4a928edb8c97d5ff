package signals

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// marker is in the environment of a program that ResetInherited has executed again, with its pid as
// the value, which an execution does not change: so one that comes from elsewhere is not believed.
const marker = "SUPERD_SIGNALS_RESET"

// ResetInherited makes sure that the process has inherited no blocked and no ignored signals. Call it
// first of all in main, before there are goroutines, children or calls of signal.Notify.
//
// Whoever starts us may have ignored or blocked signals: nohup, a shell that starts a background job,
// a daemon that blocks what it reads from a signalfd. The kernel keeps that across an execution, Go
// takes over a part and hands all that it does not handle on to its children, where it breaks
// programs that rely on a default: they never see SIGINT, or cannot be stopped from the terminal. A
// mask belongs to each of the runtime's threads and can't be changed in all of them from here; so it
// is cleared in one, and from that one the program executes itself again: with the same file,
// arguments and environment, but nothing blocked and nothing ignored. Then ResetInherited does not
// return. This happens once at most: what is there after it is an error that names the signals.
//
// Source: execve(2), signal(7); package os/signal, "Changing the behavior of signals".
func ResetInherited() error {
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
	return fmt.Errorf("reset inherited signals: %w", restart(ignored))
}

// residue says what is still blocked and ignored.
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
// In a Go program that has not called signal.Ignore both are what its parent left, less what the
// runtime took for itself; on a clean start they are empty.
func inherited() (blocked, ignored set, err error) {
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &mask); err != nil {
		return 0, 0, fmt.Errorf("read the signal mask: %w", err)
	}
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		var now sigaction
		if err := rtSigaction(sig, nil, &now); err != nil {
			return 0, 0, fmt.Errorf("read the disposition of signal %d: %w", int(sig), err)
		}
		if now.handler == sigIgn {
			ignored |= only(sig)
		}
		if bit := int(sig) - 1; mask.Val[bit/wordBits]>>(bit%wordBits)&1 != 0 {
			blocked |= only(sig)
		}
	}
	return blocked, ignored, nil
}

// restart gives the ignored signals their defaults, clears the mask of the calling thread and
// executes the program again. It returns only if that failed.
func restart(ignored set) error {
	path, err := Executable()
	if err != nil {
		return err
	}
	for sig := range ignored.all() {
		if err := rtSigaction(sig, &sigaction{handler: sigDfl}, nil); err != nil {
			return fmt.Errorf("reset signal %d: %w", int(sig), err)
		}
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return fmt.Errorf("clear the signal mask: %w", err)
	}
	env := append(os.Environ(), marker+"="+strconv.Itoa(os.Getpid()))
	return fmt.Errorf("execute %s again: %w", path, syscall.Exec(path, os.Args, env))
}

// Die ends the process by the default action of sig, past the handler of Go's runtime.
func Die(sig syscall.Signal) {
	_ = rtSigaction(sig, &sigaction{handler: sigDfl}, nil)
	unix.Kill(os.Getpid(), sig)
	select {}
}

// Executable returns a path of the running program: by its name if that still leads to it, since the
// kernel names a process after the last part of what it executes, else through /proc.
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

// Dispositions that are not a handler, and the bits of a word of a signal mask.
const (
	sigDfl = 0
	sigIgn = 1

	wordBits = int(8 * unsafe.Sizeof(unix.Sigset_t{}.Val[0]))
)

// A sigaction is the kernel's struct of that name, of which only the handler is of interest: it comes
// first on all architectures but MIPS. The rest is flags, a mask and, on some, a restorer.
type sigaction struct {
	handler uintptr
	_       [4]uint64
}

// rtSigaction sets the disposition of sig and returns the old one, either only if it is not nil.
//
// Source: rt_sigaction(2). It takes the size of the kernel's sigset_t, 64 bits.
func rtSigaction(sig syscall.Signal, set, old *sigaction) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), maxSignal/8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// MarkInheritedCloexec marks every open descriptor but 0, 1 and 2 as close-on-exec, so that children
// do not get what we have inherited. What the Go runtime and this program open is marked already.
//
// Source: close_range(2), CLOSE_RANGE_CLOEXEC (Linux 5.11); before that, /proc/self/fd.
func MarkInheritedCloexec() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	return markEachCloexec()
}

// markEachCloexec is MarkInheritedCloexec for kernels (and sandboxes) that refuse close_range.
func markEachCloexec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("mark inherited descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		// EBADF: the directory that was just read has been closed again.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("mark inherited descriptor %d: %w", fd, err)
		}
	}
	return nil
}
