package segment

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/logstest"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		name        string
		size, limit int64
		ended       bool
		next        string
		want        int
	}{
		{"as many lines as fit", 4, 10, true, "ab\ncd\nef\n", 6},
		{"all that could be looked at", 4, 10, true, "abc", 3},
		{"a line that does not fit opens a file", 8, 10, true, "ab\ncd\n", 0},
		{"a full file is rotated", 10, 10, true, "a", 0},
		{"a line begun in time runs over", 9, 10, false, "abc\nd\n", 4},
		{"a line begun in time that ends in time", 6, 10, false, "a\nbcdefg\n", 2},
		{"a line begun in time, its end not there yet", 9, 10, false, "abc", 3},
		{"a line longer than the limit runs over", 0, 10, true, "abcdefghijklm\n", 14},
		{"a line longer than twice the limit is cut", 0, 10, true, "abcdefghijklmnopqrstuvwxyz", 20},
		{"that line has its share", 20, 10, false, "abc", 0},
		{"what is left of its share", 18, 10, false, "abc", 2},
		{"the overrun is bounded", 10 << 20, 10 << 20, false, strings.Repeat("x", MaxOverrun+1), MaxOverrun},
		{"a file that was longer all along", 25, 10, false, "abc\n", 0},
		{"a file that was longer all along, at a line end", 25, 10, true, "abc\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := split(tt.size, tt.limit, tt.ended, []byte(tt.next)); got != tt.want {
				t.Errorf("split(%d, %d, %v, %.40q) = %d, want %d", tt.size, tt.limit, tt.ended, tt.next, got, tt.want)
			}
		})
	}
}

// FuzzRotation appends any output to real files, in pieces and with size limits of any size, from a
// pipe, by splice and by copy.
func FuzzRotation(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\n"), uint16(8), uint16(3), true)
	f.Add([]byte("one long line that has no end"), uint16(5), uint16(7), true)
	f.Add([]byte("\n\n\nab\nabcdefghijklmnop\nq\n"), uint16(9), uint16(100), false)
	f.Add(bytes.Repeat([]byte("0123456789abcde\n"), 10_000), uint16(10_000), uint16(50_000), true)
	f.Fuzz(func(t *testing.T, text []byte, limit16, piece16 uint16, splices bool) {
		limit, piece := int64(limit16)+1, int(piece16)+1
		text = text[:min(int64(len(text)), limit*100)] // a hundred segments are enough
		file := newTestFile(t, filepath.Join(t.TempDir(), "web.log"), Options{MaxSize: limit, Keep: 1000})
		for rest := text; len(rest) > 0; {
			next := rest[:min(piece, len(rest))]
			rest = rest[len(next):]
			if !splices {
				file.appendOnly(t)
			}
			file.mustAppend(t, string(next))
		}
		contents, _ := logstest.Files(t, file.path)
		if got := strings.Join(contents, ""); got != string(text) {
			t.Fatalf("files joined are %q, want %q", got, text)
		}
		for i, content := range contents {
			if int64(len(content)) > limit+overrun(limit) {
				t.Errorf("file %d has %d bytes, want at most the limit of %d and %d more", i, len(content), limit, overrun(limit))
			}
			// Without its last line
			whole := content[:strings.LastIndexByte(strings.TrimSuffix(content, "\n"), '\n')+1]
			if int64(len(whole)) > limit {
				t.Errorf("file %d has a line that begins beyond the limit of %d", i, limit)
			}
			if cut := i < len(contents)-1 && !strings.HasSuffix(content, "\n"); cut && int64(len(content)) < limit+overrun(limit) {
				t.Errorf("file %d is cut in mid-line after %d bytes, want %d", i, len(content), limit+overrun(limit))
			}
		}
	})
}

func TestStamps(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 45, 123456789, time.FixedZone("", 3600))
	s := nextStamp(at, 0)
	name := s.Name("/var/log/web.log")
	if want := "/var/log/web.log.20261121T062045.123456Z"; name != want {
		t.Errorf("name = %q, want %q", name, want)
	}
	for _, c := range []Compression{"", Gzip, Zstd} {
		if got, gotC, ok := parseStamp("web.log", "web.log.20261121T062045.123456Z"+c.Suffix()); !ok || got != s || gotC != c {
			t.Errorf("parseStamp() = %d, %q, %v, want %d, %q", got, gotC, ok, s, c)
		}
	}
	if got := nextStamp(at, s); got != s+1 {
		t.Errorf("a second stamp in the same microsecond is %d, want %d", got, s+1)
	}
	if got := nextStamp(at.AddDate(-1, 0, 0), s); got != s+1 {
		t.Errorf("a stamp after the clock went back is %d, want %d", got, s+1)
	}
	for _, name := range []string{
		"web.log", "web.log.1", "web.log.gz", "web.log.20261121T062045.123456Z.gz.tmp", "web.log.20261121T062045.123456Z.gz.zst", "web.log.20261321T062045.123456Z",
		"other.log.20261121T062045.123456Z", "web.log.20261121T062045,123456Z", "web.log.20261121T062045.12345 Z",
	} {
		if s, _, ok := parseStamp("web.log", name); ok {
			t.Errorf("parseStamp(%q) = %d, want none", name, s)
		}
	}
}
