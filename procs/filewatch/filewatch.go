// Package filewatch restarts programs when files change, or sends them a signal.
package filewatch

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"superd/config"
	settings "superd/config/filewatch"
	"superd/internal/signame"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/instance/beside"
)

// maxDebounce bounds how long changes that go on delay what follows from the first of them, unless
// debounce is longer.
const maxDebounce = 10 * time.Second

// Options are what [Watches] need.
type Options struct {
	Loop      *loop.Loop
	Scope     *loop.Scope
	Files     host.Files
	Log       *slog.Logger
	Own       []string                                  // directories that superd itself writes
	Config    func() *config.Config                     // the active one
	Instances func(program string) []*instance.Instance // of a program
	Ending    func() bool                               // superd shuts down
	Changed   func()                                    // the problem of a program has changed
	// Called before a restart, by tests; may be nil
	BeforeRestart func(*instance.Instance)
}

// Watches watch the files of programs. Programs with the same files share one watch.
type Watches struct {
	Options
	sources  map[string]*source  // by what they watch
	programs map[string]*watched // by name
}

// New returns watches of nothing.
func New(o Options) *Watches {
	return &Watches{Options: o, sources: map[string]*source{}, programs: map[string]*watched{}}
}

// A source is one watch of files.
type source struct {
	scope   *loop.Scope
	users   map[string]*watched // by program
	problem string
}

// A watched is a program whose files are watched.
type watched struct {
	name     string
	settings *settings.Settings
	key      string      // of its source
	timer    *loop.Timer // until something follows; nil: nothing has changed
	since    time.Duration
	first    string // what changed first
	more     bool
}

// UpdateAll watches the files of the programs of the active configuration, and no others. Changes
// for which the time is not over yet still count.
func (w *Watches) UpdateAll() {
	conf := w.Config()
	for name, p := range w.programs {
		if !watches(conf.Program(name)) {
			w.forget(p)
		}
	}
	for _, p := range conf.Programs {
		if watches(p) {
			w.update(p)
		}
	}
	for key, s := range w.sources {
		if len(s.users) == 0 {
			delete(w.sources, key)
			s.scope.Close()
		}
	}
}

// watches reports whether files of the program are watched. p may be nil.
func watches(p *config.Program) bool {
	return p != nil && p.Watch != nil && len(p.Invalid) == 0
}

// update watches the files of a program as its definition says.
func (w *Watches) update(p *config.Program) {
	spec := host.FileWatch{Paths: p.Watch.Paths, Ignore: p.Watch.Ignore, ExcludeDirs: w.Own, ExcludeLogs: w.logs()}
	key := strings.Join(slices.Concat(spec.Paths, []string{""}, spec.Ignore, []string{""}, spec.ExcludeLogs), "\x00")
	own := w.programs[p.Name]
	if own == nil {
		own = &watched{name: p.Name}
		w.programs[p.Name] = own
	}
	own.settings = p.Watch
	if own.key == key {
		return
	}
	if s := w.sources[own.key]; s != nil {
		delete(s.users, p.Name)
	}
	own.key = key
	s := w.sources[key]
	if s == nil {
		s = &source{scope: w.Scope.Child(), users: map[string]*watched{}}
		w.sources[key] = s
		w.Files.WatchFiles(s.scope, spec, func(r host.FileReport) { w.report(s, r) })
	}
	s.users[p.Name] = own
}

// logs returns the log files outside the log directory, sorted: a line in a log is no reason for a
// restart.
func (w *Watches) logs() (all []string) {
	for _, p := range w.Config().Programs {
		for _, file := range []string{p.Log.File, p.Log.StderrFile} {
			if filepath.IsAbs(file) {
				all = append(all, file)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forget ends the watch of a program.
func (w *Watches) forget(p *watched) {
	p.timer.Stop()
	delete(w.programs, p.name)
	if s := w.sources[p.key]; s != nil {
		delete(s.users, p.name)
	}
}

// Problem returns why not all changes of the files of a program are noticed; "": all are, or none
// matter.
func (w *Watches) Problem(program string) string {
	p := w.programs[program]
	if p == nil || w.sources[p.key] == nil {
		return ""
	}
	return w.sources[p.key].problem
}

// report takes what is new of the files of a source.
func (w *Watches) report(s *source, r host.FileReport) {
	if r.Problem != s.problem {
		s.problem = r.Problem
		for _, name := range slices.Sorted(maps.Keys(s.users)) {
			if r.Problem != "" {
				w.Log.Warn("not all changes of files are noticed", "program", name, "reason", r.Problem)
			} else {
				w.Log.Info("changes of files are noticed again", "program", name)
			}
		}
		w.Changed()
	}
	if r.Changed == "" || w.Ending() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.users)) {
		w.delay(s.users[name], r)
	}
}

// delay puts off what follows from a change, until nothing has changed for a while.
func (w *Watches) delay(p *watched, r host.FileReport) {
	now := w.Loop.Now()
	if !p.timer.Active() {
		p.since, p.first, p.more = now, r.Changed, r.More
		p.timer = w.Scope.After(p.settings.Debounce, func() { w.settled(p) })
		return
	}
	p.more = p.more || r.More || r.Changed != p.first
	most := p.since + max(maxDebounce, p.settings.Debounce)
	p.timer.Reset(max(0, min(now+p.settings.Debounce, most)-now))
}

// settled applies changes to the instances of a program.
func (w *Watches) settled(p *watched) {
	program := w.Config().Program(p.name)
	if program == nil || w.Ending() {
		return
	}
	which := p.first
	if rel, err := filepath.Rel(program.Directory, p.first); err == nil && rel != "." && filepath.IsLocal(rel) {
		which = rel
	}
	if p.more {
		which += " and others"
	}
	for _, in := range slices.Clone(w.Instances(p.name)) {
		w.apply(in, p.settings, which)
	}
}

// Concerns reports whether a change of files concerns the instance at present. What is to be down
// stays down, and what waits for its start uses the files as they are then.
func Concerns(in *instance.Instance) bool {
	state := in.Machine.State()
	byConnection := in.Program.Sockets != nil && in.Program.Sockets.OnConnect
	return in.Machine.Desired().Up && !in.Membership.Leaves() && !in.Quarantined() &&
		state != fsm.Waiting && !(byConnection && state.AtRest())
}

// apply applies a change to an instance.
func (w *Watches) apply(in *instance.Instance, s *settings.Settings, which string) {
	if !Concerns(in) {
		return
	}
	if state := in.Machine.State(); s.Signal != 0 && (state == fsm.Starting || state == fsm.Running) {
		w.signal(in, s, which)
		return
	}
	instance.CheckConfiguration(in, func(o beside.Outcome) {
		switch {
		case in.Closed() || w.Ending() || !Concerns(in):
		case !o.OK:
			w.Log.Warn("files changed, and the program is not restarted", "instance", in.Name, "file", which, "reason", o.Message)
			w.record(in, fsm.ReasonRequestedRestart.With(" (file changed: "+which+"; not restarted: "+o.Message+")"))
		default:
			w.Log.Info("files changed", "instance", in.Name, "file", which)
			w.record(in, fsm.ReasonRequestedRestart.With(" (file changed: "+which+")"))
			if w.BeforeRestart != nil {
				w.BeforeRestart(in)
			}
			in.Apply(in.Machine.FileChanged(which, in.Conditions()))
		}
	})
}

// signal signals the main process of an instance.
func (w *Watches) signal(in *instance.Instance, s *settings.Settings, which string) {
	process := in.MainProcess()
	if process == nil {
		return
	}
	name := signame.Name(s.Signal)
	switch err := process.Signal(s.Signal); {
	case errors.Is(err, pidfd.ErrGone):
	case err != nil:
		w.Log.Warn("files changed, and the signal could not be sent", "instance", in.Name, "file", which, "signal", name, "error", err)
	default:
		w.Log.Info("files changed: signal sent", "instance", in.Name, "file", which, "pid", process.Pid(), "signal", name)
		w.record(in, fsm.ReasonRequestedSignal.With(name+" (file changed: "+which+")"))
	}
}

// record records what a change of files has led to.
func (w *Watches) record(in *instance.Instance, why fsm.Reason) {
	by := fsm.By(fsm.ActorWatch)
	in.Record(eventlog.WithReason(eventlog.Event{
		Kind: eventlog.Command, By: by.String(), ByKind: by.Kind.String(),
	}, why))
}
