package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"superd/logs/frame"
	"superd/logs/logstest"
)

// TestUnsavedRunStartsBlockNoOthers: more programs than a file system has slots wait until their
// starts are saved, and others log there.
func TestUnsavedRunStartsBlockNoOthers(t *testing.T) {
	r := newRig(t)
	r.store.stallTimeout = 10 * testTimeout
	const waiting = 2 * writersPerFileSystem
	saved := make(chan func(), waiting)
	r.store.BeforeFirstOutput(func(_ RunStart, f func()) { saved <- f })
	directory := t.TempDir()
	var programs []*program
	for i := range waiting {
		p := r.program(Options{Path: filepath.Join(directory, fmt.Sprintf("%d.log", i))})
		r.do(func() { p.BeginRun("1", true) })
		p.print("ready\n")
		programs = append(programs, p)
	}
	r.poll("all starts to be reported", func() bool { return len(saved) == waiting })
	other := r.program(Options{Path: filepath.Join(directory, "other.log")})
	other.log("a line\n")
	for range waiting {
		(<-saved)()
	}
	for _, p := range programs {
		p.log("more\n")
		logstest.Equal(t, "file", logstest.ReadFile(t, p.Path()), "ready\nmore\n")
	}
}

// TestRunStartInChangedFile: a change of the file while the start is being saved loses no output.
func TestRunStartInChangedFile(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 0) },
		"removed":   os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.store.stallTimeout = 10 * testTimeout
			path := filepath.Join(t.TempDir(), "web.log")
			r.store.BeforeFirstOutput(func(_ RunStart, saved func()) {
				if err := change(path); err != nil {
					t.Error(err)
				}
				saved()
			})
			p := r.program(Options{Path: path})
			p.log("of an earlier run\n")
			// Otherwise output may be written before the barrier is reached
			r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
			r.do(func() { p.BeginRun("1", true) })
			p.log("ready\n")
			logstest.Equal(t, "file", logstest.ReadFile(t, path), "ready\n")
		})
	}
}

// TestNoRunStartToSave: if the pipes were empty when the start of a run was determined, later
// output is not moved: the file is not touched then.
func TestNoRunStartToSave(t *testing.T) {
	r := newRig(t)
	called := make(chan struct{}, 1)
	r.store.BeforeFirstOutput(func(_ RunStart, saved func()) { called <- struct{}{}; saved() })
	path := filepath.Join(t.TempDir(), "web.log")
	p := r.program(Options{Path: path})
	p.log("of an earlier run\n")
	r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.do(func() { p.BeginRun("1", true) })
	r.do(p.ensureDrain)
	r.poll("another check", func() bool { return p.state.Load() == idle })
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
	p.log("ready\n")
	<-called
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "ready\n")
}

// TestOrderWhileRunStartIsSaved: output stays in order, even if the other stream has output when
// the start of the run is saved.
func TestOrderWhileRunStartIsSaved(t *testing.T) {
	for _, drop := range []bool{false, true} {
		r := newRig(t)
		r.store.stallTimeout = 10 * testTimeout
		calls := make(chan func(), 1)
		r.store.BeforeFirstOutput(func(_ RunStart, saved func()) { calls <- saved })
		p := r.twoStreams(Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text, Drop: drop})
		r.do(func() { p.BeginRun("1", true) })
		r.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
		p.printError("first\n")
		saved := <-calls
		p.print("second\n")
		saved()
		p.awaitDrained()
		var order []string
		for line := range strings.Lines(logstest.ReadFile(t, p.Path())) {
			order = append(order, strings.Fields(line)[2])
		}
		if !slices.Equal(order, []string{"first", "second"}) {
			t.Errorf("drop = %v: the log has %q", drop, order)
		}
	}
}
