package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/listen"
	"superd/procs/host"
	"superd/procs/linux/linuxtest"
	"superd/procs/linux/listener"
)

// TestStartAfterRemoval: a start makes its FIFO names only after those of removed programs are
// gone. Otherwise a program that comes back at once under its name would lose them.
func TestStartAfterRemoval(t *testing.T) {
	b := newTreeBed(t, true)
	tree := b.NewTree("web")
	program := &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{}}
	spec := b.Spec(tree, program)
	fifo := spec.Outputs[0].FIFO
	release, started := make(chan struct{}), make(chan linuxtest.Result, 1)
	var pending host.PendingSpawn
	b.On(func() {
		b.kernel.unlinking.Begin(&b.kernel.unlinks, func() { <-release })
		b.kernel.RemoveNames([]string{fifo})
		pending = b.Spawn(spec, started)
	})
	waits := func() bool { return strings.Contains(pending.Stage(), "removed programs") }
	for deadline := time.Now().Add(linuxtest.Patience); len(started) == 0 && !waits(); {
		if time.Now().After(deadline) {
			t.Fatalf("the start is in the stage %q", pending.Stage())
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	result := linuxtest.Await(t, started, "the start")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	child := result.Child
	defer unix.Close(child.ReadFDs[0])
	b.kernel.unlinking.Wait()
	var named, read unix.Stat_t
	if err := unix.Lstat(fifo, &named); err != nil {
		t.Fatalf("the FIFO of the start: %v", err)
	}
	if err := unix.Fstat(child.ReadFDs[0], &read); err != nil || named.Ino != read.Ino {
		t.Errorf("another FIFO has the name of the one that superd reads (%v)", err)
	}
}

// TestSocketPathsAtTheEnd: the path of a socket is removed when superd closes it, and a FIFO stays.
func TestSocketPathsAtTheEnd(t *testing.T) {
	b := newTreeBed(t, true)
	for _, network := range []listen.Network{listen.Unix, listen.FIFO} {
		a := listen.Address{Network: network, Address: filepath.Join(b.Dir, string(network))}
		fd, err := listener.Open(&config.Socket{Backlog: 5}, a)
		if err != nil {
			t.Fatal(err)
		}
		b.On(func() { b.kernel.RemoveSocket(b.kernel.TakeSocket(fd), a) })
		b.kernel.closing.Wait()
		if _, err := os.Lstat(a.Address); (err == nil) != (network == listen.FIFO) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// TestHungSocketPath: a removal that hangs delays no start, no socket at another path and no end of
// superd; the same path waits for it.
func TestHungSocketPath(t *testing.T) {
	b := newTreeBed(t, true)
	hung := listen.Address{Network: listen.Unix, Address: filepath.Join(b.Dir, "hung")}
	fd, err := listener.Open(&config.Socket{Backlog: 5}, hung)
	if err != nil {
		t.Fatal(err)
	}
	release, opened := make(chan struct{}), make(chan string, 2)
	released := sync.OnceFunc(func() { close(release) })
	t.Cleanup(released)
	open := func(a listen.Address) {
		spec := &host.SocketSpec{Address: a, Settings: &config.Socket{Backlog: 5}, Intend: func() error { return nil }, Store: func(int) {}}
		b.kernel.OpenSocket(spec, func(fd *host.SharedFD, err error) {
			if err != nil {
				t.Error(err)
			} else {
				fd.Release()
			}
			opened <- a.Address
		})
	}
	started := make(chan linuxtest.Result, 1)
	other := listen.Address{Network: listen.Unix, Address: filepath.Join(b.Dir, "other")}
	program := &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{}}
	spec := b.Spec(b.NewTree("web"), program)
	b.On(func() {
		b.kernel.pathRemovals[hung.Address] = release // as of one before that hangs
		b.kernel.RemoveSocket(b.kernel.TakeSocket(fd), hung)
		open(hung)
		open(other)
		b.Spawn(spec, started)
	})
	if result := linuxtest.Await(t, started, "the start"); result.Err != nil {
		t.Fatal(result.Err)
	} else {
		unix.Close(result.Child.ReadFDs[0])
	}
	if first := linuxtest.Await(t, opened, "the other socket"); first != other.Address {
		t.Errorf("first opened: %s", first)
	}
	b.kernel.endRemovals() // returns
	released()
	linuxtest.Await(t, opened, "the socket at the same path")
	if _, err := os.Lstat(hung.Address); err != nil {
		t.Errorf("the path of the new socket: %v", err)
	}
}

func TestRemoveOtherNames(t *testing.T) {
	b := newTreeBed(t, true)
	path := func(name string) string { return filepath.Join(b.Dir, name) }
	for _, dir := range []string{"fifo", "notify", "fifo/directory"} {
		if err := os.Mkdir(path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fifo/kept", "fifo/gone", "notify/kept", "notify/gone", "other"} {
		if err := unix.Mkfifo(path(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.On(func() {
		dirs := []string{path("fifo"), path("missing"), path("notify")}
		b.kernel.RemoveOtherNames(dirs, []string{path("fifo/kept"), path("notify/kept")})
	})
	b.kernel.unlinking.Wait()
	var got []string
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, found...)
	}
	var want []string
	for _, name := range []string{"fifo", "notify", "other", "fifo/directory", "fifo/kept", "notify/kept"} {
		want = append(want, path(name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}
