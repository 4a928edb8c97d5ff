//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"

	"superd/alerts/command"
	"superd/alerts/deliver"
	"superd/config"
	"superd/internal/threads"
	"superd/procs"
	"superd/procs/rundir"
)

// openAlerts makes what delivers alerts. There are no receivers before the loop runs.
func (s *startup) openAlerts() error {
	d := s.daemon
	machine, err := os.Hostname()
	if err != nil {
		d.log.Warn("alerts do not name the machine", "error", err)
	}
	d.alerts = deliver.New(deliver.Options{
		Dir: filepath.Join(s.dir.Path, rundir.AlertsDir), Machine: machine, Version: version, Events: d.events, Log: d.log,
		Execute: func(ctx context.Context, c deliver.Command) (string, error) { return d.commands.Execute(ctx, c) },
		Adopt:   func(name, tree string) { d.commands.Adopt(name, tree) },
		Release: func(name string) { d.commands.Release(name) },
		Exists:  d.existing,
		Begun: func() {
			go func() {
				if err := threads.Reserve(supervisorThreads + deliver.Threads); err != nil {
					d.log.Warn("a limit of processes may end superd", "error", err)
				}
			}()
		},
	})
	return nil
}

func (s *startup) closeAlerts() { s.daemon.alerts.Close(finalWriteTimeout) }

// startAlerts makes what runs the commands of receivers. Receivers begin when the loop runs.
func (s *startup) startAlerts() error {
	d := s.daemon
	p := procs.PlatformOf(d.supervisor)
	d.commands = command.New(command.Options{
		Scope: d.loop.Root().Child(), Host: p.Host, Reaper: p.Reaper, Log: d.log, Environment: p.Environment,
		RuntimeDir: s.dir.Path, Body: d.kernel.OpenText,
	})
	conf := d.inForce
	d.loop.Post(func() {
		d.alertsBegun = true
		d.alerts.Apply(conf)
	})
	return nil
}

// activated puts what this package uses of a configuration in force. Receivers wait for the loop.
func (d *daemon) activated(c *config.Config) {
	d.access.Store(&c.Control)
	d.inForce = c
	if d.alertsBegun {
		d.alerts.Apply(c)
	}
}

// existing returns which of the instances there are; nil if ctx is done.
func (d *daemon) existing(ctx context.Context, instances []string) map[string]bool {
	found := make(chan map[string]bool, 1)
	d.loop.Post(func() { found <- procs.Existing(d.supervisor, instances) })
	select {
	case all := <-found:
		return all
	case <-ctx.Done():
		return nil
	}
}
