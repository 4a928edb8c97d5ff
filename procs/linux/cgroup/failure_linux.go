package cgroup

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A creationFailure says why no cgroup can be made at present. Meanwhile programs without limits
// start without a cgroup, and the process scan finds their processes.
type creationFailure struct {
	mu  sync.Mutex
	why string // empty: cgroups can be made
}

// set records that no cgroup can be made. It logs the first of several failures.
func (f *creationFailure) set(log *slog.Logger, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == "" {
		log.Warn("no cgroups can be made: programs with limits are not started; leftover processes of others are found by scanning /proc",
			"because", why)
	}
	f.why = why.Error()
}

// clear records that a cgroup was made.
func (f *creationFailure) clear(log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != "" {
		log.Info("cgroups can be made again: the next start of each program uses one")
	}
	f.why = ""
}

// current returns why no cgroup can be made at present; empty: they can be made, as far
// as superd knows.
func (f *creationFailure) current() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// reachedLimit returns the file of dir whose limit forbids another cgroup level levels below; empty
// if none does.
func reachedLimit(dir string, level int) string {
	number := func(file string) (n int, ok bool) {
		text, err := os.ReadFile(file)
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return n, err == nil // otherwise it is "max"
	}
	descendants, depth := filepath.Join(dir, "cgroup.max.descendants"), filepath.Join(dir, "cgroup.max.depth")
	if most, ok := number(descendants); ok && countDescendants(dir) >= most {
		return descendants
	}
	if most, ok := number(depth); ok && level > most {
		return depth
	}
	return ""
}

func countDescendants(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "nr_descendants "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}
