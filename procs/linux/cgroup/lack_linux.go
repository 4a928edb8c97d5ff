package cgroup

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A lack says why no cgroup can be made at present. Meanwhile programs without limits start without
// a cgroup, and the process scan finds their processes.
type lack struct {
	mu  sync.Mutex
	why string // empty: no lack
}

// note records a lack, and logs it if it is new.
func (l *lack) note(log *slog.Logger, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		log.Warn("no cgroups can be made: programs with limits are not started; leftover processes of others are found by scanning /proc",
			"because", why)
	}
	l.why = why.Error()
}

// end records that a cgroup was made.
func (l *lack) end(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != "" {
		log.Info("cgroups can be made again: the next start of each program uses one")
	}
	l.why = ""
}

// current returns why no cgroup can be made at present; empty: no obstacle is known.
func (l *lack) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
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
