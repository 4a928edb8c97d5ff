package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/harness"
)

// idle counts what contestants do while their programs are idle. All are watched over the same
// time, at no cost for others, as only a process's own processor time and switches are read.
func (b *bench) idle(t testing.TB, count int, windows ...time.Duration) {
	name := func(what string, window time.Duration) string { return fmt.Sprintf("%s %d %v", what, count, window) }
	type watched struct {
		*match
		supervising []int
		before      effort
	}
	var all []*watched
	for _, c := range b.contestants {
		if c.only != nil || !b.fits(c, count) {
			continue
		}
		m, _, ok := b.begin(t, c, func(a *arena) []program { return children(a, count) })
		if !ok {
			for _, window := range windows {
				b.not(c.name, name("idle cpu", window), "not all run within %v", longest)
			}
			continue
		}
		all = append(all, &watched{match: m})
	}
	last := windows[len(windows)-1]
	var tracing sync.WaitGroup
	if count == b.size(1000) { // a superd of its own: a tracer switches to and from what it traces
		c := superdContestant("traced superd", "")
		m, _, ok := b.begin(t, c, func(a *arena) []program { return children(a, count) })
		if !ok {
			t.Fatal("superd does not run all programs")
		}
		supervising := m.waitIdle()
		tracing.Go(func() {
			returns, err := epollReturns(t.Context(), supervising, last)
			if err != nil {
				b.not("superd", "epoll returns", "not counted: %v", err)
				return
			}
			b.add("superd", "epoll returns", float64(returns))
		})
	}
	for _, w := range all {
		w.supervising = w.waitIdle()
	}
	for _, w := range all {
		w.before = w.effort(w.supervising)
	}
	begin := time.Now()
	for _, window := range windows {
		pause(t, window-time.Since(begin))
		for _, w := range all {
			after := w.effort(w.supervising)
			b.addTime(w.c.name, name("idle cpu", window), after.cpu-w.before.cpu)
			b.add(w.c.name, name("idle switches", window), float64(after.switches-w.before.switches))
		}
	}
	tracing.Wait()
	for _, w := range all {
		w.lag(name("idle", last))
		w.end()
	}
}

// attaching is how long the start of a trace keeps the threads of a process busy: each call ends,
// and Go's scheduler runs.
const attaching = 2 * time.Second

// epollReturns counts the returns of epoll_wait in all threads of processes with strace.
func epollReturns(ctx context.Context, pids []int, window time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attaching+window)
	defer cancel()
	trace := exec.CommandContext(ctx, "strace", "-f", "-q", "-ttt", "-e", "trace=epoll_wait,epoll_pwait,epoll_pwait2")
	for _, pid := range pids {
		trace.Args = append(trace.Args, "-p", strconv.Itoa(pid))
	}
	trace.Cancel = func() error { return trace.Process.Signal(os.Interrupt) } // it detaches
	out := new(harness.Output)
	trace.Stderr = out
	begin := float64(time.Now().Add(attaching).UnixMicro()) / 1e6
	if err := trace.Run(); err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("strace: %w: %s", err, out)
	}
	returns := 0
	for line := range strings.Lines(out.String()) {
		// [pid 812] 1763800000.123456 epoll_pwait2(7, [], …) = 0
		_, rest, ok := strings.Cut(line, "] ")
		if !ok {
			rest = line
		}
		at, rest, _ := strings.Cut(rest, " ")
		if seconds, err := strconv.ParseFloat(at, 64); err != nil || seconds < begin {
			continue
		}
		if strings.Contains(rest, "epoll_") && strings.Contains(rest, ") = ") {
			returns++
		}
	}
	return returns, nil
}
