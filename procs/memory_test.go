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
)

// TestMemoryOfQuietPrograms bounds the live heap of an idle program: its definition, instance and
// collector.
func TestMemoryOfQuietPrograms(t *testing.T) {
	const programs, most = 2000, 2760
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

// liveHeap returns the bytes in use after a garbage collection.
func liveHeap() int {
	runtime.GC()
	runtime.GC() // frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
