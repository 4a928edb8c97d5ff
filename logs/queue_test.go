package logs

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueNeverBlocksAndCountsDrops(t *testing.T) {
	r, w := io.Pipe()
	q := NewQueue(w, 10)
	first := make([]byte, 1)
	q.Write([]byte("a"))
	if _, err := r.Read(first); err != nil || first[0] != 'a' { // from now on the next write to w stalls
		t.Fatalf("read %q, %v; want a", first, err)
	}
	for range 100 {
		q.Write([]byte("12345\n")) // returns although nobody reads
	}
	rest := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		rest <- string(all)
	}()
	q.Close(time.Minute)
	w.Close()
	got := <-rest
	written := strings.Count(got, "12345\n")
	if written < 1 || written > 2 {
		t.Errorf("wrote %d lines, want the 1 or 2 that fit", written)
	}
	if !strings.Contains(got, "messages dropped") {
		t.Errorf("got %q, want a line that counts the dropped messages", got)
	}
}

func TestQueueWritesAllBeforeCloseReturns(t *testing.T) {
	var out bytes.Buffer
	q := NewQueue(&out, 1<<20)
	for range 1000 {
		q.Write([]byte("line\n"))
	}
	q.Close(time.Minute)
	if got := strings.Count(out.String(), "line\n"); got != 1000 {
		t.Errorf("wrote %d lines, want 1000", got)
	}
}

// Messages that may wait are written in one piece when Pass is called, or with one that may not.
func TestQueueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		q := NewQueue(writerFunc(func(p []byte) (int, error) {
			pieces = append(pieces, string(p))
			return len(p), nil
		}), 1<<20)
		asked := 0
		w := q.Later(func() { asked++ })
		for i, tt := range []struct {
			name string
			pass func()
			want string
		}{
			{"Pass", q.Pass, "a\nb\n"},
			{"a message that doesn't wait", func() { q.Write([]byte("c\n")) }, "a\nb\nc\n"},
			{"Close", func() { q.Close(time.Minute) }, "a\nb\n"},
		} {
			pieces = nil
			w.Write([]byte("a\n"))
			w.Write([]byte("b\n"))
			synctest.Wait()
			if len(pieces) > 0 || asked != i+1 {
				t.Errorf("before %s: %q is written, it was asked for %d times, want nothing and %d", tt.name, pieces, asked, i+1)
			}
			tt.pass()
			synctest.Wait()
			if len(pieces) != 1 || pieces[0] != tt.want {
				t.Errorf("after %s: %q is written, want %q", tt.name, pieces, tt.want)
			}
		}
	})
}
