package bench

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"superd/tests/table"
)

// quietPrograms print a line each 20 ms or so while another program floods.
const quietPrograms = 50

// quietLines is how many lines each of them prints.
const quietLines = 100

// delays returns the measurements of how late lines of quiet programs are in their files, with and
// without a flood.
func (b *bench) delays() (all []measurement) {
	for round := range *rounds {
		for _, flood := range []bool{false, true} {
			measure := delayMeasure(flood)
			all = append(all,
				measurement{"output=" + measure + "/" + spliceName, func(t testing.TB) { b.bareDelay(t, flood, round) }},
				measurement{"output=" + measure + "/superd", func(t testing.TB) { b.delay(t, b.contestants[1], flood, round) }})
		}
	}
	return all
}

func delayMeasure(flood bool) string {
	if flood {
		return "flood"
	}
	return "calm"
}

// delay measures the time from a write of a quiet program until the line is in its file.
func (b *bench) delay(t testing.TB, c *contestant, flood bool, round int) {
	var open func()
	m, _, ok := b.begin(t, c, func(a *arena) (all []program) {
		open = newGate(t, a.dir)
		for _, command := range b.quietCommands(a.path("result"), a.path("gate"), flood) {
			all = append(all, program{fmt.Sprintf("p%04d", len(all)), command})
		}
		return all
	})
	if !ok {
		b.not(c.name, delayMeasure(flood), "not all run within %v", longest)
		return
	}
	m.waitIdle()
	b.watch(t, c.name, flood, round, open, func(i int) string { return m.path(fmt.Sprintf(c.logFile, fmt.Sprintf("p%04d", i))) })
	m.end()
}

// bareDelay measures the same with a splice loop for each program.
func (b *bench) bareDelay(t testing.TB, flood bool, round int) {
	dir := t.TempDir()
	file := func(i int) string { return filepath.Join(dir, "log", fmt.Sprint("out", i)) }
	open := newGate(t, dir)
	ended := make(chan struct{})
	var all sync.WaitGroup
	for i, command := range b.quietCommands(filepath.Join(dir, "result"), filepath.Join(dir, "gate"), flood) {
		mover := b.mover(t, spliceName, file(i))
		all.Go(func() { pipe(t, exec.Command(command[0], command[1:]...), mover, func() { <-ended }) })
	}
	b.watch(t, spliceName, flood, round, open, file)
	close(ended)
	all.Wait()
}

// quietCommands returns the quiet programs, and last the one that floods.
func (b *bench) quietCommands(result, gate string, flood bool) (all [][]string) {
	for range quietPrograms {
		all = append(all, []string{b.tools.output, "quiet", fmt.Sprint(b.repeats(quietLines)), gate})
	}
	if flood {
		endless := outputRow{programs: 1, write: lineSize, bytes: 1 << 50}
		all = append(all, endless.command(b.tools, result, gate))
	}
	return all
}

// watch opens the gate and records the delays of all lines of quiet programs.
func (b *bench) watch(t testing.TB, name string, flood bool, round int, open func(), file func(i int) string) {
	count := quietPrograms * b.repeats(quietLines)
	result := filepath.Join(t.TempDir(), "delays")
	watcher := exec.CommandContext(t.Context(), b.tools.output, "watch", fmt.Sprint(count), result)
	for i := range quietPrograms {
		watcher.Args = append(watcher.Args, file(i))
	}
	out, err := watcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problem strings.Builder
	watcher.Stderr = &problem
	if err := watcher.Start(); err != nil {
		t.Fatal(err)
	}
	_, ready := bufio.NewReader(out).ReadString('\n')
	open()
	err = watcher.Wait()
	if ready != nil || err != nil {
		b.not(name, delayMeasure(flood), "not watched: %s", strings.TrimSpace(problem.String()))
		return
	}
	all := numbers(t, result)
	slices.Sort(all)
	b.addIn(round, name, delayMeasure(flood), median(all)/1e9)
	b.addIn(round, name, delayMeasure(flood)+" p99", percentile99(all)/1e9)
}

// addedDelay returns what a flood adds to the median delay of a line, in seconds.
func (b *bench) addedDelay(name string) (added float64, ok bool) {
	calm, ok1 := b.figure(name, delayMeasure(false))
	flood, ok2 := b.figure(name, delayMeasure(true))
	return flood.median - calm.median, ok1 && ok2
}

// delayTable writes the delays of lines of quiet programs.
func (b *bench) delayTable(w *strings.Builder) {
	var rows [][]string
	for _, name := range []string{spliceName, "superd"} {
		if _, ok := b.addedDelay(name); !ok {
			if why := b.why[key(name, delayMeasure(true))]; why != "" {
				rows = append(rows, []string{name, "–", "–", string(why), "–"})
			}
			continue
		}
		row := []string{name}
		for _, flood := range []bool{false, true} {
			row = append(row, b.spread(name, delayMeasure(flood), seconds), b.spread(name, delayMeasure(flood)+" p99", seconds))
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return
	}
	fmt.Fprintf(w, "\n### Delay of lines\n\n%d programs print a line about each 20 ms: the delay from the write until the line is in the file, without and "+
		"with a program beside them that floods with 100 bytes a write.\n\n%s",
		quietPrograms, table.Markdown([]string{"", "median", "99th percentile", "median beside a flood", "99th percentile"}, rows))
}
