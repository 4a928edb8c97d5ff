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

// Take returns the descriptors that this process was started with, by name, all close-on-exec, and forgets the environment that tells of them: so
// it finds them once, and no child is told. Of several with one name the last counts.
//
// It comes before signals.MarkInheritedCloexec. They count if LISTEN_PID is this process, or if parent says of them that they come from its parent: that can't know the pid of a
// child before the fork.
func Take(parent func(files map[string]int) bool) map[string]int {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	place := placesOf(os.Getenv(gapsVariable))
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
		// What was inherited was not close-on-exec; a number that was not is this program's own by now, or nobody's.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		name := "unknown" // as sd_listen_fds_with_names has it
		if i < len(names) && names[i] != "" {
			name = names[i]
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
	leaveLow(files)
	return files
}

// lowNumbers is how many numbers are left to this program's own descriptors where there are more than that.
const lowNumbers = 48

// leaveLow moves files away from the lowest numbers: what lies there is what a child gets copies of, see pidfd.Slots.
func leaveLow(files map[string]int) {
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

// Exec replaces this process's program by path, which gets files as [Take] has it and everything else that is not close-on-exec. It
// returns only if that failed; then nothing has changed. path has to be absolute, and each of files a number of its own.
//
// limit is the limit of open files that it gets, nil for ours: Go raises the soft one, which is not meant for others.
//
// The descriptors stay where they are, since at 3, 4, …, where the protocol has them, are those of Go's runtime, which uses them to the end:
// [gapsVariable] tells the numbers. A thread gets a table of descriptors to itself, in which they are not close-on-exec and from which it
// executes; other threads never see it, and when the execution fails it goes with the thread.
//
// Source: unshare(2), CLONE_FILES; execve(2).
func Exec(path string, args, env []string, files map[string]int, limit *unix.Rlimit) error {
	fds, names := inOrder(files)
	env = append(environment(env, names, strconv.Itoa(os.Getpid())), gapsVariable+"="+gapsOf(fds))
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_FILES)
		if err == nil {
			err = leaveOpen(fds)
		}
		if err == nil {
			old, limitErr := openFiles(limit)
			err = syscall.Exec(path, args, env)
			if limitErr == nil {
				openFiles(&old)
			}
		}
		failed <- fmt.Errorf("execute %s: %w", path, err)
	}()
	return <-failed
}

// openFiles returns the limit of open files, and sets it unless limit is nil. It goes past package syscall, which would take a limit that is set
// for one to hand to children.
func openFiles(limit *unix.Rlimit) (old unix.Rlimit, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(&old)), 0, 0)
	if errno != 0 {
		return old, errno
	}
	return old, nil
}

// leaveOpen has the calling thread's next program get fds.
func leaveOpen(fds []int) error {
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	return nil
}
