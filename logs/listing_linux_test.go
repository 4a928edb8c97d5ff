package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestDirectoryIsListedOnce: readers of the logs of many programs, and their removal, list the
// directory once.
func TestDirectoryIsListedOnce(t *testing.T) {
	r := newRig(t)
	const programs, rotated = 20, 3
	files := map[string]string{"other.log": "", "10": "", "1.": "", "1.x": "", "1-": "", "0": "x"}
	for i := range programs {
		for k := range rotated {
			files[fmt.Sprintf("%d@%d", i, k)] = "old\n"
		}
	}
	dir := r.logDir(files)
	var l listing
	for i := range programs {
		segs := newSegments(filepath.Join(dir, fmt.Sprint(i)), &Options{Format: Raw})
		if err := segs.list(&l); err != nil {
			t.Fatal(err)
		}
		if got, _ := segs.files(); len(got) != rotated {
			t.Errorf("%s has %d rotated files, want %d", segs.path, len(got), rotated)
		}
	}
	added := newSegments(filepath.Join(dir, "late"), &Options{Format: Raw})
	writeFile(t, stamp(time.Now().UnixMicro()).name(added.path), "old\n")
	for _, tt := range []struct {
		l    *listing
		want int
	}{{&l, 0}, {nil, 1}} {
		added.listed = false
		if err := added.list(tt.l); err != nil {
			t.Fatal(err)
		}
		if got, _ := added.files(); len(got) != tt.want {
			t.Errorf("%d rotated files of what came after the first listing, want %d", len(got), tt.want)
		}
	}
}

// BenchmarkReadingOfADirectory: the time to begin reading the logs of many programs in one
// directory is linear in their number, not quadratic.
func BenchmarkReadingOfADirectory(b *testing.B) {
	for _, programs := range []int{500, 2000} {
		b.Run(fmt.Sprint(programs), func(b *testing.B) {
			r := newRig(b)
			dir := b.TempDir()
			for i := range programs {
				for k := range 3 {
					if err := os.WriteFile(stamp(k+1).name(filepath.Join(dir, fmt.Sprint(i))), nil, 0o600); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				b.StopTimer()
				var inputs []Input
				for i := range programs {
					inputs = append(inputs, Input{Collector: r.newCollector(dir, fmt.Sprint(i), Raw)})
				}
				reading := NewReading(b.Context(), Query{Lines: 1})
				b.StartTimer()
				if err := reading.Set(inputs); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				reading.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*programs), "ns/program")
		})
	}
}
