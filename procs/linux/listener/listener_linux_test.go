package listener

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/listen"
)

// freePort returns a port of 127.0.0.1 that was free just now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func address(t *testing.T, text string) listen.Address {
	t.Helper()
	a, err := listen.Parse(text, func(path string) string { return path })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustOpen(t *testing.T, s *config.Socket, text string) int {
	t.Helper()
	fd, err := Open(s, address(t, text))
	if err != nil {
		t.Fatalf("open %s: %v", text, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestOpen: what is opened takes connections or data, and is close-on-exec.
func TestOpen(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	for text, dial := range map[string][2]string{
		fmt.Sprintf("127.0.0.1:%d", port):     {"tcp", fmt.Sprintf("127.0.0.1:%d", port)},
		fmt.Sprintf(":%d", freePort(t)):       {"tcp", ""},
		fmt.Sprintf("udp:127.0.0.1:%d", port): {"udp", fmt.Sprintf("127.0.0.1:%d", port)},
		"unix:" + dir + "/s":                  {"unix", dir + "/s"},
		"unix:@" + dir:                        {"unix", "@" + dir},
		"unixgram:" + dir + "/d":              {"unixgram", dir + "/d"},
	} {
		fd := mustOpen(t, &config.Socket{Backlog: 5}, text)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != unix.FD_CLOEXEC {
			t.Errorf("%s: descriptor flags %d, %v", text, flags, err)
		}
		if a, err := Address(fd); a != address(t, text) || err != nil {
			t.Errorf("Address of %s = %v, %v", text, a, err)
		}
		if dial[1] == "" {
			dial[1] = "127.0.0.1" + text
		}
		c, err := net.Dial(dial[0], dial[1])
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		defer c.Close()
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		want := 1
		if !address(t, text).Network.Connects() {
			want = 0
		}
		if n, err := Connections([]int{fd}); n != want || err != nil {
			t.Errorf("%s has %d connections, %v, want %d", text, n, err, want)
		}
		if q := Queues([]int{fd}, func(int) bool { return false })[fd]; q.Waiting == 0 || len(q.Holders) != 1 || q.Holders[0].Pid != os.Getpid() {
			t.Errorf("%s: queue %+v, want something from this process", text, q)
		}
	}
}

// TestPaths: paths have owner and mode of the socket, at once and after a change.
func TestPaths(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	narrow, gid := uint32(0o640), os.Getgid()
	for _, kind := range []string{"unix", "unixgram", "fifo"} {
		path := filepath.Join(dir, kind)
		a := address(t, kind+":"+path)
		s := &config.Socket{Backlog: 5}
		fd := mustOpen(t, s, a.String())
		for _, want := range []uint32{defaultMode, narrow} {
			var stat unix.Stat_t
			if err := unix.Stat(path, &stat); err != nil || stat.Mode&0o777 != want {
				t.Errorf("%s: mode %o, %v, want %o", a, stat.Mode&0o777, err, want)
			}
			s.Mode, s.Group = &narrow, fmt.Sprint(gid)
			if err := Change(fd, s, a); err != nil {
				t.Errorf("change %s: %v", a, err)
			}
		}
		if err := Remove(fd, a); err != nil {
			t.Errorf("remove %s: %v", a, err)
		}
	}
}

// TestNonBlocking: a socket blocks unless it is told not to, also while it is open. It is never
// made blocking again: the program that has it may have asked for that.
func TestNonBlocking(t *testing.T) {
	port := freePort(t)
	for _, text := range []string{
		fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("udp:127.0.0.1:%d", port),
		"unix:@" + t.Name(), "fifo:" + t.TempDir() + "/f",
	} {
		s := &config.Socket{Backlog: 5}
		fd := mustOpen(t, s, text)
		for i, want := range []bool{false, true, true} {
			s.NonBlocking = i == 1
			if err := Change(fd, s, address(t, text)); err != nil {
				t.Errorf("change %s: %v", text, err)
			}
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if got := flags&unix.O_NONBLOCK != 0; got != want || err != nil {
				t.Errorf("%s after non_blocking = %t: O_NONBLOCK is %t, %v, want %t", text, s.NonBlocking, got, err, want)
			}
		}
	}
}

// TestRestore: a path that was removed leads to the same socket again. Another file in its place
// stays. When the socket is removed, nothing is left.
func TestRestore(t *testing.T) {
	for _, kind := range []string{"unix", "unixgram"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "s")
		a := address(t, kind+":"+path)
		for range 2 { // also with what a socket of before has left
			fd := mustOpen(t, &config.Socket{Backlog: 5}, a.String())
			for _, gone := range []bool{false, true, true} {
				if gone {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
				if restored, err := Restore(fd, a); restored != gone || err != nil {
					t.Fatalf("%s, removed: %t: Restore = %t, %v", kind, gone, restored, err)
				}
			}
			if c, err := net.Dial(kind, path); err != nil {
				t.Errorf("%s after Restore: %v", kind, err)
			} else {
				c.Close()
			}
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if restored, err := Restore(fd, a); restored || err != nil {
				t.Errorf("%s with another file in its place: Restore = %t, %v", kind, restored, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		fd := mustOpen(t, &config.Socket{Backlog: 5}, a.String())
		if err := Remove(fd, a); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 || err != nil {
			t.Errorf("%s: left after Remove: %q, %v", kind, left, err)
		}
	}
}

// TestInUse: the error names the process that has the address, whatever its kind.
func TestInUse(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	for first, second := range map[string]string{
		fmt.Sprintf("127.0.0.1:%d", port):     fmt.Sprintf(":%d", port),
		fmt.Sprintf("udp:127.0.0.1:%d", port): fmt.Sprintf("udp:127.0.0.1:%d", port),
		"unix:" + dir + "/s":                  "unix:" + dir + "/s",
		"unixgram:" + dir + "/d":              "unix:" + dir + "/d",
		"unix:@" + dir:                        "unix:@" + dir,
	} {
		mustOpen(t, &config.Socket{Backlog: 5}, first)
		_, err := Open(&config.Socket{Backlog: 5}, address(t, second))
		in, ok := errors.AsType[*InUseError](err)
		if !ok || len(in.Holders) != 1 || in.Holders[0].Pid != os.Getpid() ||
			!strings.Contains(err.Error(), fmt.Sprintf("in use by process %d (", os.Getpid())) {
			t.Errorf("open %s beside %s: %v, want this process", second, first, err)
		}
	}
}

// TestStale: the path of a socket that nobody has open is replaced, and no other file.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{"unix", "unixgram"} {
		path := filepath.Join(dir, kind)
		fd, err := Open(&config.Socket{Backlog: 5}, address(t, kind+":"+path))
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = mustOpen(t, &config.Socket{Backlog: 5}, kind+":"+path)
		// Another one in its place is not removed
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, &config.Socket{Backlog: 5}, kind+":"+path)
		if err := Remove(fd, address(t, kind+":"+path)); !errors.Is(err, errReplaced) {
			t.Errorf("remove the path of another %s: %v", kind, err)
		}
	}
	for _, kind := range []string{"unix", "unixgram", "fifo"} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(&config.Socket{Backlog: 5}, address(t, kind+":"+path)); err == nil || !strings.Contains(err.Error(), "there is a file that is no ") {
			t.Errorf("open %s at a file: %v", kind, err)
		}
		if text, err := os.ReadFile(path); string(text) != "precious" {
			t.Errorf("open %s at a file: it holds %q, %v", kind, text, err)
		}
	}
}

// TestBoundOnly: a Unix socket that is bound and does not listen yet is not replaced.
func TestBoundOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if other, err := Open(&config.Socket{Backlog: 5}, address(t, "unix:"+path)); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("open the path of another one: %d, %v", other, err)
	}
}

// TestExistingFIFO: a FIFO that exists keeps its mode unless that is configured.
func TestExistingFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := unix.Mkfifo(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	mode := uint32(0o640)
	for want, s := range map[os.FileMode]*config.Socket{0o620: {}, 0o640: {Mode: &mode}} {
		mustOpen(t, s, "fifo:"+path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode %o, want %o", got, want)
		}
		if err := os.Chmod(path, 0o620); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenRefuses: the error has the cause and the remedy.
func TestOpenRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/nowhere/at/all":     "there is no directory /nowhere/at: make it",
		"192.0.2.1:80":             "set free_bind = true",
		"[fe80::1%nowhere]:80":     "find network interface nowhere",
		"fifo:/nowhere/at/all":     "make FIFO /nowhere/at/all: no such file",
		"unixgram:/nowhere/at/all": "there is no directory /nowhere/at: make it",
	} {
		if _, err := Open(&config.Socket{Backlog: 5}, address(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v, want %q", text, err, want)
		}
	}
	mustOpen(t, &config.Socket{Backlog: 5, FreeBind: true}, fmt.Sprintf("192.0.2.1:%d", freePort(t)))
}

// TestFamilies: an address of one family gets nothing of the other, so that both can be open with
// one port; one without a host gets both.
func TestFamilies(t *testing.T) {
	port := freePort(t)
	dials := func(network, host string) bool {
		c, err := net.Dial(network, net.JoinHostPort(host, fmt.Sprint(port)))
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	s := &config.Socket{Backlog: 5}
	six, err := Open(s, address(t, fmt.Sprintf("[::]:%d", port)))
	if err != nil {
		t.Skip("no IPv6:", err)
	}
	if !dials("tcp6", "::1") || dials("tcp4", "127.0.0.1") {
		t.Error("[::] does not get IPv6 alone")
	}
	four := mustOpen(t, s, fmt.Sprintf("0.0.0.0:%d", port))
	for fd, want := range map[int]string{six: "[::]", four: "0.0.0.0"} {
		if a, err := Address(fd); err != nil || a != address(t, fmt.Sprintf("%s:%d", want, port)) {
			t.Errorf("Address = %v, %v, want that of %s", a, err, want)
		}
	}
	if !dials("tcp4", "127.0.0.1") {
		t.Error("0.0.0.0 does not get IPv4")
	}
	unix.Close(six)
	unix.Shutdown(four, unix.SHUT_RDWR)
	port = freePort(t)
	mustOpen(t, s, fmt.Sprintf(":%d", port))
	if !dials("tcp6", "::1") || !dials("tcp4", "127.0.0.1") {
		t.Error("an address without a host does not get both families")
	}
}

// TestFIFOIsRestored: a FIFO whose path is gone is made again, as the same one. Its removal leaves
// the path, and no second name.
func TestFIFOIsRestored(t *testing.T) {
	dir := t.TempDir()
	a := address(t, "fifo:"+dir+"/f")
	fd := mustOpen(t, &config.Socket{}, a.String())
	if err := os.Remove(a.Path()); err != nil {
		t.Fatal(err)
	}
	if restored, err := Restore(fd, a); !restored || err != nil {
		t.Fatalf("Restore = %v, %v", restored, err)
	}
	if err := os.WriteFile(a.Path(), []byte("hello"), 0); err != nil {
		t.Fatal(err)
	}
	var text [8]byte
	if n, err := unix.Read(fd, text[:]); err != nil || string(text[:n]) != "hello" {
		t.Errorf("read %q, %v", text[:n], err)
	}
	if err := Remove(fd, a); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "f" {
		t.Errorf("%v, %v are left, want f", left, err)
	}
}

// TestPathLeadsElsewhere: a path whose directory is replaced between the check and the removal does
// not let superd remove a file of the new one.
func TestPathLeadsElsewhere(t *testing.T) {
	top := t.TempDir()
	here, moved := top+"/here", top+"/moved"
	if err := os.Mkdir(here, 0o755); err != nil {
		t.Fatal(err)
	}
	a := address(t, "unix:"+here+"/s")
	fd := mustOpen(t, &config.Socket{Backlog: 5}, a.String())
	dir, err := openDirectory(a.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	if err := errors.Join(os.Rename(here, moved), os.Mkdir(here, 0o755), os.WriteFile(a.Path(), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := dir.removeOwn(fd, dir.name, a); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(a.Path()); err != nil {
		t.Errorf("the other file: %v", err)
	}
	if _, err := os.Lstat(moved + "/s"); !os.IsNotExist(err) {
		t.Errorf("the socket: %v, want it removed", err)
	}
}

// TestStaleWithLongName: a stale socket is replaced also where its name nearly fills the address.
func TestStaleWithLongName(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.MkdirTemp("/tmp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	a := address(t, "unix:"+dir+"/"+strings.Repeat("x", maxPath-len(dir)-1))
	for range 2 {
		fd, err := Open(&config.Socket{Backlog: 5}, a)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
}

// TestAcceptRefused: an error that the next call gives, too, is returned in the end.
func TestAcceptRefused(t *testing.T) {
	fd := mustOpen(t, &config.Socket{}, fmt.Sprintf("udp:127.0.0.1:%d", freePort(t)))
	if all, err := Accept(fd, 1); !errors.Is(err, unix.EOPNOTSUPP) || len(all) > 0 {
		t.Errorf("accept of a socket that accepts none: %v, %v", all, err)
	}
}
