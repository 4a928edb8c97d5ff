package logs

import (
	"bytes"
	"testing"
	"time"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		name              string
		size, line, limit int64
		next              string
		want              int
	}{
		{"no limit", 1 << 40, 0, 0, "abc", 3},
		{"it fits", 0, 0, 10, "abc", 3},
		{"it just fits", 7, 7, 10, "ab\n", 3},
		{"as many lines as fit", 4, 4, 10, "ab\ncd\nef\n", 6},
		{"a line that does not fit opens a file", 8, 8, 10, "ab\ncd\n", 0},
		{"a full file is rotated", 10, 10, 10, "a", 0},
		{"a line begun in time runs over", 9, 5, 10, "abc\nd\n", 4},
		{"a line begun in time, its end not there yet", 9, 5, 10, "abc", 3},
		{"a line longer than the limit is cut", 0, 0, 10, "abcdefghijklm", 10},
		{"a line longer than the limit is cut, begun after others", 8, 5, 10, "abcdefghijklm", 7},
		{"that line has its share", 15, 5, 10, "abc", 0},
		{"a line longer than the limit fills its file", 10, 0, 10, "abc\n", 0},
		{"a file that was longer all along", 25, 20, 10, "abc\n", 4},
		{"a file that was longer all along, with nothing but one line", 25, 0, 10, "abc\n", 0},
		{"a file that was longer all along, at a line end", 25, 25, 10, "abc\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := split(tt.size, tt.line, tt.limit, []byte(tt.next)); got != tt.want {
				t.Errorf("split(%d, %d, %d, %q) = %d, want %d", tt.size, tt.line, tt.limit, tt.next, got, tt.want)
			}
		})
	}
}

// FuzzSplit cuts any output, coming in chunks of any size, into files.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\n"), uint8(8), uint8(3))
	f.Add([]byte("one long line that has no end"), uint8(5), uint8(7))
	f.Add([]byte("\n\n\nab\nabcdefghijklmnop\nq\n"), uint8(9), uint8(100))
	f.Fuzz(func(t *testing.T, text []byte, limit8, chunk8 uint8) {
		limit, chunk := int64(limit8)+1, int(chunk8)+1
		var files [][]byte
		var now []byte
		for rest := text; len(rest) > 0; {
			next := rest[:min(chunk, len(rest))]
			rest = rest[len(next):]
			for len(next) > 0 {
				n := split(int64(len(now)), int64(bytes.LastIndexByte(now, '\n')+1), limit, next)
				if n == 0 {
					if len(now) == 0 {
						t.Fatalf("an empty file is rotated")
					}
					files, now = append(files, now), nil
					continue
				}
				now = append(now, next[:n]...)
				next = next[n:]
			}
		}
		files = append(files, now)

		if got := bytes.Join(files, nil); !bytes.Equal(got, text) {
			t.Fatalf("files joined are %q, want %q", got, text)
		}
		begins := true // the file begins at a line start
		for i, file := range files {
			if int64(len(file)) >= 2*limit {
				t.Errorf("file %d has %d bytes, want less than twice the limit of %d", i, len(file), limit)
			}
			ends := bytes.HasSuffix(file, []byte("\n"))
			last := file[bytes.LastIndexByte(file, '\n')+1:]
			if i < len(files)-1 && !ends && int64(len(last)) < limit {
				t.Errorf("file %d is cut in mid-line after %q, %d bytes of it, want at least %d", i, last, len(last), limit)
			}
			body := bytes.TrimSuffix(file, []byte("\n"))
			if begins && bytes.IndexByte(body, '\n') < 0 && int64(len(body)) > limit {
				t.Errorf("file %d has a line of %d bytes, want it cut at %d", i, len(body), limit)
			}
			begins = ends
		}
	})
}

func TestStamps(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 45, 123456789, time.FixedZone("", 3600))
	s := nextStamp(at, 0)
	name := s.name("/var/log/web.log")
	if want := "/var/log/web.log.20261121T062045.123456Z"; name != want {
		t.Errorf("name = %q, want %q", name, want)
	}
	if got, ok := parseStamp("web.log", "web.log.20261121T062045.123456Z"); !ok || got != s {
		t.Errorf("parseStamp() = %d, %v, want %d", got, ok, s)
	}
	if got := nextStamp(at, s); got != s+1 {
		t.Errorf("a second stamp in the same microsecond is %d, want %d", got, s+1)
	}
	if got := nextStamp(at.AddDate(-1, 0, 0), s); got != s+1 {
		t.Errorf("a stamp after the clock went back is %d, want %d", got, s+1)
	}
	for _, name := range []string{
		"web.log", "web.log.1", "web.log.gz", "web.log.20261121T062045.123456Z.gz", "web.log.20261321T062045.123456Z",
		"other.log.20261121T062045.123456Z", "web.log.20261121T062045,123456Z", "web.log.20261121T062045.12345 Z",
	} {
		if s, ok := parseStamp("web.log", name); ok {
			t.Errorf("parseStamp(%q) = %d, want none", name, s)
		}
	}
}
