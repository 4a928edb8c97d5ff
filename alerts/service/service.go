// Package service puts together what alerts consist of: their delivery and the commands of
// receivers, with a supervisor.
package service

import (
	"context"
	"log/slog"
	"path/filepath"

	"superd/alerts/command"
	"superd/alerts/deliver"
	"superd/config"
	"superd/loop"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/rundir"
)

// Options are what alerts need before there is a supervisor.
type Options struct {
	RuntimeDir string
	Machine    string // name of this host
	Version    string // of superd
	Events     *eventlog.Log
	Log        *slog.Logger
	Loop       *loop.Loop
	// Reserve is called when there is a first receiver, with how many more threads may block in the
	// kernel from now on. It may block.
	Reserve func(threads int)
}

// A Service has the receivers of alerts. Its methods are called on the loop, or before it runs, and
// those of the [deliver.Manager] from any goroutine.
type Service struct {
	*deliver.Manager
	options    Options
	commands   *command.Commands
	supervisor *procs.Supervisor
	inForce    *config.Config // nil before the first configuration
	begun      bool           // the receivers of inForce are in force
}

// New returns a service without receivers.
func New(o Options) *Service {
	s := &Service{options: o}
	s.Manager = deliver.New(deliver.Options{
		Dir: filepath.Join(o.RuntimeDir, rundir.AlertsDir), Machine: o.Machine, Version: o.Version,
		Events: o.Events, Log: o.Log,
		Execute: func(ctx context.Context, c deliver.Command) (string, error) { return s.commands.Execute(ctx, c) },
		Adopt:   func(name, tree string) { s.commands.Adopt(name, tree) },
		Release: func(name string) { s.commands.Release(name) },
		Exists:  s.existing,
		Begun:   func() { go o.Reserve(deliver.Threads) },
	})
	return s
}

// Activated puts the receivers of a configuration in force, after Begin.
func (s *Service) Activated(c *config.Config) {
	if s.inForce = c; s.begun {
		s.Apply(c)
	}
}

// Begin lets the receivers of the configuration in force begin when the loop runs. body returns a
// new descriptor from which text can be read; it is called off the loop.
func (s *Service) Begin(supervisor *procs.Supervisor, body func(text []byte) (fd int, err error)) {
	p := procs.PlatformOf(supervisor)
	s.supervisor = supervisor
	s.commands = command.New(command.Options{
		Scope: s.options.Loop.Root().Child(), Host: p.Host, Reaper: p.Reaper, Log: s.options.Log,
		Environment: p.Environment, RuntimeDir: s.options.RuntimeDir, Body: body,
	})
	s.options.Loop.Post(func() {
		s.begun = true
		s.Apply(s.inForce)
	})
}

// EndCommands ends the commands of receivers, and calls f when none runs.
func (s *Service) EndCommands(f func()) { s.commands.End(f) }

// existing returns which of the instances there are; nil if ctx is done.
func (s *Service) existing(ctx context.Context, instances []string) map[string]bool {
	found := make(chan map[string]bool, 1)
	s.options.Loop.Post(func() { found <- procs.Existing(s.supervisor, instances) })
	select {
	case all := <-found:
		return all
	case <-ctx.Done():
		return nil
	}
}
