package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

// A bench is a virtual loop whose wall clock shows 2026-01-01 00:00 UTC, a Thursday, at the start
// of each test.
type bench struct {
	testing.TB
	*loop.Virtual
	table *Table
	runs  []string
	start Reading
	skip  bool
}

func newBench(t testing.TB) *bench {
	b := &bench{TB: t, Virtual: loop.NewVirtual(1)}
	b.StepWall(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).Sub(b.Wall()))
	b.restart()
	b.start = b.table.read()
	return b
}

// restart replaces the table, as a new superd does.
func (b *bench) restart() {
	b.table = NewTable(b.Root().Child(), "boot 1", func(err error) { b.Fatal(err) })
}

// add records each run, by the wall clock, and with its scheduled time if that differs.
func (b *bench) add(scope *loop.Scope, spec Spec, before *State) *Entry {
	b.Helper()
	if spec.Location == nil {
		spec.Location = time.UTC
	}
	spec.Skip = b.skip
	e, err := b.table.Add(scope, spec, before, func(r Run) {
		text := stamp(b.Wall())
		if !r.At.Equal(b.Wall()) {
			text += " for " + stamp(r.At)
		}
		if r.MadeUp {
			text += " made up"
		}
		b.runs = append(b.runs, text)
	})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func stamp(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }

func (b *bench) expect(want ...string) {
	b.Helper()
	if !slices.Equal(b.runs, want) {
		b.Errorf("runs:\ngot  %q\nwant %q", b.runs, want)
	}
	b.runs = nil
}

func TestRuns(t *testing.T) {
	const hour, year = time.Hour, 365 * 24 * time.Hour
	tests := []struct {
		name, line string
		happens    func(b *bench)
		want       []string
	}{
		{"an interval begins with the program", "@every 5m", func(b *bench) { b.RunFor(15 * time.Minute) },
			[]string{"01-01 00:05:00", "01-01 00:10:00", "01-01 00:15:00"}},
		{"a clock set forward is nothing to an interval", "@every 1h", func(b *bench) { b.RunFor(30 * time.Minute); b.StepWall(year); b.RunFor(hour) },
			[]string{"01-01 01:00:00"}},
		{"a clock set back is nothing to an interval", "@every 1h", func(b *bench) { b.RunFor(30 * time.Minute); b.StepWall(-year); b.RunFor(hour) },
			[]string{"01-01 01:00:00"}},
		{"an interval goes on in sleep", "@every 1h", func(b *bench) { b.RunFor(30 * time.Minute); b.Sleep(20 * time.Minute); b.RunFor(10 * time.Minute) },
			[]string{"01-01 01:00:00"}},
		{"of intervals slept through one is made up, the grid stays", "@every 1h",
			func(b *bench) { b.RunFor(30 * time.Minute); b.Sleep(4 * hour); b.RunFor(time.Hour) },
			[]string{"01-01 04:30:00 for 01-01 01:00:00 made up", "01-01 05:00:00"}},
		{"a loop that hung coalesces", "@every 1h", func(b *bench) {
			b.RunFor(30 * time.Minute)
			b.Advance(3*hour + 20*time.Minute)
			b.RunFor(10 * time.Minute)
		},
			[]string{"01-01 03:50:00 for 01-01 01:00:00", "01-01 04:00:00"}},

		{"a cron line follows the clock", "30 4 * * *", func(b *bench) { b.RunFor(48 * hour) }, []string{"01-01 04:30:00", "01-02 04:30:00"}},
		{"a time slept through is made up", "30 4 * * *", func(b *bench) { b.RunFor(hour); b.Sleep(8 * hour); b.RunFor(24 * hour) },
			[]string{"01-01 09:00:00 for 01-01 04:30:00 made up", "01-02 04:30:00"}},
		{"of many slept through one is made up", "*/5 * * * *", func(b *bench) { b.RunFor(time.Minute); b.Sleep(8 * hour); b.RunFor(4 * time.Minute) },
			[]string{"01-01 08:01:00 for 01-01 00:05:00 made up", "01-01 08:05:00"}},
		{"a little forward: what was skipped is made up", "30 4 * * *", func(b *bench) { b.RunFor(4 * hour); b.StepWall(hour); b.RunFor(24 * hour) },
			[]string{"01-01 05:00:00 for 01-01 04:30:00 made up", "01-02 04:30:00"}},
		{"a little back: nothing is repeated", "30 4 * * *", func(b *bench) { b.RunFor(5 * hour); b.StepWall(-hour); b.RunFor(25 * hour) },
			[]string{"01-01 04:30:00", "01-02 04:30:00"}},
		{"a little back before it ran: it runs by the new time", "30 4 * * *", func(b *bench) { b.RunFor(4 * hour); b.StepWall(-hour); b.RunFor(2 * hour) },
			[]string{"01-01 04:30:00"}},
		{"corrected forward: nothing is missed", "30 4 * * *", func(b *bench) { b.RunFor(4 * hour); b.StepWall(year + 2*hour); b.RunFor(24 * hour) },
			[]string{"01-02 04:30:00"}},
		{"corrected back: all goes by the new time", "30 4 * * *", func(b *bench) { b.RunFor(5 * hour); b.StepWall(-year); b.RunFor(24 * hour) },
			[]string{"01-01 04:30:00", "01-02 04:30:00"}},
		{"every hour: a little back is the new time at once", "10 * * * *", func(b *bench) { b.RunFor(2*hour + 20*time.Minute); b.StepWall(-2 * hour); b.RunFor(hour) },
			[]string{"01-01 00:10:00", "01-01 01:10:00", "01-01 02:10:00", "01-01 01:10:00"}},
		{"every hour: nothing is made up for a step", "10 * * * *", func(b *bench) { b.RunFor(hour); b.StepWall(2 * hour); b.RunFor(hour) },
			[]string{"01-01 00:10:00", "01-01 03:10:00"}},
		{"slept and corrected: what was slept through counts", "30 4 * * *", func(b *bench) { b.RunFor(hour); b.Sleep(8 * hour); b.StepWall(31 * 24 * hour); b.RunFor(hour) },
			[]string{"02-01 09:00:00 for 02-01 04:30:00 made up"}},
		{"what was slept through is skipped at once", "30 4 * * *", func(b *bench) { b.RunFor(hour); b.Sleep(8 * hour); b.RunFor(24 * hour) },
			[]string{"01-01 09:00:00 for 01-01 04:30:00 made up", "01-02 04:30:00"}},
		{"a line that never comes", "0 0 31 2 *", func(b *bench) { b.RunFor(10 * hour); b.StepWall(year); b.RunFor(hour) }, nil},
		{"an interval beyond all time", "@every 2562000h", func(b *bench) { b.RunFor(10 * hour); b.StepWall(year); b.RunFor(hour) }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.skip = strings.Contains(tt.name, "is skipped at once")
			b.add(b.Root().Child(), Spec{Line: tt.line}, nil)
			tt.happens(b)
			b.expect(tt.want...)
		})
	}
}

// TestRestart stops superd, lets time pass and starts it again with the saved state.
func TestRestart(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	tests := []struct {
		name, line string
		down       func(b *bench)
		bootID     string // "" for the same boot
		want       []string
	}{
		{"nothing was missed", "30 4 * * *", func(b *bench) { b.RunFor(hour) }, "", []string{"01-02 04:30:00"}},
		{"three days missed are one run", "30 4 * * *", func(b *bench) { b.RunFor(3*day + hour) }, "",
			[]string{"01-04 06:00:00 for 01-02 04:30:00 made up", "01-05 04:30:00"}},
		{"intervals missed are one run", "@every 2h", func(b *bench) { b.RunFor(5 * hour) }, "",
			[]string{"01-01 10:00:00 for 01-01 06:00:00 made up", "01-01 12:00:00"}},
		{"the interval goes on as it was", "@every 2h", func(b *bench) { b.RunFor(30 * time.Minute) }, "", []string{"01-01 06:00:00"}},
		{"the clock was corrected meanwhile", "30 4 * * *", func(b *bench) { b.RunFor(hour); b.StepWall(30 * day) }, "", []string{"02-01 04:30:00"}},
		{"the machine was booted: missed", "30 4 * * *", func(b *bench) { b.RunFor(day) }, "boot 2",
			[]string{"01-02 05:00:00 for 01-02 04:30:00 made up", "01-03 04:30:00"}},
		{"the machine was booted: the interval goes on by the wall clock", "@every 2h", func(b *bench) { b.RunFor(30 * time.Minute) }, "boot 2",
			[]string{"01-01 06:00:00"}},
		{"the machine was booted: an interval passed", "@every 2h", func(b *bench) { b.RunFor(5 * hour) }, "boot 2",
			[]string{"01-01 10:00:00 for 01-01 06:00:00 made up", "01-01 12:00:00"}},
		{"the machine was booted with a clock from before", "30 4 * * *", func(b *bench) { b.StepWall(-365 * day) }, "boot 2", []string{"01-02 04:30:00"}},
		{"the machine was booted with a clock from before: an interval is not longer", "@every 2h", func(b *bench) { b.StepWall(-365 * day) }, "boot 2",
			[]string{"01-01 07:00:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			scope := b.Root().Child()
			e := b.add(scope, Spec{Line: tt.line}, nil)
			b.RunFor(5 * hour)
			b.runs = nil
			kept, err := json.Marshal(e.State())
			if err != nil {
				t.Fatal(err)
			}
			scope.Close()
			if b.table.entries.Len() != 0 {
				t.Error("a closed scope leaves its entry")
			}
			tt.down(b)
			var state State
			if err := json.Unmarshal(kept, &state); err != nil {
				t.Fatal(err)
			}
			b.restart()
			if tt.bootID != "" {
				b.table.bootID = tt.bootID
			}
			b.expect()
			b.add(b.Root().Child(), Spec{Line: tt.line}, &state)
			for i := 0; len(b.runs) < len(tt.want) && i < 100; i++ {
				b.RunFor(hour)
			}
			b.expect(tt.want...)
		})
	}
}

func TestChangedLineBeginsAnew(t *testing.T) {
	b := newBench(t)
	state := b.add(b.Root().Child(), Spec{Line: "@every 1h"}, nil).State()
	b.RunFor(30 * time.Minute)
	b.add(b.Root().Child(), Spec{Line: "@every 20m"}, &state)
	b.RunFor(25 * time.Minute)
	b.expect("01-01 00:50:00")
	if _, err := b.table.Add(b.Root(), Spec{Line: "@every soon"}, &state, nil); err == nil {
		t.Error("a broken line is accepted")
	}
}

// TestJitter schedules 200 programs for one time: they are spread, each stays within its bound and
// on its grid.
func TestJitter(t *testing.T) {
	for _, line := range []string{"@every 10m", "*/10 * * * *"} {
		b := newBench(t)
		var delays []time.Duration
		next := make(map[int]time.Time)
		for i := range 200 {
			spec := Spec{Line: line, Location: time.UTC, Jitter: time.Minute, Seed: uint64(i)}
			_, err := b.table.Add(b.Root().Child(), spec, nil, func(r Run) {
				if last, ok := next[i]; ok && !r.At.Equal(last.Add(10*time.Minute)) {
					t.Errorf("%s: program %d runs for %v after %v", line, i, r.At, last)
				}
				next[i] = r.At
				delays = append(delays, b.Wall().Sub(r.At))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		b.RunFor(101 * time.Minute)
		slices.Sort(delays)
		if n := len(delays); n != 2000 || delays[0] < 0 || delays[n-1] >= time.Minute || delays[n/2] < 20*time.Second || delays[n/2] > 40*time.Second {
			t.Errorf("%s: %d runs, late by %v to %v, half of them by %v", line, n, delays[0], delays[n-1], delays[n/2])
		}
	}
}

// TestJitterOfMadeUpRuns: made-up runs are spread, too, and not delayed again whenever the clock is
// set.
func TestJitterOfMadeUpRuns(t *testing.T) {
	b := newBench(t)
	e := b.add(b.Root().Child(), Spec{Line: "30 4 * * *", Jitter: time.Hour, Seed: 7}, nil)
	b.Sleep(8 * time.Hour)
	b.RunFor(0)
	due, _, _ := e.Next()
	if late := due.Sub(b.Wall()); late <= 0 || late >= time.Hour {
		t.Fatalf("the run that is made up comes after %v", late)
	}
	b.RunFor(due.Sub(b.Wall()) / 2)
	b.StepWall(time.Second)
	b.RunFor(0)
	if again, _, _ := e.Next(); !again.Equal(due.Add(time.Second)) {
		t.Errorf("the run that is made up was put off from %v to %v", due, again)
	}
}

// TestMadeUpRunIsNotPutOffByRestarts restarts superd repeatedly before a made-up run is due.
func TestMadeUpRunIsNotPutOffByRestarts(t *testing.T) {
	b := newBench(t)
	spec := Spec{Line: "30 4 * * *", Jitter: time.Hour, Seed: 7}
	scope := b.Root().Child()
	e := b.add(scope, spec, nil)
	b.Sleep(8 * time.Hour)
	b.RunFor(0)
	_, wait, _ := e.Next()
	for range 8 {
		b.RunFor(wait / 10)
		state := e.State()
		scope.Close()
		scope = b.Root().Child()
		b.restart()
		e = b.add(scope, spec, &state)
	}
	b.RunFor(wait/10 + time.Second)
	b.expect()
	b.RunFor(wait / 10)
	if len(b.runs) != 1 {
		t.Errorf("runs %q, want one after %v", b.runs, wait)
	}
}

// TestMakeUpUnderALowerJitter lowers the jitter before a made-up run is due.
func TestMakeUpUnderALowerJitter(t *testing.T) {
	b := newBench(t)
	spec := Spec{Line: "30 4 * * *", Jitter: time.Hour, Seed: 7}
	scope := b.Root().Child()
	e := b.add(scope, spec, nil)
	b.Sleep(8 * time.Hour)
	b.RunFor(0)
	state := e.State()
	scope.Close()
	spec.Jitter = 0
	e = b.add(b.Root().Child(), spec, &state)
	if _, wait, _ := e.Next(); wait != 0 {
		t.Errorf("the run that is made up comes after %v, want it at once: there is no jitter any more", wait)
	}
}

// TestClockIsWatchedLater makes a table while no descriptor is free.
func TestClockIsWatchedLater(t *testing.T) {
	b := newBench(t)
	b.RefuseClockWatch(true)
	warnings := 0
	b.table = NewTable(b.Root().Child(), "boot 1", func(error) { warnings++ })
	b.add(b.Root().Child(), Spec{Line: "0 12 * * *"}, nil)
	b.RunFor(time.Hour)
	b.StepWall(time.Hour)
	b.RefuseClockWatch(false)
	b.RunFor(watchPause)
	before := b.Turns()
	b.RunFor(9 * time.Hour)
	if n := b.Turns() - before; warnings != 1 || n != 0 {
		t.Errorf("%d warnings, %d turns while nothing is due; want 1, none", warnings, n)
	}
	b.RunFor(time.Hour)
	b.expect("01-01 12:00:00")
}

// TestNothingHappensBetweenRuns counts the turns of the loop.
func TestNothingHappensBetweenRuns(t *testing.T) {
	b := newBench(t)
	for range 100 {
		b.add(b.Root().Child(), Spec{Line: "0 12 * * *"}, nil)
	}
	before := b.Turns()
	b.RunFor(11 * time.Hour)
	if n := b.Turns() - before; n != 0 {
		t.Errorf("%d turns while nothing is due", n)
	}
}

// TestRandomHistories lets time pass, sets the clock, suspends the machine and restarts superd, in
// any order. No time of a line that follows the clock is run twice unless the clock is corrected,
// intervals keep their distance, and the next run is never further away than the line has it.
func TestRandomHistories(t *testing.T) {
	lines := []struct {
		line   string
		pause  time.Duration // longest time between two runs
		repeat bool          // whether it repeats when the clock is set back
	}{
		{"@every 47m", 47 * time.Minute, false},
		{"@every 26h", 26 * time.Hour, false},
		{"10 * * * *", time.Hour, true},
		{"30 4 * * *", 25 * time.Hour, false},
		{"15 2 * * sun", 7*24*time.Hour + time.Hour, false},
		{"0 */2 * * *", 3 * time.Hour, false},
	}
	berlin := zone(t, "Europe/Berlin")
	for seed := range uint64(90) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := newBench(t)
		line := lines[seed%uint64(len(lines))]
		spec := Spec{Line: line.line, Location: berlin, Seed: seed}
		if rng.IntN(2) == 0 {
			spec.Jitter = time.Duration(rng.Int64N(int64(2 * time.Hour)))
		}
		history := ""
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, %s: %s\n%s", seed, spec.Line, fmt.Sprintf(format, args...), history)
		}
		var last time.Time // scheduled time of the last run
		var lastAt Reading // time of the last run
		late := false      // the last run was made up: the next one may come soon
		corrected := true  // whether the clock was corrected since
		run := func(r Run) {
			now := b.table.read()
			history += fmt.Sprintf("run for %v, made up %v, at %v\n", r.At, r.MadeUp, now)
			switch interval := line.line[0] == '@'; {
			case !interval && !line.repeat && !corrected && !r.At.After(last):
				fail("run for %v after that for %v", r.At, last)
			case !r.At.Before(now.Wall.Add(time.Second)):
				fail("run for %v, which is yet to come", r.At)
			case interval && !r.MadeUp && !late && lastAt.Boot > 0 && now.Boot-lastAt.Boot < line.pause-spec.Jitter:
				fail("two runs within %v", now.Boot-lastAt.Boot)
			}
			last, lastAt, late, corrected = r.At, now, r.MadeUp, false
		}
		scope := b.Root().Child()
		e, err := b.table.Add(scope, spec, nil, run)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			d := time.Duration(rng.Int64N(int64(30 * time.Hour)))
			switch rng.IntN(6) {
			case 0:
				b.Sleep(d)
			case 1:
				b.StepWall(d/5 - correction) // a little, forward or backward
			case 2:
				b.StepWall(100 * (d - 15*time.Hour))
				corrected = true
			case 3:
				state := e.State()
				scope.Close()
				b.Advance(d)
				scope = b.Root().Child()
				b.restart()
				if e, err = b.table.Add(scope, spec, &state, run); err != nil {
					t.Fatal(err)
				}
			default:
				b.RunFor(d)
			}
			b.RunFor(0)
			history += fmt.Sprintf("now %v\n", b.table.read())
			_, wait, ok := e.Next()
			most := line.pause + min(spec.Jitter, line.pause)
			if line.line[0] != '@' && !line.repeat {
				most += correction // times repeated by that are not run again
			}
			if !ok || wait > most || wait < 0 {
				fail("the next run is in %v", wait)
			}
		}
	}
}

// TestOnARealLoop uses a table on the kernel's clocks.
func TestOnARealLoop(t *testing.T) {
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(l.Root(), "", func(err error) { t.Fatal(err) })
	var runs []Run
	e, err := table.Add(l.Root(), Spec{Line: "@every 10ms"}, nil, func(r Run) {
		if runs = append(runs, r); len(runs) == 3 {
			l.Stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if next, in, ok := e.Next(); !ok || time.Until(next) > 10*time.Millisecond || in > 10*time.Millisecond {
		t.Errorf("Next() = %v, %v, %v", next, in, ok)
	}
	l.Root().After(30*time.Second, func() {
		t.Errorf("%d runs in 30s", len(runs))
		l.Stop()
	})
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
}
