package logs

import (
	"strings"
	"testing"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
)

// TestReadBack: LastLines and Tail show a line that is in one file or two, written before or after
// the start, and perhaps long.
func TestReadBack(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	tests := []struct {
		name, rotated, newest string
		line, tail            string
		cut                   bool
	}{
		{"nothing there", "", "", "", "", false},
		{"a line", "", "one\ntwo\n", "two", "one\ntwo\n", false},
		{"a line in the file before", "one\ntwo\n", "", "two", "one\ntwo\n", false},
		{"a partial one after it", "one\ntwo\n", "thr", "two", "one\ntwo\nthr", false},
		{"a line cut by rotation", "one\ntw", "o\n", "two", "one\ntwo\n", false},
		{"a line longer than is shown", "", "one\n" + long[:3000] + "\n", long[:frame.MaxShown], long[1977:3000] + "\n", true},
		{"a line just as long as the first read", "", "x\n" + long[:frame.MaxShown-1] + "\n", long[:frame.MaxShown-1], long[:frame.MaxShown-1] + "\n", true},
		{"a line longer than is looked at", "", long + "\n", long[len(long)-pipe.ChunkBytes+1:][:frame.MaxShown], long[len(long)-1023:] + "\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newRig(t).program(Options{Path: t.TempDir() + "/web.log", Keep: 10})
			if tt.rotated != "" {
				logstest.WriteFile(t, segment.Stamp(1).Name(p.Path()), tt.rotated)
				if err := p.shared.streams[0].file.Log().List(nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.newest != "" {
				logstest.WriteFile(t, p.Path(), tt.newest)
			}
			if got := p.lastLine(); got != tt.line {
				t.Errorf("last line = %.40q of %d bytes, want %.40q of %d", got, len(got), tt.line, len(tt.line))
			}
			end, cut := p.shared.streams[0].file.Log().Tail(p.shared.streams[0].file.Log().LastRun())
			logstest.Equal(t, "tail", string(end), tt.tail)
			if cut != tt.cut {
				t.Errorf("tail: cut = %v, want %v", cut, tt.cut)
			}
		})
	}
}
