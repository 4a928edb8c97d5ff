package logqueue

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
	q := New(w, 10)
	first := make([]byte, 1)
	q.Write([]byte("a"))
	// From now on the next write to w stalls
	if _, err := r.Read(first); err != nil || first[0] != 'a' {
		t.Fatalf("read %q, %v; want a", first, err)
	}
	for range 100 {
		q.Write([]byte("12345\n")) // returns although there is no reader
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
	q := New(&out, 1<<20)
	for range 1000 {
		q.Write([]byte("line\n"))
	}
	q.Close(time.Minute)
	if got := strings.Count(out.String(), "line\n"); got != 1000 {
		t.Errorf("wrote %d lines, want 1000", got)
	}
}

// TestQueueBatched: messages that may wait are written in one piece, at a call of Flush or with a
// message that may not wait.
func TestQueueBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		q := New(writerFunc(func(p []byte) (int, error) {
			pieces = append(pieces, string(p))
			return len(p), nil
		}), 1<<20)
		requests := 0
		w := q.Batched(func() { requests++ })
		for _, tt := range []struct {
			name     string
			pass     func()
			want     string
			requests int // calls of Flush requested so far
		}{
			{"Pass", q.Flush, "a\nb\n", 1},
			{"a message that doesn't wait", func() { q.Write([]byte("c\n")) }, "a\nb\nc\n", 2},
			{"Close, when Pass is still to come", func() { q.Close(time.Minute) }, "a\nb\n", 2},
		} {
			pieces = nil
			w.Write([]byte("a\n"))
			w.Write([]byte("b\n"))
			synctest.Wait()
			if len(pieces) > 0 || requests != tt.requests {
				t.Errorf("before %s: %q is written, onPending was called %d times, want nothing and %d", tt.name, pieces, requests, tt.requests)
			}
			tt.pass()
			synctest.Wait()
			if len(pieces) != 1 || pieces[0] != tt.want {
				t.Errorf("after %s: %q is written, want %q", tt.name, pieces, tt.want)
			}
		}
	})
}

// TestQueueFlushesWhatWasRequested: messages are written once that was requested, even if later
// ones may wait: the goroutine may be late.
func TestQueueFlushesWhatWasRequested(t *testing.T) {
	for name, request := range map[string]func(*Queue){
		"Pass":                        (*Queue).Flush,
		"a message that doesn't wait": func(q *Queue) { q.Write([]byte("b\n")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				q := newQueue(&out, 1<<20)
				w := q.Batched(func() {})
				w.Write([]byte("a\n"))
				request(q)
				w.Write([]byte("c\n"))
				go q.run()
				synctest.Wait()
				if got := strings.ReplaceAll(out.String(), "b\n", ""); got != "a\nc\n" {
					t.Errorf("%q is written, want all", out.String())
				}
				q.Close(time.Minute)
			})
		})
	}
}

// TestQueueFlushesWithoutFlush: without a call of Flush, messages are written after a time. After a
// call, no timer runs.
func TestQueueFlushesWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := New(&out, 1<<20)
		defer q.Close(time.Minute)
		w := q.Batched(func() {})
		for range 2 {
			out.Reset()
			w.Write([]byte("a\n"))
			time.Sleep(maxBatchDelay)
			synctest.Wait()
			if out.String() != "a\n" {
				t.Errorf("%q is written, want the message", out.String())
			}
		}
		w.Write([]byte("b\n"))
		q.Flush()
		if q.batchTimer.Stop() {
			t.Error("after Pass the timer runs")
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
