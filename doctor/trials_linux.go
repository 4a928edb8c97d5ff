package doctor

import (
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func prctlSubreaper(is *int32) error {
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(is)), 0, 0, 0)
}

// acceptNone accepts from a socket that nobody knows: none waits, which is EAGAIN.
func acceptNone() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The kernel chooses a name. Whether it may listen, the control socket shows
	if unix.Bind(fd, &unix.SockaddrUnix{}) != nil || unix.Listen(fd, 1) != nil {
		return nil
	}
	_, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC)
	return err
}

// passMessage sends itself a message.
func passMessage() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	_, _, _, _, err = unix.Recvmsg(pair[1], make([]byte, 1), nil, unix.MSG_DONTWAIT)
	return err
}

// epollPwait2 waits on an empty epoll instance with a time-out of 0.
func epollPwait2() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var event unix.EpollEvent
	var none struct{ sec, nsec int64 }
	_, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(fd), uintptr(unsafe.Pointer(&event)), 1, uintptr(unsafe.Pointer(&none)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// splice moves no data: the pipe is empty, which is EAGAIN.
func splice() error {
	return withPipes(func(from, to int) error {
		_, err := unix.Splice(from, nil, to, nil, 1, unix.SPLICE_F_NONBLOCK)
		return err
	})
}

func tee() error {
	return withPipes(func(from, to int) error {
		_, err := unix.Tee(from, to, 1, unix.SPLICE_F_NONBLOCK)
		return err
	})
}

// withPipes calls f with the read end of an empty pipe and the write end of another one.
func withPipes(f func(from, to int) error) error {
	var a, b [2]int
	if err := unix.Pipe2(a[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(a[0])
	defer unix.Close(a[1])
	if err := unix.Pipe2(b[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(b[0])
	defer unix.Close(b[1])
	return f(a[0], b[1])
}

// ownTable gives a thread its own descriptor table; the thread ends after that.
func ownTable() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FILES)
		if err != nil {
			err = unix.CloseRange(math.MaxInt32, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE)
		}
		done <- err
	}()
	return <-done
}
