package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// still is how long log files do not grow any more when lines are missing.
const still = 5 * time.Second

// output measures a contestant whose programs print a row into its rotated files. Each line in them
// is counted afterwards.
func (b *bench) output(t testing.TB, c *contestant, row outputRow, round int) {
	if c.slow {
		row.bytes /= 8
	}
	var result string
	var open func()
	m, _, ok := b.begin(t, c, func(a *arena) []program {
		result, open = a.path("result"), newGate(t, a.dir)
		all := make([]program, row.programs)
		for i := range all {
			all[i] = program{fmt.Sprintf("p%04d", i), row.command(b.tools, result, a.path("gate"))}
		}
		return all
	})
	if !ok {
		b.not(c.name, row.name, "not all run within %v", longest)
		return
	}
	supervising, _ := m.processes()
	before := m.effort(supervising)
	open()
	took, ok := row.written(t, result, m.path(c.logs))
	if !ok {
		b.not(c.name, row.name, "not within %v", longest)
		return
	}
	b.moved(round, c.name, row, took, m.effort(supervising).cpu-before.cpu)
	missing := row.lines() - countLines(t, m.path(c.logs))
	b.addIn(round, c.name, row.name+" lines", float64(missing))
	if missing != 0 && m.isSuperd() {
		t.Errorf("%d of %d lines are not in the files", missing, row.lines())
	}
	m.lag(row.name)
	m.end()
}

// moved adds the speed of moved output, and the processor time of what moved it.
func (b *bench) moved(round int, name string, row outputRow, took, cpu time.Duration) {
	bytes := float64(row.lines() * lineSize)
	b.addIn(round, name, row.name+" speed", bytes/took.Seconds())
	b.addIn(round, name, row.name+" cpu", cpu.Seconds()/(bytes/(1<<30)))
}

// written waits until all lines that programs print are in the files below a directory, and returns
// the time from the first one's begin. It queries no supervisor, since that would cost time.
func (row outputRow) written(t testing.TB, result, logs string) (took time.Duration, ok bool) {
	times, ok := printed(t, result, 2*row.programs)
	if !ok {
		return 0, false
	}
	size := int64(0)
	for end := time.Now().Add(still); time.Now().Before(end); time.Sleep(time.Millisecond) {
		at, before := now(), size
		size = totalSize(t, logs)
		if length := lineLength(t, logs); length > 0 && size >= length*row.lines() {
			return at - time.Duration(slices.Min(times)), true
		}
		if size != before {
			end = time.Now().Add(still)
		}
	}
	// Lines that are missing are reported as such
	return time.Duration(slices.Max(times) - slices.Min(times)), true
}

// printed waits until programs have reported that many numbers, and returns them.
func printed(t testing.TB, result string, count int) (all []float64, ok bool) {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if all := numbers(t, result); len(all) >= count {
			return all, true
		}
	}
	return nil, false
}

// numbers reads a file with a number a line; a missing file has none.
func numbers(t testing.TB, path string) (all []float64) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// eachLog calls do for each log file below a directory. The FIFOs of supervise and the scripts and
// locks of services are none.
func eachLog(t testing.TB, dir string, do func(path string, entry fs.DirEntry) error) {
	t.Helper()
	others := []string{"run", "config", "lock", "state"}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && entry.Name() == "supervise":
			return fs.SkipDir
		case err == nil && entry.Type().IsRegular() && !slices.Contains(others, entry.Name()):
			err = do(path, entry)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // rotated meanwhile
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func totalSize(t testing.TB, dir string) (size int64) {
	eachLog(t, dir, func(_ string, entry fs.DirEntry) error {
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size
}

// lineLength returns the length of the first line of some log file, 0 where there is none yet. All
// lines are of the same length.
func lineLength(t testing.TB, dir string) (length int64) {
	eachLog(t, dir, func(path string, _ fs.DirEntry) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		begin := make([]byte, 1000)
		n, _ := file.Read(begin)
		length = int64(bytes.IndexByte(begin[:n], '\n') + 1)
		if length > 0 {
			return fs.SkipAll
		}
		return nil
	})
	return length
}

// countLines counts line ends in the log files below a directory.
func countLines(t testing.TB, dir string) (lines int64) {
	buffer := make([]byte, 1<<20)
	eachLog(t, dir, func(path string, _ fs.DirEntry) error {
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
	return lines
}

// bare lets programs print into pipes, each of which a bare splice(2) loop, or cat, empties into a
// file.
func (b *bench) bare(t testing.TB, how string, row outputRow, round int) {
	dir := t.TempDir()
	result, logs := filepath.Join(dir, "result"), filepath.Join(dir, "log")
	open := newGate(t, dir)
	var took time.Duration
	ended := make(chan struct{})
	var all sync.WaitGroup
	used := make([]time.Duration, row.programs)
	for i := range row.programs {
		command := row.command(b.tools, result, filepath.Join(dir, "gate"))
		mover := b.mover(t, how, filepath.Join(logs, fmt.Sprint("out", i)))
		all.Go(func() {
			used[i] = pipe(t, exec.Command(command[0], command[1:]...), mover, func() { <-ended })
		})
	}
	open()
	took, ok := row.written(t, result, logs)
	close(ended)
	all.Wait()
	if !ok {
		t.Fatal("some program tells no time")
	}
	cpu := time.Duration(0)
	for _, u := range used {
		cpu += u
	}
	b.moved(round, how, row, took, cpu)
	b.addIn(round, how, row.name+" lines", float64(row.lines()-countLines(t, logs)))
}

// mover returns the command that moves its standard input into a file.
func (b *bench) mover(t testing.TB, how, file string) *exec.Cmd {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if how == spliceName {
		return exec.Command(b.tools.output, "splice", file)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	cat := exec.Command("cat")
	cat.Stdout = out
	return cat
}

// pipe runs a program that prints and one that reads its output, ends the former when the wait is
// over, and returns the processor time of the latter.
func pipe(t testing.TB, from, to *exec.Cmd, wait func()) time.Duration {
	r, w, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return 0
	}
	from.Stdout, to.Stdin = w, r
	err = from.Start()
	if err == nil {
		if err = to.Start(); err != nil {
			from.Process.Kill()
		}
	}
	r.Close()
	w.Close()
	if err != nil {
		t.Errorf("%v | %v: %v", from.Args, to.Args, err)
		return 0
	}
	wait()
	from.Process.Kill()
	from.Wait()
	if err := to.Wait(); err != nil {
		t.Errorf("%v: %v", to.Args, err)
	}
	return to.ProcessState.UserTime() + to.ProcessState.SystemTime()
}

// newGate makes a gate below dir, at which programs wait, and returns the function that lets all of
// them begin at once.
func newGate(t testing.TB, dir string) (open func()) {
	path := filepath.Join(dir, "gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func() {
		pause(t, 200*time.Millisecond) // until they wait
		if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

// logger lets one of the peers' loggers alone write lines with their times.
func (b *bench) logger(t testing.TB, name string, row outputRow, round int) {
	row.bytes /= 8
	dir := t.TempDir()
	logs := filepath.Join(dir, "log")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	command := map[string][]string{
		"s6-log":   {"-b", "n1000", "s100000000", "t", logs},
		"svlogd":   {"-tt", logs},
		"multilog": {"t", "s16777215", "n1000", logs},
	}[name]
	if name == "svlogd" {
		if err := os.WriteFile(filepath.Join(logs, "config"), []byte("s100000000\nn1000\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	result := filepath.Join(dir, "result")
	to := exec.Command(b.tools.bin(name), command...)
	to.Env = append(os.Environ(), "LD_LIBRARY_PATH="+b.tools.libraries())
	from := row.command(b.tools, result)
	var took time.Duration
	var ok bool
	cpu := pipe(t, exec.Command(from[0], from[1:]...), to, func() { took, ok = row.written(t, result, logs) })
	if ok && cpu > 0 {
		b.moved(round, name+", with times", row, took, cpu)
		b.addIn(round, name+", with times", row.name+" lines", float64(row.lines()-countLines(t, logs)))
	}
}

// latencyLines is the number of timed lines, with 2 to 4 ms between them.
const latencyLines = 500

// latency measures from a write to the line in the file.
func (b *bench) latency(t testing.TB, c *contestant) {
	if c.name == yardstickName {
		dir := t.TempDir()
		file, result := filepath.Join(dir, "out"), filepath.Join(dir, "result")
		pipe(t, exec.Command(b.tools.output, "latency", file, fmt.Sprint(b.repeats(latencyLines)), result), exec.Command(b.tools.output, "splice", file),
			func() { printed(t, result, 1) })
		b.latencies(t, c, result)
		return
	}
	var open func()
	m, _, ok := b.begin(t, c, func(a *arena) []program {
		open = newGate(t, a.dir)
		return []program{{"p0000", []string{a.tools.output, "latency", a.path(fmt.Sprintf(c.logFile, "p0000")), fmt.Sprint(b.repeats(latencyLines)), a.path("result"), a.path("gate")}}}
	})
	if !ok {
		b.not(c.name, "latency", "it does not run within %v", longest)
		return
	}
	m.waitIdle()
	open()
	if _, ok := printed(t, m.path("result"), 1); !ok {
		b.not(c.name, "latency", "not within %v", longest)
		return
	}
	b.latencies(t, c, m.path("result"))
	m.lag("latency")
	m.end()
}

func (b *bench) latencies(t testing.TB, c *contestant, result string) {
	all := numbers(t, result)
	slices.Sort(all)
	b.add(c.name, "latency", median(all)/1e9)
	b.add(c.name, "latency p99", percentile99(all)/1e9)
}
