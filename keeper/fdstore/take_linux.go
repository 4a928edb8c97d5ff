package fdstore

import (
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

// Take returns the descriptors that this process was started with, by name, all close-on-exec. It
// removes the environment variables that describe them, so a second call finds none, and children
// don't see them. Of several with one name the last counts.
//
// own reports whether a name is one under which this program stores descriptors. All others that
// systemd passes come from a socket unit, where several may have one name: they are there under
// names that [Given] understands.
//
// Call it before signals.MarkInheritedCloexec. The descriptors count if LISTEN_PID is this process,
// or if parent confirms that they are from the parent process: it can't know the pid of a child
// before the fork.
func Take(parent func(files map[string]int) bool, own func(name string) bool) map[string]int {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	gaps := os.Getenv(gapsVariable)
	place, bySystemd := numbersOf(gaps), pid != "" && gaps == ""
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", gapsVariable} {
		os.Unsetenv(name)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n <= 0 || n > math.MaxInt32 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil
	}
	files := make(map[string]int, min(n, len(names)))
	for i := range n {
		fd := place(i)
		// Inherited descriptors were not close-on-exec; another number is closed, or was opened by
		// this program.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		name := "unknown" // as in sd_listen_fds_with_names(3)
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		if bySystemd && !own(name) {
			name = fmt.Sprintf("%s%d/%s", givenPrefix, i, name)
		}
		if earlier, ok := files[name]; ok {
			unix.Close(earlier)
		}
		unix.CloseOnExec(fd)
		files[name] = fd
	}
	if pid == "" && !parent(files) {
		return nil
	}
	moveUp(files)
	return files
}

// lowNumbers is how many low numbers are left free for this program's own descriptors, if more than
// that were passed.
const lowNumbers = 48

// moveUp moves files away from the lowest numbers, since children get copies of those: see
// pidfd.Slots.
func moveUp(files map[string]int) {
	if len(files) <= lowNumbers {
		return
	}
	for name, fd := range files {
		if fd >= FirstFD+lowNumbers {
			continue
		}
		if moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, FirstFD+lowNumbers); err == nil {
			unix.Close(fd)
			files[name] = moved
		}
	}
}

// Exec replaces this process's program by path, which gets files in the form that [Take] expects,
// and all else that is not close-on-exec. It returns only on failure; then nothing has changed.
// path must be absolute, and the descriptors in files must differ.
//
// limit is the limit on open files for the new program, nil for the current one: Go raises the soft
// limit for itself only.
//
// The descriptors keep their numbers and [gapsVariable] passes them: 3, 4, …, which the protocol
// expects, belong to Go's runtime until the end. A thread gets its own descriptor table, clears
// close-on-exec in it, and executes from it. Other threads never see that table, and after a
// failure it goes away with the thread. If the kernel refuses a separate table, all threads see the
// change, and no child may be forked meanwhile.
//
// Source: unshare(2), CLONE_FILES; close_range(2), CLOSE_RANGE_UNSHARE; execve(2).
func Exec(path string, args, env []string, files map[string]int, limit *unix.Rlimit) error {
	fds, names := inOrder(files)
	env = append(environment(env, names, strconv.Itoa(os.Getpid())), gapsVariable+"="+gapsOf(fds))
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		own := ownTable()
		err := leaveOpen(fds)
		if err == nil {
			old, limitErr := openFiles(limit)
			err = syscall.Exec(path, args, env)
			if limitErr == nil {
				openFiles(&old)
			}
		}
		if !own {
			closeOnExec(fds)
		}
		failed <- fmt.Errorf("execute %s: %w", path, err)
	}()
	return <-failed
}

// openFiles returns the limit on open files, and sets it to limit unless that is nil. It bypasses
// the package syscall, which would pass the limit on to children.
func openFiles(limit *unix.Rlimit) (old unix.Rlimit, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(&old)), 0, 0)
	if errno != 0 {
		return old, errno
	}
	return old, nil
}

// ownTable gives the calling thread its own descriptor table, and reports whether it could.
// Container engines refuse unshare without CAP_SYS_ADMIN, and allow close_range.
func ownTable() bool {
	const beyondAll, unshare = math.MaxInt32, 2
	return unix.Unshare(unix.CLONE_FILES) == nil || unix.CloseRange(beyondAll, math.MaxUint32, unshare) == nil
}

// closeOnExec reverts leaveOpen.
func closeOnExec(fds []int) {
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
}

// leaveOpen clears close-on-exec of fds for the calling thread.
func leaveOpen(fds []int) error {
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	return nil
}
