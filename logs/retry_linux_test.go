package logs

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestAttemptAskedForAtAFailure: an attempt that is asked for between a failed write and the pause
// after it is made, also if the failed one was asked for itself.
func TestAttemptAskedForAtAFailure(t *testing.T) {
	r := newRig(t)
	r.store.pause = func(int) time.Duration { return time.Hour }
	failed := make(chan struct{}, 1)
	r.store.TellOutages(func(Outage, bool) { signal(failed) })
	p := r.program(Options{Program: "web", Sink: Journald, Address: filepath.Join(t.TempDir(), "none")})
	p.print("line\n")
	r.await(failed, "the first failure")
	for range 20 {
		r.do(p.kick)
		r.poll("the pause", func() bool { return p.state.Load() == draining && len(p.news) == 0 })
		told := make(chan struct{})
		ask := func(f func(error)) {
			if p.DrainedOrFailed(f) {
				t.Error("a line is said to be written that can't be")
			}
		}
		r.do(func() {
			// asks on the goroutine that drains
			again := func(error) { ask(func(error) { close(told) }) }
			p.addMark(barrier{kind: ofOutput, reached: func() {}, failed: again})
		})
		r.await(told, "the second failure")
	}
}

// TestBegunLineBesideAFailure: while one log can't be written, a line of the other stream gets into
// its log in time, and the start of one causes no attempts.
func TestBegunLineBesideAFailure(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		blocked := filepath.Join(dir, "file")
		writeFile(t, blocked, "")
		r := newRig(t)
		var attempts atomic.Int64
		r.store.pause = func(int) time.Duration { attempts.Add(1); return time.Hour }
		path := filepath.Join(dir, "err.log")
		p := r.twoStreams(Options{Path: filepath.Join(blocked, "web.log"), StderrPath: path, Format: Text, Drop: drop})
		written := func(text string) {
			p.complain(text)
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
