package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// HungExec mounts a file system in the site that holds one executable, path. Every process can read
// its attributes. Only an exec of it, by a process that has executed nothing since its fork, gets
// no answer. With killable, a signal that ends the process interrupts the exec; otherwise nothing
// does. waitHung waits until count execs hang and returns their pids; release ends the file system.
//
// It needs the right to mount; without it, the test is skipped. The protocol is FUSE
// (linux/fuse.h).
func (s *Site) HungExec(name string, killable bool) (path string, waitHung func(count int) []int, release func()) {
	s.T.Helper()
	dir, dev, unmount := s.mountFuse(name, 0)
	f := &hungExec{dev: dev, killable: killable, hung: map[uint64]int{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.serve()
	}()
	release = sync.OnceFunc(func() {
		unmount()
		<-ended
		unix.Close(dev)
	})
	s.T.Cleanup(release)
	waitHung = func(count int) []int { return f.wait(s.T, count) }
	return dir + "/program", waitHung, release
}

// A hungExec is the file system of HungExec. Its only file is a script.
type hungExec struct {
	dev      int
	killable bool

	mu   sync.Mutex
	hung map[uint64]int // pids by their waiting requests
}

const hungScript = "#!/bin/sh\nexec sleep infinity\n"

// Requests, by their numbers in linux/fuse.h.
const (
	fuseLookup    = 1
	fuseForget    = 2
	fuseGetattr   = 3
	fuseOpen      = 14
	fuseRead      = 15
	fuseRelease   = 18
	fuseFlush     = 25
	fuseInterrupt = 36
	fuseForgets   = 42 // FUSE_BATCH_FORGET
)

func (f *hungExec) wait(t testing.TB, count int) (pids []int) {
	t.Helper()
	Until(t, fmt.Sprintf("%d execs hang", count), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		pids = nil
		for _, pid := range f.hung {
			pids = append(pids, pid)
		}
		return len(pids) >= count
	})
	return pids
}

// serve answers requests until the file system is unmounted.
func (f *hungExec) serve() {
	request := make([]byte, 1<<17)
	for {
		n, err := unix.Read(f.dev, request)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT):
		case err != nil || n < 40:
			return
		default:
			f.answer(request[:n])
		}
	}
}

func (f *hungExec) answer(request []byte) {
	op, unique := binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[8:])
	node, pid := binary.NativeEndian.Uint64(request[16:]), int(binary.NativeEndian.Uint32(request[32:]))
	switch op {
	case fuseForget, fuseForgets: // these get no answer
	case fuseLookup:
		body := make([]byte, 40, 128) // fuse_entry_out: the node, not to be cached
		binary.NativeEndian.PutUint64(body, 2)
		f.reply(unique, 0, append(body, f.attributes(2)...))
	case fuseGetattr:
		f.reply(unique, 0, append(make([]byte, 16), f.attributes(node)...))
	case fuseOpen:
		if justForked(pid) {
			f.mu.Lock()
			f.hung[unique] = pid
			f.mu.Unlock()
			return
		}
		f.reply(unique, 0, make([]byte, 16))
	case fuseRead:
		f.reply(unique, 0, []byte(hungScript))
	case fuseInterrupt:
		waits := binary.NativeEndian.Uint64(request[40:])
		f.mu.Lock()
		_, hung := f.hung[waits]
		if hung && f.killable {
			delete(f.hung, waits)
		}
		f.mu.Unlock()
		if hung && f.killable {
			f.reply(waits, unix.EINTR, nil)
		}
	case fuseRelease, fuseFlush:
		f.reply(unique, 0, nil)
	default:
		f.reply(unique, unix.ENOSYS, nil)
	}
}

// attributes returns the struct fuse_attr of a node: 1 is the directory, 2 the script.
func (f *hungExec) attributes(node uint64) []byte {
	a := make([]byte, 88)
	mode, size := uint32(unix.S_IFDIR|0o755), 0
	if node == 2 {
		mode, size = unix.S_IFREG|0o755, len(hungScript)
	}
	binary.NativeEndian.PutUint64(a[0:], node)
	binary.NativeEndian.PutUint64(a[8:], uint64(size))
	binary.NativeEndian.PutUint32(a[60:], mode)
	binary.NativeEndian.PutUint32(a[64:], 1) // links
	binary.NativeEndian.PutUint32(a[80:], 4096)
	return a
}

func (f *hungExec) reply(unique uint64, errno unix.Errno, body []byte) {
	answer := make([]byte, 16, 16+len(body))
	binary.NativeEndian.PutUint32(answer[0:], uint32(16+len(body)))
	binary.NativeEndian.PutUint32(answer[4:], uint32(-int32(errno)))
	binary.NativeEndian.PutUint64(answer[8:], unique)
	unix.Write(f.dev, append(answer, body...)) // the requesting process may be gone
}

// justForked reports whether pid is that of a process, and not of a further thread, which has
// executed nothing since its fork: PF_FORKNOEXEC of the kernel's include/linux/sched.h, among the
// flags in proc_pid_stat(5).
func justForked(pid int) bool {
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err != nil || !strings.Contains(string(status), fmt.Sprintf("\nTgid:\t%d\n", pid)) {
		return false
	}
	text, err := stat(pid, 6)
	if err != nil {
		return false
	}
	flags, err := strconv.ParseUint(text, 10, 64)
	return err == nil && flags&0x40 != 0
}

// JustForked returns the children of a process that have executed nothing since their fork and are
// in that state: 'T' is stopped. See proc_pid_stat(5).
func (s *Site) JustForked(parent int, state byte) (pids []int) {
	s.T.Helper()
	for _, pid := range s.Children(parent) {
		if now, err := stat(pid, 0); err == nil && now == string(state) && justForked(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Children returns the children of a process.
func (s *Site) Children(parent int) (pids []int) {
	s.T.Helper()
	dir, err := os.ReadDir("/proc")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, entry := range dir {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if ppid, err := stat(pid, 1); err == nil && ppid == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
