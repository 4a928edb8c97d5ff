package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/logstest"
	"superd/logs/pipe"
)

// TestWriterThatFaults: a write(2) holds the lock of its pipe while its memory is fetched, which
// may take without end.
func TestWriterThatFaults(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "a.log")})
	p.log("begin\n")
	memory, fetched := faulting(t)
	t.Cleanup(fetched)
	r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = unix.Write(int(p.Fd()), memory)
	}()
	r.poll("the first page to be in the pipe", func() bool { return pipe.Readable(p.FD(Stdout)) })

	done := make(chan struct{})
	r.do(func() { p.Drained(func() { close(done) }) }) // the collector was idle
	asking := fmt.Sprintf("%d %#x %#x ", unix.SYS_IOCTL, p.FD(Stdout), unix.TIOCINQ)
	// After the first page, whose event has just re-armed the watch
	moving := fmt.Sprintf("%d %#x ", unix.SYS_SPLICE, p.FD(Stdout))
	r.poll("the drain to wait for the pipe", func() bool { return inSyscall(t, asking) || inSyscall(t, moving) })
	r.do(func() { p.EndRun() }) // starts a drain
	fetched()
	r.await(done, "the output")
	r.await(written, "the write")
	r.await(p.drained(), "the rest")
	logstest.Equal(t, "log", logstest.ReadFile(t, p.Path()), "begin\n"+strings.Repeat("\x00", len(memory)))
}

// faulting returns two pages, of which the second is missing until fetched is called.
func faulting(t *testing.T) (memory []byte, fetched func()) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Skip("userfaultfd:", errno)
	}
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	memory[0] = 0 // present from now on
	second := uint64(uintptr(unsafe.Pointer(&memory[page])))
	// linux/userfaultfd.h
	const uffdioAPI, uffdioRegister, apiVersion, missing = 0xc018aa3f, 0xc020aa00, 0xaa, 1
	api := [3]uint64{apiVersion}
	register := [4]uint64{second, uint64(page), missing}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		t.Skip("UFFDIO_API:", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&register))); errno != 0 {
		t.Skip("UFFDIO_REGISTER:", errno)
	}
	open := true
	return memory, func() {
		if open {
			open = false
			syscalls.Close(int(fd))
		}
	}
}

// inSyscall reports whether a thread waits in a system call whose line in
// /proc/PID/task/TID/syscall begins with call.
func inSyscall(t *testing.T, call string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/syscall")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if now, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(now), call) {
			return true
		}
	}
	return false
}
