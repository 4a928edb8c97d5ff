package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"superd/logs/fslimit"
)

// must returns s and fails if it is nil.
func must(t *testing.T, s *fslimit.Slot) *fslimit.Slot {
	t.Helper()
	if s == nil {
		t.Fatal("no slot")
	}
	return s
}

// fileSystemOf returns the file system of a path without links.
func (r *rig) fileSystemOf(path string) fslimit.FileSystem {
	return r.store.writers.FileSystemOf(path, resolved(r, path))
}

// resolved returns the links of a path, all of them known.
func resolved(r *rig, path string) *fslimit.Links {
	var links fslimit.Links
	r.store.writers.AcquirePath(path, &links, nil).Release()
	return &links
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
	stalled := r.fileSystemOf(shared)
	if stalled == r.fileSystemOf(t.TempDir()) {
		t.Skip("/dev/shm is not another file system")
	}
	var held []*fslimit.Slot
	for range writersPerFileSystem { // as many writers hang
		held = append(held, must(t, r.store.writers.Acquire(stalled, nil)))
	}
	var waits []<-chan struct{}
	for i := range maxWriters {
		p := r.program(Options{Path: filepath.Join(shared, fmt.Sprint(i), "out.log")})
		p.print("one\n")
		waits = append(waits, p.drained())
	}
	r.poll("all to wait", func() bool { return r.store.writers.Users(stalled) == writersPerFileSystem+len(waits) })
	r.program(Options{Path: filepath.Join(t.TempDir(), "elsewhere.log")}).log("one\n")
	for _, h := range held {
		h.Release()
	}
	for _, done := range waits {
		r.await(done, "a slot")
	}
}
