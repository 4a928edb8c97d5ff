package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// HungMount mounts a file system in the site that never answers, so that a look-up of a file in it
// blocks. It needs the right to mount; without it, the test is skipped.
//
// The protocol is FUSE (linux/fuse.h). INIT is answered, so that the mount is complete, and no
// other request is even read. (A process whose request was read can't be killed: see
// UnkillableMount.)
func (s *Site) HungMount(name string) (dir string) { return s.HungMountOf(name, 0) }

// HungMountOf is HungMount for one user, and the group of the same number, only. All others, root
// among them, get an error at once.
func (s *Site) HungMountOf(name string, uid int) (dir string) {
	s.T.Helper()
	dir, dev, unmount := s.mountFuse(name, uid)
	s.T.Cleanup(func() {
		unmount()
		unix.Close(dev)
	})
	return dir
}

// UnkillableMount is HungMount with processes that SIGKILL does not end until release is called.
// waitAsked waits until count look-ups were requested.
func (s *Site) UnkillableMount(name string) (dir string, waitRequested func(count int), release func()) {
	s.T.Helper()
	const opLookup = 1
	dir, dev, unmount := s.mountFuse(name, 0)
	var requests atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		request := make([]byte, 1<<17)
		for {
			n, err := unix.Read(dev, request)
			if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) {
				return // unmounted
			}
			if err == nil && n >= 8 && binary.NativeEndian.Uint32(request[4:]) == opLookup {
				requests.Add(1)
			}
		}
	}()
	waitRequested = func(count int) {
		s.T.Helper()
		Until(s.T, fmt.Sprintf("%d processes wait for files in %s", count, dir), func() bool { return requests.Load() >= int64(count) })
	}
	release = sync.OnceFunc(func() {
		unmount()
		<-ended
		unix.Close(dev)
	})
	s.T.Cleanup(release)
	return dir, waitRequested, release
}

func (s *Site) mountFuse(name string, uid int) (dir string, dev int, unmount func()) {
	s.T.Helper()
	dir = s.Path(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.T.Fatal(err)
	}
	dev, err := openFuse(s.T)
	if errors.Is(err, os.ErrPermission) {
		s.T.Skip("may not mount a file system")
	}
	if err != nil {
		s.T.Fatal(err)
	}
	data := fmt.Sprintf("fd=%[1]d,rootmode=40000,user_id=%[2]d,group_id=%[2]d", dev, uid)
	if uid == 0 {
		data += ",allow_other"
	}
	err = unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, data)
	if errors.Is(err, os.ErrPermission) {
		unix.Close(dev)
		s.T.Skip("may not mount a file system")
	}
	if err != nil {
		s.T.Fatalf("mount fuse on %s: %v", dir, err)
	}
	unmount = func() {
		// MNT_FORCE ends the connection: waiting processes get an error.
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			s.T.Errorf("unmount %s: %v", dir, err)
		}
	}
	if err := answerInit(dev); err != nil {
		unmount()
		unix.Close(dev)
		s.T.Fatalf("mount %s: %v", dir, err)
	}
	return dir, dev, unmount
}

// openFuse opens the fuse device, by a node of its own if /dev has none.
func openFuse(t testing.TB) (fd int, err error) {
	const flags = unix.O_RDWR | unix.O_CLOEXEC
	fd, err = unix.Open("/dev/fuse", flags, 0)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	node := filepath.Join(t.TempDir(), "fuse")
	if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))); err != nil {
		return -1, fmt.Errorf("make fuse device: %w", err)
	}
	return unix.Open(node, flags, 0)
}

// answerInit answers the first request.
func answerInit(dev int) error {
	const opInit = 26
	request := make([]byte, 1<<17)
	n, err := unix.Read(dev, request)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(dev, request)
	}
	if err != nil {
		return err
	}
	if n < 16 || binary.NativeEndian.Uint32(request[4:]) != opInit {
		return fmt.Errorf("first request is % x, want INIT", request[:n])
	}
	// fuse_out_header{len, error, unique}, then fuse_init_out{major, minor, max_readahead, flags,
	// max_background, congestion_threshold, max_write, …}, the rest of its 64 bytes 0.
	var answer [16 + 64]byte
	binary.NativeEndian.PutUint32(answer[0:], uint32(len(answer)))
	copy(answer[8:16], request[8:16])
	binary.NativeEndian.PutUint32(answer[16:], 7)
	binary.NativeEndian.PutUint32(answer[20:], 31)
	// FUSE_PARALLEL_DIROPS: look-ups do not wait for each other
	binary.NativeEndian.PutUint32(answer[28:], 1<<18)
	binary.NativeEndian.PutUint32(answer[36:], 4096)
	if _, err := unix.Write(dev, answer[:]); err != nil {
		return fmt.Errorf("answer INIT: %w", err)
	}
	return nil
}
