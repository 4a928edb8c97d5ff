package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
)

// TestDirectoryIsListedOnce: readers of the logs of many programs, and their removal, list the
// directory once.
func TestDirectoryIsListedOnce(t *testing.T) {
	const programs, rotated = 20, 3
	files := map[string]string{"other.log": "", "10": "", "1.": "", "1.x": "", "1-": "", "0": "x"}
	for i := range programs {
		for k := range rotated {
			files[fmt.Sprintf("%d@%d", i, k)] = "old\n"
		}
	}
	dir := t.TempDir()
	for name, text := range files {
		base, when, rotated := strings.Cut(name, "@")
		path := filepath.Join(dir, base)
		if rotated {
			second, err := strconv.Atoi(when)
			logstest.Must(t, err)
			path = Stamp(second * 1e6).Name(path)
		}
		logstest.WriteFile(t, path, text)
	}
	var l Listing
	for i := range programs {
		segs := New(filepath.Join(dir, fmt.Sprint(i)), &Options{Format: frame.Raw})
		if err := segs.List(&l); err != nil {
			t.Fatal(err)
		}
		if got, _ := segs.files(); len(got) != rotated {
			t.Errorf("%s has %d rotated files, want %d", segs.path, len(got), rotated)
		}
	}
	added := New(filepath.Join(dir, "late"), &Options{Format: frame.Raw})
	logstest.WriteFile(t, Stamp(time.Now().UnixMicro()).Name(added.path), "old\n")
	for _, tt := range []struct {
		l    *Listing
		want int
	}{{&l, 0}, {nil, 1}} {
		added.listed = false
		if err := added.List(tt.l); err != nil {
			t.Fatal(err)
		}
		if got, _ := added.files(); len(got) != tt.want {
			t.Errorf("%d rotated files of what came after the first listing, want %d", len(got), tt.want)
		}
	}
}
