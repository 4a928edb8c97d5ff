package pipe

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// TestMakeFIFOReplaces: any existing file is replaced. Source: row 28 of the failure table.
func TestMakeFIFOReplaces(t *testing.T) {
	tests := []struct {
		name string
		put  func(path string) error
	}{
		{"nothing", func(string) error { return nil }},
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o666) }},
		{"file", func(path string) error { return os.WriteFile(path, []byte("x"), 0o444) }},
		{"dangling link", func(path string) error { return os.Symlink("/nowhere", path) }},
		{"socket", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := tt.put(path); err != nil {
				t.Fatal(err)
			}
			fd, err := MakeFIFO(path, os.Geteuid(), os.Getegid())
			if err != nil {
				t.Fatal(err)
			}
			defer syscalls.Close(fd)
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if want := os.ModeNamedPipe | 0o600; info.Mode() != want {
				t.Errorf("mode = %v, want %v", info.Mode(), want)
			}
		})
	}
}

func TestMakeFIFORefusesDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := MakeFIFO(path, os.Geteuid(), os.Getegid())
	if err == nil {
		syscalls.Close(fd)
		t.Fatal("MakeFIFO() replaced a directory")
	}
	if want := "it is a directory"; !strings.Contains(err.Error(), want) {
		t.Errorf("MakeFIFO() = %q, want %q in it", err, want)
	}
}

func TestMakeFIFOForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	fd, err := MakeFIFO(filepath.Join(t.TempDir(), "out"), 1234, 5678)
	if err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 1234 || st.Gid != 5678 {
		t.Errorf("owner = %d:%d, want 1234:5678", st.Uid, st.Gid)
	}
	if err := ChownFIFO(fd, 4321, 8765); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 4321 || st.Gid != 8765 || st.Mode&0o777 != 0o600 {
		t.Errorf("given away: owner = %d:%d, mode %o, want 4321:8765, 600", st.Uid, st.Gid, st.Mode&0o777)
	}
}

// TestAdoptFIFO: only a FIFO that superd has made itself is adopted. Source: row 28 of the failure
// table.
func TestAdoptFIFO(t *testing.T) {
	tests := []struct {
		name string
		put  func(path string) error
		want string // in the error; empty: none
	}{
		{"nothing", func(string) error { return nil }, "no such file"},
		{"file", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "not a FIFO"},
		{"link to a FIFO", func(path string) error {
			return errors.Join(unix.Mkfifo(path+".other", 0o600), os.Symlink(path+".other", path))
		}, "not a FIFO"},
		{"FIFO for others, too", func(path string) error {
			return errors.Join(unix.Mkfifo(path, 0o600), os.Chmod(path, 0o620))
		}, "its mode is 620"},
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := tt.put(path); err != nil {
				t.Fatal(err)
			}
			fd, err := AdoptFIFO(path)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				syscalls.Close(fd)
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("AdoptFIFO() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestAdoptFIFOOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	path := filepath.Join(t.TempDir(), "out")
	read, err := MakeFIFO(path, 1234, 5678)
	if err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(read)
	if _, err := unix.Write(read, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	fd, err := AdoptFIFO(path)
	if err != nil {
		t.Fatalf("root's own, given to a program's user: %v", err)
	}
	defer syscalls.Close(fd)
	if got := Bytes(fd); got != 4 {
		t.Errorf("%d bytes in the pipe of the adopted FIFO, want 4", got)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&(unix.O_NONBLOCK|unix.O_ACCMODE) != unix.O_NONBLOCK|unix.O_RDWR {
		t.Errorf("flags = %#x (%v), want O_RDWR and O_NONBLOCK", flags, err)
	}
	if flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("it is not close-on-exec (%v)", err)
	}
}

func TestFIFOEnds(t *testing.T) {
	read, err := MakeFIFO(filepath.Join(t.TempDir(), "out"), os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(read)
	write, err := OpenWriter(read)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		name     string
		fd       int
		nonblock bool
	}{{"read end", read, true}, {"write end", write, false}} {
		flags, err := unix.FcntlInt(uintptr(end.fd), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := flags&unix.O_NONBLOCK != 0; got != end.nonblock {
			t.Errorf("%s: non-blocking = %v, want %v", end.name, got, end.nonblock)
		}
		if flags&unix.O_ACCMODE != unix.O_RDWR {
			t.Errorf("%s: flags = %#x, want O_RDWR", end.name, flags)
		}
		if flags, err = unix.FcntlInt(uintptr(end.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: is not close-on-exec (%v)", end.name, err)
		}
	}

	if _, err := unix.Write(write, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	syscalls.Close(write)
	if got := Bytes(read); got != 4 {
		t.Errorf("%d bytes in the pipe after its writer closed, want 4", got)
	}
	buf := make([]byte, 10)
	if n, err := readPipe(read, buf); n != 4 || err != nil {
		t.Errorf("readPipe() = %d, %v, want 4 bytes", n, err)
	}
	if n, err := readPipe(read, buf); n != 0 || err != nil {
		t.Errorf("readPipe() without a writer = %d, %v, want 0, no error", n, err)
	}
}
