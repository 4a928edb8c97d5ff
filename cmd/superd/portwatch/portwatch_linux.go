// Package portwatch says who has the port of a program that fails since it can't listen there: the
// port is the value of PORT in the program's environment.
package portwatch

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"superd/config"
	"superd/config/document"
	"superd/config/environ"
	"superd/procs/eventlog"
	"superd/procs/linux/listener"
)

// A Watcher looks after each failure of a program whether another process has its port, and logs
// which. Its methods may be called from any goroutine.
type Watcher struct {
	log        *slog.Logger
	runtimeDir string
	config     atomic.Pointer[config.Config]
	failed     chan string // instances
}

// waiting is how many failures may wait for their turn. Further ones are not examined.
const waiting = 16

// New returns a watcher for the programs of the superd with that runtime directory. It works until
// the process ends.
func New(runtimeDir string, log *slog.Logger) *Watcher {
	w := &Watcher{log: log, runtimeDir: runtimeDir, failed: make(chan string, waiting)}
	go w.run()
	return w
}

// Activated tells the configuration that is in force.
func (w *Watcher) Activated(c *config.Config) { w.config.Store(c) }

// OnExit examines an exit of a main process, if that is a failure. It does not block.
func (w *Watcher) OnExit(e eventlog.Event) {
	if e.Exit == nil || e.Exit.Code == nil || *e.Exit.Code == 0 {
		return
	}
	select {
	case w.failed <- e.Instance:
	default:
	}
}

// run logs each conflict once, until it changes.
func (w *Watcher) run() {
	logged := map[string]string{}
	for instance := range w.failed {
		port, by := w.find(instance)
		if by != "" && logged[instance] != by {
			w.log.Warn("the port of a program is in use", "instance", instance, "port", port, "by", by)
		}
		if logged[instance] = by; by == "" {
			delete(logged, instance)
		}
	}
}

// Explain returns a sentence on who else has the port of an instance; "" if nobody does. It may
// block.
func (w *Watcher) Explain(instance string) string {
	port, by := w.find(instance)
	if by == "" {
		return ""
	}
	return fmt.Sprintf("Port %d, its PORT, is in use by %s.", port, by)
}

// find returns the port of an instance, and which other processes listen there; "": none.
func (w *Watcher) find(instance string) (port int, by string) {
	c := w.config.Load()
	if c == nil {
		return 0, ""
	}
	p := c.Program(config.ProgramOf(instance))
	if p == nil {
		return 0, ""
	}
	port, err := strconv.Atoi(portOf(p, instance))
	if err != nil || port <= 0 {
		return 0, ""
	}
	found, err := listener.OnPorts([]int{port})
	if err != nil {
		return 0, ""
	}
	holders, inUse := found[port]
	if !inUse {
		return 0, ""
	}
	var others []string
	for _, h := range holders {
		holder, own := w.instanceOf(h.Pid)
		switch {
		case own && holder == instance:
			return 0, ""
		case own:
			others = append(others, fmt.Sprintf("process %d (%s) of %s", h.Pid, h.Command, holder))
		default:
			others = append(others, fmt.Sprintf("process %d (%s)", h.Pid, commandLine(h)))
		}
	}
	if len(others) == 0 {
		return port, "a process of another user"
	}
	return port, strings.Join(others, ", ")
}

// portOf returns the PORT that a program's environment has, "" if there is none.
func portOf(p *config.Program, instance string) string {
	reader, vars := document.NewReader(p.File, document.FileSystem()), map[string]string{}
	for _, file := range p.EnvFiles {
		own, mistakes := reader.EnvFile(file.Path)
		if len(mistakes) > 0 && !errors.Is(mistakes, os.ErrNotExist) {
			return ""
		}
		for name, value := range own {
			vars[name] = value
		}
	}
	var run environ.Variables
	run.Set("SUPERD_INSTANCE", instance)
	run.Set("SUPERD_NAME", p.Name)
	run.Set("SUPERD_REPLICA", strconv.Itoa(max(config.NumberOf(instance), 1)))
	// What can't be expanded is left out
	_, env, _, _ := p.Resolve(environ.Inherited(os.Environ()), run, nil, vars)
	for _, assignment := range env {
		if value, ok := strings.CutPrefix(assignment, "PORT="); ok {
			return value
		}
	}
	return ""
}

// instanceOf returns the instance that a process belongs to by its environment, and whether it is
// one of this superd.
func (w *Watcher) instanceOf(pid int) (instance string, own bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // of another user: not known
	for assignment := range bytes.SplitSeq(text, []byte{0}) {
		switch name, value, _ := strings.Cut(string(assignment), "="); name {
		case "SUPERD_INSTANCE":
			instance = value
		case "SUPERD_OWNER":
			own = value == w.runtimeDir
		}
	}
	return instance, own
}

const mostShown = 80 // bytes of a command line

// commandLine returns the command line of a process.
func commandLine(h listener.Process) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.Pid))
	line := strings.TrimSpace(strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), "?"))
	if err != nil || line == "" {
		return h.Command
	}
	if len(line) > mostShown {
		line = strings.ToValidUTF8(line[:mostShown], "") + "…"
	}
	return line
}
