package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"superd/tests/table"
)

// lineSize is the length of each printed line, with its end.
const lineSize = 100

// spliceName is the program that only splices what a program prints into a file.
const spliceName = "splice loop"

// An outputRow is one way in which programs print as fast as they can, in lines of 100 bytes.
type outputRow struct {
	name, title string
	programs    int
	write       int    // size of a write, in bytes
	bytes       int64  // of all programs
	maxSize     string // of superd's log files
	peers       bool   // whether the peers take part
}

// outputRows returns the rows. Most runs take half a second to a second.
func (b *bench) outputRows() []outputRow {
	return []outputRow{
		{"output=100", "100 bytes a write", 1, 100, b.bytes(96 << 20), "10MB", false},
		{"output=4000", "4,000 bytes a write", 1, 4000, b.bytes(768 << 20), "100MB", false},
		{"output=64000", "64,000 bytes a write", 1, 64000, b.bytes(1 << 30), "100MB", true},
		{"output=50x100", "100 bytes a write, 50 programs", 50, 100, b.bytes(128 << 20), "1MB", false},
	}
}

// lines returns the number of lines of all programs.
func (row outputRow) lines() int64 {
	return row.bytes / int64(row.programs) / lineSize * int64(row.programs)
}

// command returns the program of a row, which reports its times in the file result.
func (row outputRow) command(k *tools, result string, gate ...string) []string {
	each := row.bytes / int64(row.programs)
	return append([]string{k.output, "print", strconv.FormatInt(each, 10), strconv.Itoa(row.write), result}, gate...)
}

// outputs returns the measurements of all rows: contestants take turns within each round, and each
// round begins with another one.
func (b *bench) outputs() (all []measurement) {
	for _, row := range b.outputRows() {
		movers := b.movers(row)
		for round := range b.turns() {
			for i := range movers {
				m := movers[(i+round)%len(movers)]
				all = append(all, measurement{row.name + "/" + m.name, func(t testing.TB) { m.take(t, round) }})
			}
		}
		if row.peers && b.tools.peers != "" {
			all = append(all, b.peersOutput(row)...)
		}
	}
	return all
}

// turns is the number of rounds of output, which depend on where the kernel runs what takes part.
func (b *bench) turns() int { return 2**rounds + 1 }

// A mover is a contestant of a row of output.
type mover struct {
	name string
	take func(t testing.TB, round int)
}

func (b *bench) movers(row outputRow) (all []mover) {
	for _, how := range []string{spliceName, "cat"} {
		all = append(all, mover{how, func(t testing.TB, round int) { b.bare(t, how, row, round) }})
	}
	for _, format := range []string{"raw", "text", "json"} {
		c := superdContestant("superd "+format, "")
		c.prepare = prepareSuperd(fmt.Sprintf("max_size = '%s', keep = 10000, format = '%s'", row.maxSize, format))
		all = append(all, mover{c.name, func(t testing.TB, round int) { b.output(t, c, row, round) }})
	}
	return all
}

// peersOutput returns the measurements of the peers, and of their loggers alone with times.
func (b *bench) peersOutput(row outputRow) (all []measurement) {
	for round := range *others {
		for _, c := range b.contestants {
			if c.peer {
				all = append(all, measurement{row.name + "/" + c.name, func(t testing.TB) { b.output(t, c, row, round) }})
			}
		}
		for _, name := range []string{"s6-log", "svlogd", "multilog"} {
			all = append(all, measurement{row.name + "/" + name, func(t testing.TB) { b.logger(t, name, row, round) }})
		}
	}
	return all
}

// outputTables writes a table for each row.
func (b *bench) outputTables(w *strings.Builder) {
	var text strings.Builder
	for _, row := range b.outputRows() {
		var names []string
		for _, m := range b.movers(row) {
			names = append(names, m.name)
		}
		if row.peers {
			for _, c := range b.contestants {
				if c.peer {
					names = append(names, c.name)
				}
			}
			names = append(names, "s6-log, with times", "svlogd, with times", "multilog, with times")
		}
		var rows [][]string
		for _, name := range names {
			if _, ok := b.figure(name, row.name+" speed"); ok {
				rows = append(rows, []string{name, b.spread(name, row.name+" speed", speed),
					b.share(name, spliceName, row.name+" speed"), b.share(name, "cat", row.name+" speed"),
					b.spread(name, row.name+" cpu", perGiB), b.worst(name, row.name+" lines")})
			} else if why := b.why[key(name, row.name)]; why != "" {
				rows = append(rows, []string{name, string(why), "–", "–", "–", "–"})
			}
		}
		if rows == nil {
			continue
		}
		fmt.Fprintf(&text, "\n%s, %d MiB in all, files of %s:\n\n%s", row.title, row.bytes>>20, row.maxSize,
			table.Markdown([]string{"", "speed", "of the splice loop", "of cat", "CPU s a GiB", "lines missing"}, rows))
	}
	if text.Len() > 0 {
		fmt.Fprintf(w, "\n### Output\n\nPrograms print lines of 100 bytes as fast as they can, into rotated files that are all kept, "+
			"and each line is counted. The time ends when the last one is in its file. CPU is that of all threads of supervisor "+
			"and writer until then. A splice loop, or cat, empties the pipe of each program into one file. The median of %d "+
			"rounds, with the least and the greatest; ratios are medians of those within the rounds. Runit, s6, daemontools and "+
			"the loggers alone move an eighth of the bytes; files of multilog have 16 MB.\n%s", b.turns(), text.String())
	}
}

// share returns the ratio of a figure to that of another contestant, as text.
func (b *bench) share(c, to, measure string) string {
	ratio, ok := b.ratio(c, to, measure)
	if !ok || c == to {
		return "–"
	}
	return fmt.Sprintf("%.2f", ratio)
}

// worst returns the greatest value of all rounds, as text.
func (b *bench) worst(c, measure string) string {
	f, ok := b.figure(c, measure)
	if !ok {
		return "–"
	}
	return number(f.most)
}

// rawOutput tells how raw output of a row compares with the better of splice loop and cat.
func (b *bench) rawOutput(row outputRow, leastSpeed, mostCPU float64) (string, bool, bool) {
	const name = "superd raw"
	fast, cheap, ok := math.Inf(1), 0.0, true
	for _, to := range []string{spliceName, "cat"} {
		v, ok1 := b.ratio(name, to, row.name+" speed")
		c, ok2 := b.ratio(name, to, row.name+" cpu")
		fast, cheap, ok = min(fast, v), max(cheap, c), ok && ok1 && ok2
	}
	f, _ := b.figure(name, row.name+" speed")
	return fmt.Sprintf("%.2f (%s); CPU %.2f", fast, speed(f.median), cheap), fast >= leastSpeed && cheap <= mostCPU, ok
}

// timedOutput tells how formats with times compare with cat.
func (b *bench) timedOutput(row outputRow, text, json float64) (string, bool, bool) {
	x, ok1 := b.ratio("superd text", "cat", row.name+" speed")
	y, ok2 := b.ratio("superd json", "cat", row.name+" speed")
	return fmt.Sprintf("%.2f; %.2f", x, y), x >= text && y >= json, ok1 && ok2
}

// outputTargets returns the targets of output.
func (b *bench) outputTargets() (all []target) {
	for _, row := range b.outputRows() {
		t := target{what: row.title + ", raw, into rotated files", yardstick: "–", dinit: "–", next: "–",
			goal: "speed at least 0.95 of the faster, CPU at most 1.2 of the lesser of splice loop and cat",
			seen: func() (string, bool, bool) { return b.rawOutput(row, 0.95, 1.2) }}
		if row.peers {
			t.yardstick, t.dinit = "1.0 (2.0 GB/s, 0.47 CPU s a GiB)", "no rotation: hands the file to the program"
			t.next = "0.54 supervisor (0.77 CPU s), 0.35 go-supervisord; s6-log 0.11, multilog 0.07, svlogd 0.05"
		}
		all = append(all, t)
	}
	timed := b.outputRows()[1]
	return append(all, target{timed.title + ", text; json", "–", "–", "–", "at least 0.6; 0.4 of cat",
		func() (string, bool, bool) { return b.timedOutput(timed, 0.6, 0.4) }},
		target{fmt.Sprintf("delay of a line that a flood adds, median of %d quiet programs", quietPrograms), "–", "–", "–", "at most 2 ms",
			func() (string, bool, bool) {
				added, ok := b.addedDelay("superd")
				return seconds(added), added <= 0.002, ok
			}})
}
