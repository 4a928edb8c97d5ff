package logs

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/sink"
)

// TestBarrierRetriesAFailedWrite: a barrier that is added between a failed write and the pause
// after it causes another attempt, also if a barrier caused the failed one.
func TestBarrierRetriesAFailedWrite(t *testing.T) {
	r := newRig(t)
	r.store.retryDelay = func(int) time.Duration { return time.Hour }
	failed := make(chan struct{}, 1)
	r.store.OnOutage(func(Outage, bool) { signal(failed) })
	p := r.program(Options{Program: "web", Sink: sink.Journald, Address: filepath.Join(t.TempDir(), "none")})
	p.print("line\n")
	r.await(failed, "the first failure")
	for range 20 {
		r.do(p.ensureDrain)
		r.poll("the pause", func() bool { return p.state.Load() == draining && len(p.shared.wakeup.Wake) == 0 })
		failedTwice := make(chan struct{})
		drain := func(f func(error)) {
			if p.DrainedOrFailed(f) {
				t.Error("a line is said to be written that can't be")
			}
		}
		r.do(func() {
			// adds it on the goroutine that drains
			drainAgain := func(error) { drain(func(error) { close(failedTwice) }) }
			p.queueBarrier(barrier{kind: outputBarrier, reached: func() {}, failed: drainAgain})
		})
		r.await(failedTwice, "the second failure")
	}
}

// TestPartialLineBesideAFailure: while one log can't be written, a line of the other stream gets
// into its log in time, and a partial line causes no attempts.
func TestPartialLineBesideAFailure(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		blocked := filepath.Join(dir, "file")
		logstest.WriteFile(t, blocked, "")
		r := newRig(t)
		var attempts atomic.Int64
		r.store.retryDelay = func(int) time.Duration { attempts.Add(1); return time.Hour }
		path := filepath.Join(dir, "err.log")
		p := r.twoStreams(Options{Path: filepath.Join(blocked, "web.log"), StderrPath: path, Format: frame.Text, Drop: drop})
		written := func(text string) {
			p.printError(text)
			r.poll(text, func() bool {
				log, _ := os.ReadFile(path)
				return strings.Contains(string(log), text)
			})
		}
		p.print("line\n")
		r.poll("a failure", func() bool { return attempts.Load() > 0 })
		written("begun")
		written(" and ended\n")
		written("another\n")
		const most = 10 // for each piece one, and one for what comes before restPatience is over
		if n := attempts.Load(); n > most {
			t.Errorf("drop = %v: %d attempts, want at most %d", drop, n, most)
		}
	}
}
