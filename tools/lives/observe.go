package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A call is the first call of a function during a life.
type call struct{ file, function string }

func (c call) fileOf() string    { return c.file }
func (c call) packageOf() string { return path.Dir(c.file) }

// A life is what an event leads to.
type life struct {
	name  string
	calls []call
}

// visits returns how many places the calls visit, and how often they return to one that they have
// left before.
func (l life) visits(place func(call) string) (places, returns int) {
	seen, last := map[string]bool{}, ""
	for _, c := range l.calls {
		at := place(c)
		if at != last && seen[at] {
			returns++
		}
		seen[at], last = true, at
	}
	return len(seen), returns
}

// print prints the functions, a line for each visit of a file.
func (l life) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s", l.name)
	last := ""
	for _, c := range l.calls {
		if c.file != last {
			fmt.Fprintf(w, "\n%s:", c.file)
		}
		fmt.Fprintf(w, " %s", c.function)
		last = c.file
	}
	fmt.Fprintln(w)
}

const (
	configuration = `superd.runtime_dir = "run"
superd.log_dir = "log"
program.db = { command = ["sleep", "1000"], restart = "always", backoff = { initial = "1m" } }
`
	before = `program.web = { command = ["sleep", "1000"], after = ["db"] }
program.job = { command = ["sleep", "1000"], autostart = false }
`
	after = `program.web = { command = ["sleep", "1000"], after = ["db"], stop_timeout = "9s" }
program.new = { command = ["sleep", "1000"], autostart = false }
`
)

// A superd is a superd whose functions report their calls.
type superd struct {
	binary, dir, trace string
}

// observe runs superd in dir and returns its lives.
func observe(binary, dir string) (lives []life, err error) {
	s := &superd{binary: binary, dir: dir, trace: filepath.Join(dir, "trace")}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.trace, nil, 0o600); err != nil {
		return nil, err
	}
	if err := s.configure(before); err != nil {
		return nil, err
	}
	run := s.command("run", "--output", "never", "--log-level", "error")
	if err := run.Start(); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, run.Process.Signal(syscall.SIGTERM), run.Wait())
	}()
	if _, err := s.during("", s.awaitRunning); err != nil {
		return nil, err
	}
	ctl := func(args ...string) func() error {
		return func() error { return s.command(append([]string{"ctl"}, args...)...).Run() }
	}
	db, err := s.pid("db")
	if err != nil {
		return nil, err
	}
	supervisor, err := parent(db)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"spawn", ctl("start", "job")},
		{"exit", func() error { return syscall.Kill(db, syscall.SIGKILL) }},
		{"stop", ctl("stop", "job")},
		{"reload", func() error { return errors.Join(s.configure(after), ctl("reload")()) }},
		{"recovery", func() error { return syscall.Kill(supervisor, syscall.SIGKILL) }},
	} {
		l, err := s.during(step.name, step.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		lives = append(lives, l)
	}
	return lives, nil
}

// configure writes the configuration, with the programs of this life.
func (s *superd) configure(programs string) error {
	return os.WriteFile(filepath.Join(s.dir, "superd.toml"), []byte(configuration+programs), 0o600)
}

func (s *superd) command(args ...string) *exec.Cmd {
	c := exec.Command(s.binary, args...)
	c.Dir, c.Stderr = s.dir, os.Stderr
	if args[0] == "ctl" {
		c.Args = slices.Insert(c.Args, 2, "--runtime-dir", "run")
	}
	c.Env = append(os.Environ(), traceVariable+"="+s.trace)
	return c
}

// quiet is how long nothing is called at the end of a life.
const quiet = 2 * time.Second

// during returns the functions that are called from the beginning of do until nothing is called
// any more.
func (s *superd) during(name string, do func() error) (life, error) {
	text, err := os.ReadFile(s.trace)
	if err != nil {
		return life{}, err
	}
	begin, size := len(text), -1
	if err := do(); err != nil {
		return life{}, err
	}
	for size != len(text) {
		size = len(text)
		time.Sleep(quiet)
		if text, err = os.ReadFile(s.trace); err != nil {
			return life{}, err
		}
	}
	l := life{name: name}
	for line := range strings.Lines(string(text[begin:])) {
		file, function, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c := (call{file, function}); !slices.Contains(l.calls, c) {
			l.calls = append(l.calls, c)
		}
	}
	return l, nil
}

// awaitRunning waits until superd runs its programs.
func (s *superd) awaitRunning() error {
	var err error
	for range 100 {
		if _, err = s.pid("web"); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// pid returns the pid of the main process of an instance.
func (s *superd) pid(instance string) (int, error) {
	c := s.command("ctl", "status")
	c.Stderr = nil
	text, err := c.Output()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == instance && f[1] == "running" {
			return strconv.Atoi(f[3])
		}
	}
	return 0, fmt.Errorf("%s does not run:\n%s", instance, text)
}

// parent returns the parent of a process.
func parent(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strconv.Atoi(strings.Fields(rest)[1])
}
