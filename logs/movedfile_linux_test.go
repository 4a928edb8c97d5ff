package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/pipe"
	"superd/logs/segment"
)

// appendFile appends to a file that superd does not write to.
func appendFile(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// openDirect begins a run of a program that writes to its file itself.
func (r *rig) openDirect(c *Collector) *os.File {
	r.Helper()
	r.do(func() { c.BeginRun("", false) })
	fd, err := c.OpenDirect(Stdout, uint32(os.Geteuid()))
	if err != nil {
		r.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), c.Path())
	r.Cleanup(func() { f.Close() })
	return f
}

// TestFollowMovedFileThatGrows: a follower has a moved file open, and shows what is appended to it,
// which has no position. Then it reads the next file from its start.
func TestFollowMovedFileThatGrows(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Direct} {
		t.Run(string(format), func(t *testing.T) {
			r := newRig(t)
			o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: format}
			shown := r.show()
			p := r.program(o)
			write, reopen := p.log, func() {}
			if format == frame.Direct {
				var f *os.File
				reopen = func() { f = r.openDirect(p.Collector) }
				write = func(text string) {
					if _, err := f.WriteString(text); err != nil {
						t.Fatal(err)
					}
				}
				reopen()
			}
			expect := func(want string) {
				t.Helper()
				shown.expect(want)
			}
			write("one\n")
			expect("one\n")
			if err := os.Rename(o.Path, o.Path+".1"); err != nil {
				t.Fatal(err)
			}
			appendFile(t, o.Path+".1", "two, which is longer than all that follows\n")
			reopen()
			write("1\n")
			expect("one\ntwo, which is longer than all that follows\n1\n")
			write("2\n")
			expect("one\ntwo, which is longer than all that follows\n1\n2\n")
		})
	}
}

// TestReadMovedFileThatGrows: the same for a slow reader, which then continues at its cursor.
func TestReadMovedFileThatGrows(t *testing.T) {
	r := newRig(t)
	r.shortenDelays()
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	p.log(strings.Repeat("0123456789abcde\n", 2*pipe.ChunkBytes/16))
	reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Follow: true})
	defer reading.Close()
	if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := reading.Next(); err != nil {
			t.Fatal(err)
		}
	}
	p.rest()
	if err := os.Rename(p.Path(), p.Path()+".1"); err != nil {
		t.Fatal(err)
	}
	appendFile(t, p.Path()+".1", "appended\n")
	p.log("1\n2\n3\n")
	var lines []string
	var cursors []segment.Cursor
	for {
		e, err := reading.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		lines, cursors = append(lines, string(e.Line)), append(cursors, e.Cursor)
	}
	const want = "0123456789abcde appended 1 2 3"
	n := len(lines) - 5
	if got := strings.Join(lines[max(n, 0):], " "); got != want {
		t.Fatalf("read %q at the end, want %q", got, want)
	}
	for i, rest := range []string{"web:1 web:2 web:3 ", "web:2 web:3 ", "web:3 ", ""} {
		if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: p.Collector.Log(Stdout), Resume: &cursors[n+1+i]}); got != rest {
			t.Errorf("after %q follows %q, want %q", lines[n+1+i], got, rest)
		}
	}
}
