package logs

import (
	"bytes"
	"io"
	"strings"
	"testing"
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
