package bench

import (
	"fmt"
	"strings"
	"time"

	"superd/tests/table"
)

// A target is a figure for superd to reach, beside figures that were not measured here.
type target struct {
	what, yardstick, dinit, next, goal string // given
	seen                               func() (shown string, reached, ok bool)
}

// targets writes the targets of superd and whether it reaches them.
func (b *bench) targets(w *strings.Builder) {
	// In ratio to the yardstick
	within := func(measure string, show unit, most float64) func() (string, bool, bool) {
		return func() (string, bool, bool) {
			f, ok1 := b.figure("superd", measure)
			r, ok2 := b.ratio("superd", yardstickName, measure)
			return fmt.Sprintf("%.2f (%s)", r, show(f.median)), r <= most, ok1 && ok2
		}
	}
	atMost := func(measure string, show unit, most float64) func() (string, bool, bool) {
		return func() (string, bool, bool) {
			f, ok := b.figure("superd", measure)
			return show(f.median), f.median <= most, ok
		}
	}
	both := func(x, y func() (string, bool, bool)) func() (string, bool, bool) {
		return func() (string, bool, bool) {
			text1, reached1, ok1 := x()
			text2, reached2, ok2 := y()
			return text1 + "; " + text2, reached1 && reached2, ok1 && ok2
		}
	}
	n := func(what string, count int) string { return fmt.Sprintf("%s %d", what, b.size(count)) }
	minute := b.time(time.Minute)
	all := []target{
		{"start 1,000", "1.0 (0.44 s)", "1.11", "1.5 process-compose, 1.8 go-supervisord; runit 4.8, s6 8.6, supervisor 9.2", "at most 1.15", within(n("start", 1000), seconds, 1.15)},
		{"start 5,000", "1.0 (2.4 s)", "1.32", "2.5 go-supervisord, 6.2 s6", "at most 1.2: linear", within(n("start", 5000), seconds, 1.2)},
		{"restart latency, median; 99th percentile", "1.0 (0.8 ms)", "1.22", "2.8 pebble, 2.9 daemontools, 3.2 runit; s6 and supervisor wait 1 to 2 s", "at most 1.25; 2.5",
			both(within("restart", seconds, 1.25), within("restart p99", seconds, 2.5))},
		{"500 killed at once", "1.0 (0.21 s)", "1.16", "1.4 pebble, 1.5 go-supervisord", "at most 1.15", within(n("killed", 500), seconds, 1.15)},
		{"memory, 10 programs", "0.8 MiB", "2.3", "2 runit; Go peers 13 to 37", "at most 8 MiB in all (the Go runtime is about 5)", atMost(n("memory", 10), mebibytes, 8<<20)},
		{"memory, 1,000 programs", "1.2 MiB", "4.3", "35 supervisor, 80 to 124 the others", "at most 10 MiB in all", atMost(n("memory", 1000), mebibytes, 10<<20)},
		{"memory, growth per program", "0.4 KiB", "2.0 KiB", "7 supervisor, 55 to 370 the others", "at most 2 KiB, logs included, after a garbage collection at rest", func() (string, bool, bool) {
			grows, ok := b.grows("superd", 1000, 5000)
			return kibibytes(grows), grows <= 2048, ok
		}},
		{"idle, 60 s, 1,000 programs", "0 switches", "0", "0 s6, process-compose", "no return of epoll_wait; at most 4 switches (the Go runtime's own)",
			both(atMost("epoll returns", func(v float64) string { return number(v) + " returns" }, 0),
				atMost(fmt.Sprintf("idle switches %d %v", b.size(1000), minute), func(v float64) string { return number(v) + " switches" }, 4))},
		{"line latency, median", "1.0 (50 µs)", "0.7 (direct)", "1.0 runit", "at most 2.2, better if the design allows", within("latency", seconds, 2.2)},
		{"stop 1,000", "1.0 (30 ms)", "1.0", "3.2 process-compose, 18 daemontools", "at most 1.3", within(n("stop", 1000), seconds, 1.3)},
		{"`status --brief` of 1,000, whole command; full status", "1 ms", "4.0 ms", "6 daemontools, 26 pebble, 669 supervisorctl", "at most 4 ms; 20 ms (CPU, memory, last line of each)",
			both(atMost(n("brief", 1000), seconds, 0.004), atMost(n("full status", 1000), seconds, 0.020))},
		{"recovery of 1,000 after kill -9", "–", "all run twice", "no one-process peer does it", "at most 0.1 s, nothing lost", func() (string, bool, bool) {
			f, ok := b.figure("superd", "recovery")
			nothing := true
			for _, what := range []string{" lost", " doubled", " lines", " cut"} {
				worst, _ := b.figure("superd", "recovery"+what)
				nothing = nothing && worst.most == 0
			}
			text := "nothing lost"
			if !nothing {
				text = "something lost"
			}
			return seconds(f.median) + ", " + text, f.median <= 0.1 && nothing, ok
		}},
	}
	all = append(all, b.outputTargets()...)
	var rows [][]string
	for _, t := range all {
		shown, reached, ok := t.seen()
		result := "met"
		switch {
		case !ok && isPart():
			continue
		case !ok:
			shown, result = "–", "not measured"
		case !reached:
			result = "missed"
		}
		rows = append(rows, []string{t.what, t.yardstick, t.dinit, t.next, t.goal, shown, result})
	}
	if rows == nil {
		return
	}
	w.WriteString("### Targets\n\nOnly the last two columns are measured here. The others are given: figures of dinit, of peers that " +
		"Debian 12 does not have, and of a similar yardstick, from another idle machine of this kind. Numbers " +
		"without a unit are ratios to the yardstick of the same run.\n\n" +
		table.Markdown([]string{"measure", "yardstick, given", "dinit, given", "next peers, given", "target", "superd here", ""}, rows))
}
