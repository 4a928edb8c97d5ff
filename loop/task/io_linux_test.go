package task

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// onEpoll runs a main task that has real descriptors.
func onEpoll(t *testing.T, main func(*rig, *Task) error, want ...string) {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, Loop: l}
	r.run(func(t *Task) error { return main(r, t) }, want...)
}

// pair returns the ends of a connection, closed when t has ended.
func pair(r *rig, t *Task) (int, int) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		r.Fatal(err)
	}
	t.Scope().Defer(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// TestReadWrite sends more than the buffers of a socket hold.
func TestReadWrite(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18)
	var received bytes.Buffer
	parts := 0
	onEpoll(t, func(r *rig, t *Task) error {
		here, there := pair(r, t)
		writer := t.Go(func(t *Task) error {
			n, err := t.Write(here, sent)
			r.note("written: %d, %v", n, err)
			return unix.Shutdown(here, unix.SHUT_WR)
		})
		p := make([]byte, 1<<16)
		for {
			n, err := t.Read(there, p)
			received.Write(p[:n])
			if parts++; err != nil {
				r.note("read: %v, %v", err, writer.Join(t))
				return nil
			}
		}
	}, fmt.Sprintf("written: %d, <nil>", len(sent)), "read: EOF, <nil>")
	if !bytes.Equal(received.Bytes(), sent) || parts < 3 {
		t.Errorf("received %d bytes in %d parts, want %d in several", received.Len(), parts, len(sent))
	}
}

func TestReadWriteErrors(t *testing.T) {
	onEpoll(t, func(r *rig, t *Task) error {
		here, there := pair(r, t)
		reader := t.Go(func(t *Task) error { _, err := t.Read(here, make([]byte, 1)); return err })
		_ = t.Yield()
		reader.Cancel()
		r.note("canceled: %v", reader.Join(t))

		n := 0
		err := t.Timeout(tick, func() (err error) {
			n, err = t.Write(here, make([]byte, 1<<24))
			return err
		})
		r.note("timeout: %v, partial: %v", err, 0 < n && n < 1<<24)

		if err := unix.Shutdown(there, unix.SHUT_RDWR); err != nil {
			return err
		}
		_, err = t.Write(here, []byte("x"))
		r.note("broken: %v", errors.Is(err, unix.EPIPE))
		_, err = t.Read(-1, nil)
		r.note("%v", err)
		_, _, err = t.Accept(here)
		r.note("not listening: %v", errors.Is(err, unix.EINVAL))
		return nil
	}, "canceled: task canceled", "timeout: timeout, partial: true", "broken: true",
		"read descriptor -1: bad file descriptor", "not listening: true")
}

// TestConnectAccept has clients and a server that answers each line.
func TestConnectAccept(t *testing.T) {
	addresses := map[string]unix.Sockaddr{
		"unix": &unix.SockaddrUnix{Name: filepath.Join(t.TempDir(), "socket")},
		"tcp":  &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}},
	}
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			onEpoll(t, func(r *rig, t *Task) error {
				listener := socket(r, t, address)
				must(r, unix.Bind(listener, address))
				must(r, unix.Listen(listener, 8))
				address, err := unix.Getsockname(listener)
				must(r, err)
				server := t.Go(func(t *Task) error { return serve(t, listener) })
				var clients []*Task
				for i := range 3 {
					clients = append(clients, t.Go(func(t *Task) error {
						fd := socket(r, t, address)
						must(r, t.Connect(fd, address))
						fmt.Fprintf(Conn{t, fd}, "client %d\n", i)
						answer, err := bufio.NewReader(Conn{t, fd}).ReadString('\n')
						if want := fmt.Sprintf("hello, client %d\n", i); answer != want {
							r.Errorf("answer %q, %v, want %q", answer, err, want)
						}
						return nil
					}))
				}
				must(r, t.Gather(clients...))
				server.Cancel()
				r.note("server: %v", server.Join(t))
				return nil
			}, "server: task canceled")
		})
	}
}

func TestConnectRefused(t *testing.T) {
	onEpoll(t, func(r *rig, t *Task) error {
		any := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		bound := socket(r, t, any) // bound, and not listening
		must(r, unix.Bind(bound, any))
		address, err := unix.Getsockname(bound)
		must(r, err)
		err = t.Connect(socket(r, t, any), address)
		r.note("refused: %v", errors.Is(err, unix.ECONNREFUSED))
		return nil
	}, "refused: true")
}

func must(r *rig, err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// socket returns a new socket, closed when t has ended.
func socket(r *rig, t *Task, address unix.Sockaddr) int {
	family := unix.AF_INET
	if _, ok := address.(*unix.SockaddrUnix); ok {
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		r.Fatal(err)
	}
	t.Scope().Defer(func() { unix.Close(fd) })
	return fd
}

func serve(t *Task, listener int) error {
	for {
		fd, _, err := t.Accept(listener)
		if err != nil {
			return err
		}
		t.Go(func(t *Task) error {
			defer unix.Close(fd)
			lines := bufio.NewScanner(Conn{t, fd})
			for lines.Scan() {
				if _, err := io.WriteString(Conn{t, fd}, "hello, "+lines.Text()+"\n"); err != nil {
					return err
				}
			}
			return lines.Err()
		})
	}
}
