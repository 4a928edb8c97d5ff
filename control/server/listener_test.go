package server

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
)

func TestListenReplacesWhatIsStale(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name  string
		make  func(path string) error
		fails string // empty: it listens
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"a stale socket", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		}, ""},
		{"a FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, ""},
		{"the socket of one that has been killed and is not gone yet", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			t.Cleanup(func() { l.Close() })
			return nil
		}, ""},
		{"a file", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "not a socket"},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, "not a socket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			l, err := Listen(path)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("Listen: %v, want %q", err, tt.fails)
				}
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("what lay there has gone: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			defer l.Close()
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != fs.ModeSocket|0o666 {
				t.Errorf("socket has mode %v, %v, want rw-rw-rw-", info.Mode(), err)
			}
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatalf("nobody listens: %v", err)
			}
			conn.Close()
		})
	}
}

func TestListenRefusesLongPath(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 108)))
	if err == nil || !strings.Contains(err.Error(), "choose a shorter runtime directory") {
		t.Errorf("Listen: %v, want the advice to choose a shorter runtime directory", err)
	}
}

func TestListenFailsWithoutDirectory(t *testing.T) {
	if _, err := Listen(filepath.Join(t.TempDir(), "none", "sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Listen: %v, want %v", err, fs.ErrNotExist)
	}
}

// A fullListener has no free descriptor until its user closes one.
type fullListener struct {
	net.Listener
	spare func() bool // reports whether a descriptor is free
}

func (f *fullListener) Accept() (net.Conn, error) {
	if !f.spare() {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

func TestSpareDescriptorLetsOneIn(t *testing.T) {
	inner, err := Listen(filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	full := &fullListener{Listener: inner}
	l := newListener(full, os.Geteuid(), func() config.Control { return config.Control{} }, slog.New(slog.DiscardHandler))
	defer l.Close()
	taken := false
	full.spare = func() bool { return len(l.spares) < maxSpares && !taken }
	for i := range 3 { // the descriptor is free again each time
		client, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		taken = true // by that connection
		if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("connection %d beside another: %v, want %v", i, err, syscall.EMFILE)
		}
		conn.Close()
		client.Close()
		taken = false
	}
}
