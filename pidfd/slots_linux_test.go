//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// openDescriptors returns the numbers that are open in the process.
func openDescriptors(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		open = append(open, e.Name())
	}
	return open
}

// TestSpawnThroughSlots: a child that gets its files through slots has those and no others,
// whatever our numbers; the slots are empty again at once.
func TestSpawnThroughSlots(t *testing.T) {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Skip(err)
	}
	s, err := ReserveSlots(-1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 100 { // so that later numbers are high
		pipe(t)
	}
	// As many as there are slots with the three of spawnAttr, and too many
	for _, more := range []int{1, slots + 1} {
		var ends []*os.File
		attr := &Attr{Path: "/bin/sh", Args: []string{"sh", "-c", "echo ready; read x; echo >&4 $x"}, CgroupFD: -1, Slots: s, Files: []int{-1}}
		want := []string{"0", "1", "2"}
		for i := range more {
			r, w := pipe(t)
			ends = append(ends, r)
			attr.Files = append(attr.Files, int(w.Fd()))
			want = append(want, strconv.Itoa(4+i))
		}
		c := spawnAttr(t, attr)
		c.line(t)
		if got := openDescriptors(t, c.Pid()); !slices.Equal(got, want) {
			t.Errorf("%d files more: descriptors of the child: %v, want %v", more, got, want)
		}
		if _, err := c.in.WriteString("through four\n"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		if n, err := ends[0].Read(buf); string(buf[:n]) != "through four\n" || err != nil {
			t.Errorf("%d files more: read from the child's descriptor 4: %q, %v", more, buf[:n], err)
		}
		if len(s.free) != 2 {
			t.Fatalf("%d sets of slots are free, want 2", len(s.free))
		}
		for _, fd := range slices.Concat(s.free...) {
			if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); link != "/dev/null" || err != nil {
				t.Errorf("slot %d holds %q, %v; want it empty", fd, link, err)
			}
		}
	}
}

// TestSlotOfOneFile: a file with several numbers in the child needs one slot.
func TestSlotOfOneFile(t *testing.T) {
	s, err := ReserveSlots(-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.end == 0 {
		t.Skip("no close_range")
	}
	a, b := pipe(t)
	low, one, other := s.empty, int(a.Fd()), int(b.Fd())
	f := newCloneSpec()
	s.assign(f)
	set := f.set
	files := slices.Concat([]int{low}, slices.Repeat([]int{one}, slots+1), []int{other, -1, one})
	want := slices.Concat([]int{low}, slices.Repeat([]int{set[0]}, slots+1), []int{set[1], -1, set[0]})
	if ok := s.fill(f, files); f.used != 2 || !ok || !slices.Equal(files, want) {
		t.Errorf("fill() = %t, %d slots used, files at %v; want 2 slots used, files at %v", ok, f.used, files, want)
	}
	s.releaseSet(f)
}

// TestSlotsCloseRanges: a child has no files but its own open, not even until its exec.
func TestSlotsCloseRanges(t *testing.T) {
	tests := []struct {
		keepFD int
		files  []int
		want   [][2]uintptr
	}{
		{-1, nil, [][2]uintptr{{0, 9}}},
		{0, []int{9}, [][2]uintptr{{1, 8}}},
		{4, []int{3, -1, 3, 7, 6, 12}, [][2]uintptr{{0, 2}, {5, 5}, {8, 9}}},
		{12, []int{0, 1, 2}, [][2]uintptr{{3, 9}}},
	}
	for _, tt := range tests {
		s := &Slots{keepFD: tt.keepFD, end: 10}
		if got := s.closeRanges(nil, tt.files); !slices.Equal(got, tt.want) {
			t.Errorf("keepFD %d, files %v: closes %v, want %v", tt.keepFD, tt.files, got, tt.want)
		}
	}
}

// TestSlotsKeepFD: a child has keepFD open until its exec, whatever its number.
func TestSlotsKeepFD(t *testing.T) {
	for range 50 {
		pipe(t)
	}
	keepFD, _ := pipe(t)
	s, err := ReserveSlots(int(keepFD.Fd()), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.end > 0 && s.end <= int(keepFD.Fd()) {
		t.Errorf("a child closes descriptors from %d on, but has %d open", s.end, keepFD.Fd())
	}
	// Its own files may have that number; after the exec it has only these.
	_, w := pipe(t)
	attr := &Attr{Path: "/bin/sh", Args: []string{"sh", "-c", "echo ready; read x"}, CgroupFD: -1, Slots: s, Files: slices.Repeat([]int{-1}, int(keepFD.Fd())+10)}
	attr.Files = append(attr.Files, int(w.Fd()))
	c := spawnAttr(t, attr)
	c.line(t)
	want := []string{"0", "1", "2", strconv.Itoa(len(attr.Files) - 1)}
	slices.Sort(want)
	if got := openDescriptors(t, c.Pid()); !slices.Equal(got, want) {
		t.Errorf("descriptors of the child: %v, want %v", got, want)
	}
	if _, err := c.in.WriteString("end\n"); err != nil {
		t.Fatal(err)
	}
}

// TestSlotsKeepOurDescriptors: a child shares our descriptors at first, but what it does with them
// never affects ours, even if it fails.
func TestSlotsKeepOurDescriptors(t *testing.T) {
	s, err := ReserveSlots(-1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 50 {
		pipe(t)
	}
	before := openDescriptors(t, os.Getpid())
	_, w := pipe(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				attr := &Attr{Path: "/nonexistent", CgroupFD: -1, Slots: s, Files: []int{-1, int(w.Fd()), int(w.Fd())}}
				if _, err := Spawn(attr); !errors.Is(err, unix.ENOENT) {
					t.Errorf("Spawn() = %v, want %v", err, unix.ENOENT)
				}
				attr.Path = "/bin/true"
				child, err := Spawn(attr)
				if err != nil {
					t.Error(err)
					continue
				}
				mustExit(t, child)
				child.Close()
			}
		})
	}
	all.Wait()
	after := openDescriptors(t, os.Getpid())
	if len(after) != len(before)+2 {
		t.Errorf("%d descriptors are open, there were %d and a pipe", len(after), len(before))
	}
}

// TestInheritedOpenFiles: the limit that Go has raised for itself is not passed on.
func TestInheritedOpenFiles(t *testing.T) {
	if os.Getenv("PIDFD_TEST") != "open files" {
		binary, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		c := spawnAttr(t, &Attr{
			Path: "/bin/sh", Args: []string{"sh", "-c", "ulimit -Sn 200; exec " + binary + " -test.run '^TestInheritedOpenFiles$' >/dev/null"},
			Env: []string{"PIDFD_TEST=open files", "TMPDIR=" + dir}, Dir: dir, CgroupFD: -1,
		})
		mustExit(t, c.Process)
		said, err := os.ReadFile(filepath.Join(dir, "limits"))
		if got, want := strings.Fields(string(said)), []string{"200", "200", "more"}; !slices.Equal(got, want) || err != nil {
			t.Errorf("inherited, of a child, own: %v, %v; want %v", got, err, want)
		}
		return
	}
	inherited, err := InheritedOpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	c := spawnAttr(t, &Attr{Path: "/bin/sh", Args: []string{"sh", "-c", "ulimit -Sn"}, CgroupFD: -1, OpenFiles: &inherited})
	own := "no more"
	var limit unix.Rlimit
	if err := prlimitFiles(nil, &limit); err == nil && limit.Cur > 200 {
		own = "more"
	}
	if err := os.WriteFile("limits", []byte(strconv.FormatUint(inherited.Cur, 10)+" "+c.line(t)+" "+own), 0o600); err != nil {
		t.Fatal(err)
	}
}
