package bench

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"superd/tests/table"
)

// A column of a table is a measure with its unit.
type column struct {
	title, measure string
	show           unit
}

// report returns the tables.
func (b *bench) report(took time.Duration) string {
	var w strings.Builder
	command := "make bench"
	if *quick {
		command = "make bench-quick"
	}
	fmt.Fprintf(&w, "Measured by `%s` in %v: %s; %s, files on %s; gcc %s. %d rounds, %d of them with the peers.\n\n", command, took.Round(time.Second), table.Machine(), memory(), fileSystem(os.TempDir()), gcc(), *rounds, min(*rounds, *others))
	if b.tools.missing != "" && *others > 0 {
		fmt.Fprintf(&w, "The peers are missing: %s.\n\n", b.tools.missing)
	}
	b.targets(&w)

	if !isPart() {
		b.contestantsTable(&w)
	}

	size := func(n int) string { return thousands(b.size(n)) }
	per := func(what string, show unit, counts ...int) (all []column) {
		for _, n := range counts {
			all = append(all, column{size(n), fmt.Sprintf("%s %d", what, b.size(n)), show})
		}
		return all
	}
	b.section(&w, "Start", "From the start of the supervisor until all programs were executed.", per("start", seconds, 10, 100, 1000, 5000))
	b.section(&w, "Restart", fmt.Sprintf("From SIGKILL until the next run was executed: %s programs killed one by one (%d with supervisors that "+
		"delay restarts), then %s and %s killed at once until all are replaced. Each had run for more than a second.", size(200), b.repeats(limitedCrashes), size(500), size(1000)),
		[]column{{"median", "restart", seconds}, {"99th percentile", "restart p99", seconds},
			{size(500) + " at once", fmt.Sprintf("killed %d", b.size(500)), seconds}, {size(1000) + " at once", fmt.Sprintf("killed %d", b.size(1000)), seconds}})
	b.answersTable(&w)
	b.section(&w, "Memory", "Proportional set size of all supervising processes, including loggers, when they are idle after the start. In the last column superd shows the lines of its programs, which print nothing, in a pipe.",
		append(per("memory", mebibytes, 10, 100, 1000, 5000), column{size(1000) + ", lines shown", fmt.Sprintf("memory shown %d", b.size(1000)), mebibytes}))
	b.growth(&w)
	b.section(&w, "Quiet programs", "What supervising processes use while nothing happens: processor time and context switches of all "+
		"threads, by number of programs and time.", b.idleColumns())
	if f, ok := b.figure("superd", "epoll returns"); ok {
		fmt.Fprintf(&w, "\nReturns of `epoll_wait` in keeper and supervisor of %s programs within %v: %.0f.\n", size(1000), b.time(time.Minute), f.median)
	} else if why := b.why[key("superd", "epoll returns")]; why != "" {
		fmt.Fprintf(&w, "\nReturns of `epoll_wait`: %s.\n", why)
	}
	b.outputTables(&w)
	b.delayTable(&w)
	b.section(&w, "Latency of a line", "From a write until the line is in the file.", []column{{"median", "latency", seconds}, {"99th percentile", "latency p99", seconds}})
	b.section(&w, "Stop", "From the request until all programs and the first process of the supervisor are gone.", per("stop", seconds, 10, 100, 1000, 5000))
	b.section(&w, "Status", "The whole command that shows all programs, with its output to /dev/null. The last three columns are the "+
		"full status: processor time, memory and the last line of each, where the supervisor has them.",
		append(per("brief", seconds, 10, 1000, 5000), per("full status", seconds, 10, 1000, 5000)...))
	b.recoveryTable(&w)
	b.lags(&w)
	return table.Wrap(w.String())
}

// isPart reports whether only a part is measured (make bench ONLY=part).
func isPart() bool { return strings.Contains(flag.Lookup("test.bench").Value.String(), "/") }

func (b *bench) contestantsTable(w *strings.Builder) {
	var rows [][]string
	for _, c := range b.contestants {
		rows = append(rows, []string{c.name, c.about, c.delays})
	}
	w.WriteString("\n### Contestants\n\n" + table.Markdown([]string{"", "what it is", "delays of its own"}, rows))
}

// section writes a table of all contestants, if any of it was measured.
func (b *bench) section(w *strings.Builder, title, about string, columns []column) {
	if !b.has(columns) {
		return
	}
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.title)
	}
	var rows [][]string
	for _, c := range b.contestants {
		row := []string{c.name}
		for _, column := range columns {
			row = append(row, b.cell(c.name, column.measure, column.show))
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "–" }) {
			rows = append(rows, row)
		}
	}
	fmt.Fprintf(w, "\n### %s\n\n%s\n\n%s", title, about, table.Markdown(head, rows))
}

func (b *bench) has(columns []column) bool {
	for _, column := range columns {
		for _, c := range b.contestants {
			if _, ok := b.figure(c.name, column.measure); ok {
				return true
			}
		}
	}
	return false
}

func (b *bench) idleColumns() (all []column) {
	add := func(count int, window time.Duration) {
		all = append(all, column{fmt.Sprintf("CPU, %s, %v", thousands(count), window), fmt.Sprintf("idle cpu %d %v", count, window), seconds},
			column{"switches", fmt.Sprintf("idle switches %d %v", count, window), number})
	}
	add(b.size(200), b.time(20*time.Second))
	add(b.size(1000), b.time(20*time.Second))
	add(b.size(1000), b.time(time.Minute))
	return all
}

// answersTable shows how long superd takes to answer in a storm.
func (b *bench) answersTable(w *strings.Builder) {
	p99, ok1 := b.figure("superd", "answers p99")
	worst, ok2 := b.figure("superd", "answers worst")
	if ok1 && ok2 {
		fmt.Fprintf(w, "\nWhile %s programs that were killed at once are replaced, superd answers a `status` of one within %s "+
			"(99th percentile; greatest of all rounds %s), and within %s at worst (%s).\n",
			thousands(b.size(1000)), seconds(p99.median), seconds(p99.most), seconds(worst.median), seconds(worst.most))
	}
}

// grows returns by how many bytes memory grows with each program.
func (b *bench) grows(c string, from, to int) (bytes float64, ok bool) {
	from, to = b.size(from), b.size(to)
	less, ok1 := b.figure(c, fmt.Sprintf("memory %d", from))
	more, ok2 := b.figure(c, fmt.Sprintf("memory %d", to))
	return (more.median - less.median) / float64(to-from), ok1 && ok2
}

func (b *bench) growth(w *strings.Builder) {
	var rows [][]string
	for _, c := range b.contestants {
		row := []string{c.name}
		for _, step := range [][2]int{{10, 1000}, {1000, 5000}} {
			if bytes, ok := b.grows(c.name, step[0], step[1]); ok {
				row = append(row, kibibytes(bytes))
			} else {
				row = append(row, "–")
			}
		}
		if row[1] != "–" {
			rows = append(rows, row)
		}
	}
	if rows == nil {
		return
	}
	w.WriteString("\n" + table.Markdown([]string{"growth per program", fmt.Sprintf("%s to %s", thousands(b.size(10)), thousands(b.size(1000))),
		fmt.Sprintf("%s to %s", thousands(b.size(1000)), thousands(b.size(5000)))}, rows))
}

func (b *bench) recoveryTable(w *strings.Builder) {
	row := func(c, name, measure string) []string {
		row := []string{name, b.cell(c, measure, seconds)}
		for _, what := range []string{" lost", " doubled", " lines", " cut"} {
			row = append(row, b.cell(c, measure+what, number))
		}
		return row
	}
	var rows [][]string
	for _, c := range b.contestants {
		rows = append(rows, row(c.name, c.name, "recovery"))
	}
	rows = append(rows, row("superd", fmt.Sprintf("superd, %s programs", thousands(b.size5000(many()))), "recovery of many"))
	if isPart() && !slices.ContainsFunc(rows, func(row []string) bool { return row[2] != "–" }) {
		return
	}
	fmt.Fprintf(w, "\n### Recovery\n\nThe supervisor of %s programs (of peers: the first process) gets SIGKILL, and is started again "+
		"if nothing else does so. The time ends when its `status` shows all programs, with the same pids. "+
		"%d of the programs print a line each millisecond.\n\n%s",
		thousands(b.size(1000)), min(writers, b.size(1000)), table.Markdown([]string{"", "time", "programs lost", "run twice", "lines missing", "writers cut off"}, rows))
}

func (b *bench) lags(w *strings.Builder) {
	var rows [][]string
	of := func(name, what, measure string) {
		if f, ok := b.figure(name, "lag "+measure); ok {
			rows = append(rows, []string{what, seconds(f.median), seconds(f.most)})
		}
	}
	add := func(what, measure string) { of("superd", what, measure) }
	for _, n := range []int{10, 100, 1000, 5000} {
		add(fmt.Sprintf("start of %s", thousands(b.size(n))), fmt.Sprintf("start %d", b.size(n)))
	}
	add(fmt.Sprintf("start of %s, status, %s and %s killed at once", thousands(b.size(1000)), thousands(b.size(500)), thousands(b.size(1000))), "storm")
	add(fmt.Sprintf("start of %s, crashes one by one", thousands(b.size(200))), "restart")
	for _, row := range b.outputRows() {
		of("superd raw", "output, "+row.title, row.name)
	}
	add("latency of a line", "latency")
	add(fmt.Sprintf("start of %s, quiet for %v", thousands(b.size(1000)), b.time(time.Minute)), fmt.Sprintf("idle %d %v", b.size(1000), b.time(time.Minute)))
	add(fmt.Sprintf("recovery of %s", thousands(b.size(1000))), "recovery")
	add(fmt.Sprintf("recovery of %s", thousands(b.size5000(many()))), "recovery of many")
	if rows == nil {
		return
	}
	w.WriteString("\n### Lag of superd's loop\n\nThe longest delay of a callback since the start of superd.\n\n" + table.Markdown([]string{"during", "median of the rounds", "greatest"}, rows))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// memory returns the size of the machine's memory.
func memory() string {
	text, _ := os.ReadFile("/proc/meminfo")
	var kib int
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return "unknown memory"
	}
	return fmt.Sprintf("%.0f GiB of memory", float64(kib)/(1<<20))
}

// fileSystem returns the type of the file system of a path.
func fileSystem(path string) string {
	out, err := exec.Command("stat", "-f", "-c", "%T", path).Output()
	if err != nil {
		return "an unknown file system"
	}
	return strings.TrimSpace(string(out))
}

func gcc() string {
	out, err := exec.Command("cc", "-dumpfullversion").Output()
	if err != nil {
		return "of unknown version"
	}
	return strings.TrimSpace(string(out))
}
