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

// output measures the way of output into rotated files: that many programs together print that many
// bytes as fast as they can, in lines of 100 bytes, each of which is counted afterwards.
func (b *bench) output(t testing.TB, c *contestant, measure string, programs int, bytes int64) {
	if c.slow {
		bytes /= 8
	}
	each := bytes / int64(programs) / 100 * 100
	var result string
	var open func()
	m, _, ok := b.begin(t, c, func(a *arena) []program {
		result, open = a.path("result"), newGate(t, a.dir)
		all := make([]program, programs)
		for i := range all {
			all[i] = program{fmt.Sprintf("p%04d", i), []string{a.tools.output, "print", strconv.FormatInt(each, 10), result, a.path("gate")}}
		}
		return all
	})
	if !ok {
		b.not(c.name, measure, "not all run within %v", longest)
		return
	}
	supervising := m.waitIdle()
	before := m.effort(supervising)
	open()
	took, ok := printed(t, result, programs)
	if !ok {
		b.not(c.name, measure, "not within %v", longest)
		return
	}
	want := each / 100 * int64(programs)
	lines := int64(0)
	// The last lines are under way
	for end := time.Now().Add(longest); lines < want && time.Now().Before(end); {
		pause(t, 200*time.Millisecond)
		lines = countLines(t, m.path(c.logs), "supervise") // its FIFOs are not logs
	}
	pause(t, 100*time.Millisecond)
	cpu := m.effort(supervising).cpu - before.cpu
	b.moved(c.name, measure, each*int64(programs), took, cpu)
	lines = countLines(t, m.path(c.logs), "supervise")
	b.add(c.name, measure+" lines", float64(want-lines))
	if lines != want && m.isSuperd() {
		t.Errorf("%d of %d lines are in the files", lines, want)
	}
	m.lag(measure)
	m.end()
}

// moved adds the speed of moved output, and the processor time of the process that moved it.
func (b *bench) moved(name, measure string, bytes int64, took, cpu time.Duration) {
	b.add(name, measure+" speed", float64(bytes)/took.Seconds())
	b.add(name, measure+" cpu", cpu.Seconds()/(float64(bytes)/(1<<30)))
	b.add(name, measure+" core", float64(bytes)/max(cpu, time.Millisecond).Seconds())
}

// printed waits until programs have reported how long they have printed, in nanoseconds, and
// returns the longest of the times. It queries no supervisor, since that would cost time.
func printed(t testing.TB, result string, programs int) (longestTime time.Duration, ok bool) {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if all := numbers(t, result); len(all) >= programs {
			return time.Duration(slices.Max(all)), true
		}
	}
	return 0, false
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

// countLines counts line ends in all regular files below a directory, except in directories with
// this name.
func countLines(t testing.TB, dir, except string) (lines int64) {
	buffer := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // rotated meanwhile
		}
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == except:
			return fs.SkipDir
		case !entry.Type().IsRegular() || entry.Name() == "run" || entry.Name() == "config" || entry.Name() == "lock" || entry.Name() == "state":
			return nil
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
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
		t.Fatal(err)
	}
	return lines
}

// bare lets programs print into pipes, each of which a bare splice(2) loop, or cat, empties into a
// file.
func (b *bench) bare(t testing.TB, how, measure string, programs int, bytes int64) {
	dir := t.TempDir()
	result := filepath.Join(dir, "result")
	open := newGate(t, dir)
	each := bytes / int64(programs) / 100 * 100
	var all sync.WaitGroup
	used := make([]time.Duration, programs)
	for i := range programs {
		file := filepath.Join(dir, fmt.Sprint("out", i))
		mover := exec.Command(b.tools.output, "splice", file)
		if how == "cat" {
			mover = exec.Command("cat")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			mover.Stdout = out
		}
		all.Go(func() {
			used[i] = pipe(t, exec.Command(b.tools.output, "print", fmt.Sprint(each), result, filepath.Join(dir, "gate")), mover, func() { printed(t, result, programs) })
		})
	}
	open()
	all.Wait()
	took, ok := printed(t, result, programs)
	if !ok {
		t.Fatal("some program tells no time")
	}
	cpu := time.Duration(0)
	for _, u := range used {
		cpu += u
	}
	b.moved(how, measure, each*int64(programs), took, cpu)
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
func (b *bench) logger(t testing.TB, name string, bytes int64) {
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
	cpu := pipe(t, exec.Command(b.tools.output, "print", fmt.Sprint(bytes), result), to, func() { printed(t, result, 1) })
	if took, ok := printed(t, result, 1); ok && cpu > 0 {
		b.moved(name, "times", bytes, took, cpu)
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
	b.add(c.name, "latency p99", percentile(all, 99)/1e9)
}
