package procs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
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
		log.Warn("no cgroups can be made: programs without limits are started without, and what they leave is looked for in /proc; programs with limits are not started",
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

// ready makes the base directory if that failed at superd's start.
func (c *cgroups) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unready {
		return nil
	}
	if err := os.Mkdir(c.base, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := c.probe(); err != nil {
		return err
	}
	c.unready = false
	return nil
}

// explain adds the cause and a remedy to err, with which making the cgroup dir failed.
//
// Source: cgroup.max.descendants, cgroup.max.depth and cgroup.stat in
// Documentation/admin-guide/cgroup-v2.rst; cgroup_check_hierarchy_limits in kernel/cgroup/cgroup.c.
func (c *cgroups) explain(dir string, err error) error {
	if filepath.Dir(dir) == c.base && !isCgroup(c.base) {
		dir = c.base // it was base that could not be made
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		for above, level := filepath.Dir(dir), 1; isCgroup(above); above, level = filepath.Dir(above), level+1 {
			if file := reachedLimit(above, level); file != "" {
				text, _ := os.ReadFile(file)
				return fmt.Errorf("%w: the limit in %s, which is %s, is reached; raise it: echo max >%s", err, file, strings.TrimSpace(string(text)), file)
			}
		}
		return fmt.Errorf("%w: a limit on cgroups above superd's is reached", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: the kernel has no number for another cgroup; remove unused ones", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; mount cgroup v2 there so that superd may write to it", err)
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: superd's user may not make cgroups in %s; under systemd set Delegate=yes", err, c.own)
	}
	return err
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
