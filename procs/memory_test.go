package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
)

// TestMemoryOfQuietPrograms bounds the live heap of an idle program: its definition, instance and
// collector.
func TestMemoryOfQuietPrograms(t *testing.T) {
	const programs, most = 2000, 2780
	var file strings.Builder
	for i := range programs {
		fmt.Fprintf(&file, "[program.p%05d]\ncommand = 'sleep infinity'\n", i)
	}
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	before := liveHeap()
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	table := liveHeap() - before
	v, s := quickSupervisor(c)
	s.Start(func() {})
	v.RunFor(time.Minute)
	if n := inspect(s).inState(fsm.Running); n != programs {
		t.Fatalf("%d programs run, want %d", n, programs)
	}
	all := liveHeap() - before
	t.Logf("live heap of a quiet program: %d bytes, of which %d are its table", all/programs, table/programs)
	if all/programs > most {
		t.Errorf("live heap of a quiet program: %d bytes, want at most %d; its definition has %d of them", all/programs, most, table/programs)
	}
	runtime.KeepAlive(s)
}

// TestOpeningManySockets: opening the sockets of programs that connections start costs as much for
// each, however many there are. Allocations stand for the cost.
func TestOpeningManySockets(t *testing.T) {
	cost := func(sockets int) float64 {
		var file strings.Builder
		for i := range sockets {
			fmt.Fprintf(&file, "[socket.s%d]\nlisten = 'unix:/run/s%[1]d'\n[program.p%[1]d]\ncommand = 'x'\nsockets = ['s%[1]d']\nstart = 'on-connect'\n", i)
		}
		path := filepath.Join(t.TempDir(), "superd.toml")
		if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		h := newHistory(1, defect{}, false)
		h.kernel.Mix, h.file = hosttest.FaultMix{}, c
		h.sup = New(h.options())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.sup.Start(func() {})
		h.v.RunFor(10 * time.Second)
		runtime.ReadMemStats(&after)
		for _, st := range h.sup.connectors.Sockets.Sockets() {
			if !st.Open {
				t.Fatalf("%s is not open: %s", st.Where(), st.Failure)
			}
		}
		return float64(after.Mallocs-before.Mallocs) / float64(sockets)
	}
	few, many := cost(100), cost(400)
	t.Logf("allocations for each of 100 sockets: %.0f, of 400: %.0f", few, many)
	if many > 1.5*few {
		t.Errorf("%.0f allocations for each of 400 sockets, want as many as for each of 100: %.0f", many, few)
	}
}

// liveHeap returns the bytes in use after a garbage collection.
func liveHeap() int {
	runtime.GC()
	runtime.GC() // frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestMemoryOfIdleSockets bounds the live heap of a socket that waits for a connection: its
// address, its descriptor and its watch. It includes what the fake host and the virtual loop have.
func TestMemoryOfIdleSockets(t *testing.T) {
	const sockets, most = 1000, 1024
	var file strings.Builder
	file.WriteString("[program.web]\ncommand = 'web'\nautostart = 'on-connect'\nsockets = ['s']\n[socket.s]\nlisten = [\n")
	for i := range sockets {
		fmt.Fprintf(&file, "'unix:@%d',\n", i)
	}
	file.WriteString("]\n")
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	before := liveHeap()
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	v, s := quickSupervisor(c)
	s.Start(func() {})
	v.RunFor(time.Minute)
	for _, st := range s.connectors.Sockets.Sockets() {
		if !st.Open {
			t.Fatalf("%s is not open", st.Address)
		}
	}
	all := liveHeap() - before
	t.Logf("live heap of an idle socket: %d bytes", all/sockets)
	if all/sockets > most {
		t.Errorf("live heap of an idle socket: %d bytes, want at most %d", all/sockets, most)
	}
	runtime.KeepAlive(s)
}

// OpenSocket implements [host.Sockets].
func (q *quickSystem) OpenSocket(_ *host.SocketSpec, done func(*host.SharedFD, error)) {
	q.v.Post(func() { done(host.NewSharedFD(q.v.NewFD(), q.v.CloseFD), nil) })
}
