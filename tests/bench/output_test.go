package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/harness"
	"superd/tests/table"
)

var (
	outputBytes  = flag.Int64("output.bytes", 4<<30, "what programs print, in bytes; those whose lines get a time print a quarter")
	outputRounds = flag.Int("output.rounds", 3, "how often each is measured, in turn")
)

// idleTime is for how long quiet programs are watched.
const idleTime = 20 * time.Second

// BenchmarkOutput measures how output gets into files, beside the least that could do it and beside others that log.
// Run it with -benchtime 1x: make bench-output.
func BenchmarkOutput(b *testing.B) {
	o := &outputBench{B: b, tool: filepath.Join(b.TempDir(), "output"), samples: map[string][]float64{}}
	if out, err := exec.Command("cc", "-O2", "-o", o.tool, filepath.Join("c", "output.c")).CombinedOutput(); err != nil {
		b.Fatalf("compile output.c: %v\n%s", err, out)
	}
	versions := o.fetchPeers()
	small := *outputBytes / 4
	for range *outputRounds {
		o.superd("raw", 1, *outputBytes)
		o.bare("splice", 1, *outputBytes)
		o.superd("raw", 50, *outputBytes/50)
		o.bare("splice", 50, *outputBytes/50)
		o.bare("cat", 1, *outputBytes)
		o.superd("text", 1, small)
		o.superd("json", 1, small)
		for _, p := range o.peers {
			o.peer(p, small)
		}
		o.latencies()
	}
	o.quiet(1000)
	text := o.report(versions)
	fmt.Print("\n", text)
	if *update {
		if err := table.Replace(filepath.Join("..", "..", "docs", "benchmarks.md"), "output", text); err != nil {
			b.Fatal(err)
		}
	}
}

// An outputBench keeps what was measured: by name, a value a round.
type outputBench struct {
	*testing.B
	tool    string
	peers   []peer
	missing []string // and why
	samples map[string][]float64
}

func (o *outputBench) add(name string, value float64) {
	o.samples[name] = append(o.samples[name], value)
}

// A moved output took so much time in all, and so much of the processor for whoever moved it.
func (o *outputBench) moved(name string, bytes int64, took, cpu time.Duration) {
	o.add(name+" speed", float64(bytes)/1e6/took.Seconds())
	o.add(name+" cpu", cpu.Seconds()/(float64(bytes)/(1<<30)))
	o.add(name+" core", float64(bytes)/1e6/max(cpu, time.Millisecond).Seconds())
}

// printed reads how long programs have printed, in nanoseconds, and returns the longest of the times.
func (o *outputBench) printed(result string, programs int) (longest time.Duration, ok bool) {
	text, err := os.ReadFile(result)
	lines := strings.Fields(string(text))
	if err != nil || len(lines) < programs {
		return 0, false
	}
	for _, line := range lines {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			o.Fatal(err)
		}
		longest = max(longest, time.Duration(n))
	}
	return longest, true
}

// superd has that many programs print as many bytes each into rotated files, and counts the lines.
func (o *outputBench) superd(format string, programs int, bytes int64) {
	var text strings.Builder
	fmt.Fprintf(&text, "[defaults]\nrestart = 'never'\nlog = { format = '%s', max_size = '100MB', keep = 10000 }\n", format)
	for i := range programs {
		fmt.Fprintf(&text, "[program.p%d]\ncommand = ['%s', 'print', '%d', 'DIR/result', 'DIR/gate']\n", i, o.tool, bytes)
	}
	o.Run(fmt.Sprintf("superd/%s/%d", format, programs), func(b *testing.B) {
		s := harness.NewSite(b, text.String())
		open := s.Gate("gate")
		d := s.Start()
		s.WaitRunning()
		s.Settle(d.Pid)
		before := s.CPUTicks(d.Pid)
		open()
		var took time.Duration
		for ok := false; !ok; took, ok = o.printed(s.Path("result"), programs) { // superd is not asked: it would cost it something
			time.Sleep(10 * time.Millisecond)
		}
		s.Settle(d.Pid)
		cpu := time.Duration(s.CPUTicks(d.Pid)-before) * (time.Second / 100)
		name := "superd " + format
		if programs > 1 {
			name += " 50"
		}
		o.moved(name, bytes*int64(programs), took, cpu)
		if got, want := countLines(b, s.LogDir), bytes/100*int64(programs); got != want {
			b.Errorf("%d lines are logged, %d were printed", got, want)
		}
	})
}

// countLines counts line ends in all files below a directory.
func countLines(b *testing.B, dir string) (lines int64) {
	buffer := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		for {
			n, err := file.Read(buffer)
			lines += int64(bytes.Count(buffer[:n], []byte{'\n'}))
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return lines
}

// bare has programs print into pipes that a bare splice(2) loop, or cat, empties into a file each.
func (o *outputBench) bare(how string, programs int, bytes int64) {
	o.Run(fmt.Sprintf("%s/%d", how, programs), func(b *testing.B) {
		dir := b.TempDir()
		result, gate := filepath.Join(dir, "result"), newGate(b, dir)
		var all sync.WaitGroup
		used := make([]time.Duration, programs)
		for i := range programs {
			file := filepath.Join(dir, fmt.Sprint("out", i))
			mover := exec.Command(o.tool, "splice", file)
			if how == "cat" {
				mover = exec.Command("cat")
				out, err := os.Create(file)
				if err != nil {
					b.Fatal(err)
				}
				defer out.Close()
				mover.Stdout = out
			}
			all.Go(func() {
				used[i] = o.pipe(b, exec.Command(o.tool, "print", fmt.Sprint(bytes), result, gate.path), mover)
			})
		}
		gate.open()
		all.Wait()
		took, ok := o.printed(result, programs)
		if !ok {
			b.Fatal("some program tells no time")
		}
		cpu := time.Duration(0)
		for _, u := range used {
			cpu += u
		}
		name := how
		if programs > 1 {
			name += " 50"
		}
		o.moved(name, bytes*int64(programs), took, cpu)
	})
}

// pipe runs a program that prints and one that takes it, and returns the processor time of the latter.
func (o *outputBench) pipe(b *testing.B, from, to *exec.Cmd) time.Duration {
	r, w, err := os.Pipe()
	if err != nil {
		b.Error(err)
		return 0
	}
	from.Stdout, to.Stdin = w, r
	err = errors.Join(from.Start(), to.Start())
	r.Close()
	w.Close()
	if err == nil {
		err = errors.Join(from.Wait(), to.Wait())
	}
	if err != nil {
		b.Errorf("%v | %v: %v", from.Args, to.Args, err)
		return 0
	}
	return to.ProcessState.UserTime() + to.ProcessState.SystemTime()
}

// A gate lets programs begin at once.
type gate struct {
	path string
	open func()
}

func newGate(b *testing.B, dir string) gate {
	path := filepath.Join(dir, "gate")
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		b.Fatalf("mkfifo: %v: %s", err, out)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	return gate{path, func() {
		time.Sleep(200 * time.Millisecond) // they come up
		if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600), f.Close()); err != nil {
			b.Error(err)
		}
	}}
}

// A peer is another program that logs lines with their times into rotated files.
type peer struct {
	name    string
	command func(dir string) []string
	config  string // of a file in its directory; "": none
}

// fetchPeers unpacks the peers and returns their versions.
func (o *outputBench) fetchPeers() (versions string) {
	dir := o.TempDir()
	out, err := exec.Command("./fetch-peers.sh", dir).Output()
	if err != nil {
		o.missing = append(o.missing, "s6-log, svlogd and multilog, which could not be fetched")
		return ""
	}
	root := filepath.Join(dir, "root")
	libraries, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-gnu"))
	bin := func(name string) string { return filepath.Join(root, "usr", "bin", name) }
	o.peers = []peer{
		{"s6-log", func(dir string) []string {
			return []string{"env", "LD_LIBRARY_PATH=" + strings.Join(libraries, ":"), bin("s6-log"), "-b", "n1000", "s100000000", "t", dir}
		}, ""},
		{"svlogd", func(dir string) []string { return []string{bin("svlogd"), "-tt", dir} }, "s100000000\nn1000\n"},
		{"multilog", func(dir string) []string { return []string{bin("multilog"), "t", "s16777215", "n1000", dir} }, ""},
	}
	var shown []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "lib") {
			shown = append(shown, strings.TrimSpace(line))
		}
	}
	return strings.Join(shown, ", ")
}

func (o *outputBench) peer(p peer, bytes int64) {
	o.Run(p.name, func(b *testing.B) {
		dir := b.TempDir()
		logs := filepath.Join(dir, "log")
		if err := os.Mkdir(logs, 0o755); err != nil {
			b.Fatal(err)
		}
		if p.config != "" {
			if err := os.WriteFile(filepath.Join(logs, "config"), []byte(p.config), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		result := filepath.Join(dir, "result")
		command := p.command(logs)
		cpu := o.pipe(b, exec.Command(o.tool, "print", fmt.Sprint(bytes), result), exec.Command(command[0], command[1:]...))
		if took, ok := o.printed(result, 1); ok && cpu > 0 {
			o.moved(p.name, bytes, took, cpu)
		}
	})
}

// latencies measures from a write to the line in the file: 500 lines, with 2 to 4 ms between them.
func (o *outputBench) latencies() {
	const count = "500"
	keep := func(name, result string) {
		text, err := os.ReadFile(result)
		if err != nil {
			o.Fatal(err)
		}
		var all []float64
		for line := range strings.Lines(string(text)) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
			if err != nil {
				o.Fatal(err)
			}
			all = append(all, n/1e3)
		}
		if len(all) == 0 {
			o.Fatal("no latency was measured")
		}
		slices.Sort(all)
		o.add(name+" latency", all[len(all)/2])
		o.add(name+" latency p99", all[len(all)*99/100])
	}
	o.Run("latency/superd", func(b *testing.B) {
		s := harness.NewSite(b, fmt.Sprintf(`
			[program.p]
			command = ['%s', 'latency', 'DIR/p.log', '%s', 'DIR/result', 'DIR/gate']
			restart = "never"
			log = { file = 'DIR/p.log' }
			`, o.tool, count))
		open := s.Gate("gate")
		d := s.Start()
		s.WaitRunning()
		s.Settle(d.Pid)
		open()
		for ok := false; !ok; _, ok = o.printed(s.Path("result"), 1) {
			time.Sleep(10 * time.Millisecond)
		}
		keep("superd", s.Path("result"))
	})
	o.Run("latency/splice", func(b *testing.B) {
		dir := b.TempDir()
		file, result := filepath.Join(dir, "out"), filepath.Join(dir, "result")
		o.pipe(b, exec.Command(o.tool, "latency", file, count, result), exec.Command(o.tool, "splice", file))
		keep("splice", result)
	})
}

// quiet counts what superd does while its programs, which have printed a line each, are quiet, and what its state of output takes.
func (o *outputBench) quiet(programs int) {
	o.Run("quiet", func(b *testing.B) {
		s := harness.NewSite(b, strings.Replace(quiet(programs), "'sleep infinity'", "['sh', '-c', 'echo a line; exec sleep infinity']", 1))
		manager := s.Manager()
		d := s.Launch()
		manager.Wait("READY=1", 1)
		s.Settle(d.Pid)
		before := s.ContextSwitches(d.Pid)
		harness.Window(b, idleTime)
		o.add("quiet switches", float64(s.ContextSwitches(d.Pid)-before))
	})
	out, err := exec.Command("go", "test", "../../logs", "-run", "^$", "-bench", "BenchmarkQuiet$", "-benchtime", "1x").CombinedOutput()
	state := regexp.MustCompile(`([\d.]+) B/capture`).FindSubmatch(out)
	if err != nil || state == nil {
		o.Fatalf("measure the state of captures: %v\n%s", err, out)
	}
	n, err := strconv.ParseFloat(string(state[1]), 64)
	if err != nil {
		o.Fatal(err)
	}
	o.add("quiet state", n)
}

// median returns the median of what was measured, and how far the others lie apart.
func (o *outputBench) median(name string) (middle, least, most float64) {
	all := slices.Sorted(slices.Values(o.samples[name]))
	if len(all) == 0 {
		return 0, 0, 0
	}
	return all[len(all)/2], all[0], all[len(all)-1]
}

// ratio returns the median of the ratios within the rounds.
func (o *outputBench) ratio(of, to string) float64 {
	var all []float64
	for i := range min(len(o.samples[of]), len(o.samples[to])) {
		all = append(all, o.samples[of][i]/o.samples[to][i])
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// report returns the tables.
func (o *outputBench) report(versions string) string {
	value := func(format, name string) string {
		if len(o.samples[name]) == 0 {
			return "–"
		}
		middle, least, most := o.median(name)
		if len(o.samples[name]) == 1 {
			return fmt.Sprintf(format, middle)
		}
		return fmt.Sprintf(format+" ("+format+" to "+format+")", middle, least, most)
	}
	var rows [][]string
	row := func(what, format, of, to, target string) {
		rows = append(rows, []string{what, value(format, of), value(format, to), fmt.Sprintf("%.2f", o.ratio(of, to)), target})
	}
	row("one program, MB/s; splice(2) into one file", "%.0f", "superd raw speed", "splice speed", "at least 0.9")
	row("50 programs at once, MB/s in all; splice(2)", "%.0f", "superd raw 50 speed", "splice 50 speed", "at least 0.8")
	row("one program, CPU seconds per GiB; cat", "%.2f", "superd raw cpu", "cat cpu", "at most 1")
	row("one program, CPU seconds per GiB; splice(2)", "%.2f", "superd raw cpu", "splice cpu", "")
	row("50 programs at once, CPU seconds per GiB; splice(2)", "%.2f", "superd raw 50 cpu", "splice 50 cpu", "")
	row("from a write to the line in the file, µs, median; splice(2)", "%.0f", "superd latency", "splice latency", "at most 2.2")
	row("the same, 99th percentile", "%.0f", "superd latency p99", "splice latency p99", "")
	best := ""
	for _, p := range o.peers {
		if now, _, _ := o.median(p.name + " core"); now > 0 && (best == "" || now > o.samples[best][0]) { // it may not be asked for
			best = p.name + " core"
		}
	}
	if best != "" {
		name := strings.TrimSuffix(best, " core")
		row("text, MB/s of output per core; "+name, "%.0f", "superd text core", best, "at least 2, and 600 MB/s")
		row("json, MB/s of output per core; "+name, "%.0f", "superd json core", best, "at least 2, and 300 MB/s")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured by `make bench-output`: %s. Medians of %d rounds, the least and the greatest in brackets; lines of 100 bytes, %d MiB of them, "+
		"%d MiB where they get a time. Ratios are of the same round.\n", table.Machine(), *outputRounds, *outputBytes>>20, *outputBytes>>22)
	if versions != "" {
		fmt.Fprintf(&b, "Peers: %s.\n", versions)
	}
	for _, m := range o.missing {
		fmt.Fprintf(&b, "Missing: %s.\n", m)
	}
	b.WriteString("\n" + table.Markdown([]string{"what; yardstick", "superd", "yardstick", "ratio", "target"}, rows))
	rows = nil
	for _, name := range append([]string{"superd text", "superd json"}, peerNames(o.peers)...) {
		rows = append(rows, []string{name, value("%.0f", name+" core"), value("%.0f", name+" speed"), value("%.2f", name+" cpu")})
	}
	b.WriteString("\n" + table.Markdown([]string{"lines with their times", "MB/s per core", "MB/s", "CPU s per GiB"}, rows))
	rows = [][]string{
		{fmt.Sprintf("context switches in %v, all threads, 1,000 quiet programs", idleTime), value("%.0f", "quiet switches")},
		{"state of the output of a quiet program, bytes", value("%.0f", "quiet state")},
	}
	b.WriteString("\n" + table.Markdown([]string{"quiet programs", "superd"}, rows))
	return b.String()
}

func peerNames(peers []peer) (names []string) {
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}
