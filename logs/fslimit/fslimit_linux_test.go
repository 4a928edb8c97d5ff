package fslimit

import (
	"os"
	"path/filepath"
	"testing"

	"superd/internal/mounts"
)

const (
	perFileSystem = 4
	total         = 4 * perFileSystem
)

// must returns s and fails if it is nil.
func must(t *testing.T, s *Slot) *Slot {
	t.Helper()
	if s == nil {
		t.Fatal("no slot")
	}
	return s
}

// empty fails if a goroutine has a slot or waits for one.
func (l *Limiter) empty(t *testing.T) {
	t.Helper()
	if len(l.byFileSystem) > 1 || l.last != nil && l.last.users > 0 || len(l.all) > 0 {
		t.Errorf("slots of %d file systems exist, %+v the last one, %d held; want an unused one",
			len(l.byFileSystem), l.last, len(l.all))
	}
}

func closedChannel() <-chan struct{} {
	stop := make(chan struct{})
	close(stop)
	return stop
}

func TestFullFileSystem(t *testing.T) {
	s := New(new(mounts.Table), perFileSystem, total)
	here := FileSystem{device: 1}
	var held []*Slot
	for range perFileSystem {
		held = append(held, must(t, s.Acquire(here, nil)))
	}
	if s.Acquire(here, closedChannel()) != nil {
		t.Error("Acquire() = a slot where none is left")
	}
	must(t, s.Acquire(FileSystem{device: 2}, nil)).Release()
	for _, h := range held {
		h.Release()
	}
	s.empty(t)
}

// TestSlotsOfAllFileSystems: stalled file systems delay no others, unless they are too many.
func TestSlotsOfAllFileSystems(t *testing.T) {
	s := New(new(mounts.Table), perFileSystem, total)
	var held []*Slot
	for i := range total {
		held = append(held, must(t, s.Acquire(FileSystem{device: uint64(1 + i/perFileSystem)}, closedChannel())))
	}
	elsewhere := FileSystem{device: 100}
	if s.Acquire(elsewhere, closedChannel()) != nil {
		t.Error("Acquire() = a slot beyond the threads that there are")
	}
	got := make(chan *Slot)
	go func() { got <- s.Acquire(elsewhere, nil) }()
	held[0].Release()
	must(t, <-got).Release()
	for _, h := range held[1:] {
		h.Release()
	}
	s.empty(t)
}

// TestLinks: a file that is not open yet belongs to the file system where it will be,
// through missing directories and links.
func TestLinks(t *testing.T) {
	var table mounts.Table
	here, other := t.TempDir(), t.TempDir()
	shared, err := os.MkdirTemp("/dev/shm", "superd-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(shared)
	if table.Device(here) == table.Device(shared) {
		t.Skip("/dev/shm is not another file system")
	}
	link := func(target, name string) string {
		t.Helper()
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	absolute := link(shared, filepath.Join(here, "absolute"))
	relative := link("absolute/sub", filepath.Join(here, "relative"))
	up := link("../"+filepath.Base(here)+"/absolute", filepath.Join(here, "up"))
	loop := link("loop", filepath.Join(here, "loop"))
	back := link(other, filepath.Join(shared, "back"))
	file := link(filepath.Join(shared, "web.log"), filepath.Join(here, "web.log"))
	tests := []struct{ path, at string }{
		{here + "/a.log", here + "/a.log"},
		{here + "/not/there/a.log", here + "/not/there/a.log"},
		{shared + "/1/a.log", shared + "/1/a.log"},
		{shared + "/2/a.log", shared + "/2/a.log"},
		{absolute + "/a.log", shared + "/a.log"},
		{relative + "/a.log", shared + "/sub/a.log"},
		{up + "/a.log", shared + "/a.log"},
		{back + "/a.log", other + "/a.log"},
		{absolute + "/back/a.log", other + "/a.log"},
		{file, shared + "/web.log"},
		{loop + "/a.log", loop + "/a.log"},
	}
	s := New(&table, perFileSystem, total)
	for _, tt := range tests {
		var links Links
		in := must(t, s.AcquirePath(tt.path, &links, nil))
		at, want := links.of(tt.path).at, FileSystem{device: table.Device(tt.at)}
		if in.FileSystem != want || at != tt.at {
			t.Errorf("AcquirePath(%s): slot of %v at %s, want %v at %s",
				tt.path, in.FileSystem, at, want, tt.at)
		}
		in.Release()
	}
	s.empty(t)
}
