package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"superd/internal/mounts"
)

// must returns s and fails if it is nil.
func must(t *testing.T, s *slot) *slot {
	t.Helper()
	if s == nil {
		t.Fatal("no slot")
	}
	return s
}

// empty fails if a goroutine has a slot or waits for one.
func (s *slots) empty(t *testing.T) {
	t.Helper()
	if len(s.byFileSystem) > 1 || s.last != nil && s.last.users > 0 || len(s.all) > 0 {
		t.Errorf("slots of %d file systems exist, %+v the last one; want an unused one, and all free", len(s.byFileSystem), s.last)
	}
}

func closedChannel() <-chan struct{} {
	stop := make(chan struct{})
	close(stop)
	return stop
}

func TestSlotsOfClosingCollectors(t *testing.T) {
	s := newSlots(new(mounts.Table), writersPerFileSystem, maxWriters)
	here := fileSystem{device: 1}
	var held []*slot
	for range writersPerFileSystem {
		held = append(held, must(t, s.acquire(here, nil)))
	}
	if s.acquire(here, closedChannel()) != nil {
		t.Error("acquire() = a slot where none is left")
	}
	must(t, s.acquire(fileSystem{device: 2}, nil)).release()
	for _, h := range held {
		h.release()
	}
	s.empty(t)
}

// TestSlotsOfAllFileSystems: stalled file systems delay no others, unless they are too many.
func TestSlotsOfAllFileSystems(t *testing.T) {
	s := newSlots(new(mounts.Table), writersPerFileSystem, maxWriters)
	var held []*slot
	for i := range maxWriters {
		held = append(held, must(t, s.acquire(fileSystem{device: uint64(1 + i/writersPerFileSystem)}, closedChannel())))
	}
	elsewhere := fileSystem{device: 100}
	if s.acquire(elsewhere, closedChannel()) != nil {
		t.Error("acquire() = a slot beyond the threads that there are")
	}
	got := make(chan *slot)
	go func() { got <- s.acquire(elsewhere, nil) }()
	held[0].release()
	must(t, <-got).release()
	for _, h := range held[1:] {
		h.release()
	}
	s.empty(t)
}

// TestPathResolver: a file that is not open yet belongs to the file system where it will be,
// through missing directories and links.
func TestPathResolver(t *testing.T) {
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
	s := newSlots(&table, writersPerFileSystem, maxWriters)
	for _, tt := range tests {
		segs := newSegments(tt.path, &Options{Format: Raw})
		in := must(t, s.acquireFor(segs, nil))
		if want := (fileSystem{device: table.Device(tt.at)}); in.fileSystem != want || segs.pathResolver().at != tt.at {
			t.Errorf("acquireFor(%s): slot of %v at %s, want %v at %s", tt.path, in.fileSystem, segs.pathResolver().at, want, tt.at)
		}
		in.release()
	}
	s.empty(t)
}

// TestStalledFileSystemBeforeFilesAreOpen: a stalled file system blocks programs that have to open
// files there, in any number of directories, and no others.
func TestStalledFileSystemBeforeFilesAreOpen(t *testing.T) {
	shared, err := os.MkdirTemp("/dev/shm", "superd-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(shared)
	r := newRig(t)
	stalled := fileSystem{device: r.store.slots.mounts.Device(shared)}
	if stalled.device == r.store.slots.mounts.Device(t.TempDir()) {
		t.Skip("/dev/shm is not another file system")
	}
	var held []*slot
	for range writersPerFileSystem { // as many writers hang
		held = append(held, must(t, r.store.slots.acquire(stalled, nil)))
	}
	var waits []<-chan struct{}
	for i := range maxWriters {
		p := r.program(Options{Path: filepath.Join(shared, fmt.Sprint(i), "out.log")})
		p.print("one\n")
		waits = append(waits, p.drained())
	}
	r.poll("all to wait", func() bool { return r.users(stalled) == writersPerFileSystem+len(waits) })
	r.program(Options{Path: filepath.Join(t.TempDir(), "elsewhere.log")}).log("one\n")
	for _, h := range held {
		h.release()
	}
	for _, done := range waits {
		r.await(done, "a slot")
	}
}
