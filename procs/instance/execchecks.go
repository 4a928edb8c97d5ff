package instance

import (
	"superd/config"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
)

// An execChecker is the [probe.Checker] of a command. The command runs in the environment of the
// program.
type execChecker struct {
	run     *run
	command []string
}

// Check implements [probe.Checker].
func (c *execChecker) Check(done func(error)) (stop func() (begun bool)) {
	return c.run.in.execChecks("").Check(func() *host.SpawnSpec {
		return commandSpec(c.run, c.command, func(uint32) (int, error) { return c.run.in.Env.Host.Nowhere() })
	}, done)
}

// commandSpec returns the specification of a process of the run that executes a command. output
// opens what it writes to; nil: the log of the program.
func commandSpec(r *run, command []string, output func(uid uint32) (int, error)) *host.SpawnSpec {
	program := r.program.Clone()
	program.Command = command
	if output == nil {
		return r.spawnSpec(program, nil)
	}
	program.Log.Format = config.LogDirect
	spec := r.spawnSpec(program, nil)
	spec.Outputs = []host.Outlet{{ReadFD: -1, Direct: output}}
	return spec
}

// execChecks returns what runs the instance's exec checks, and creates it on first use. treePath is
// the path of the tree that a predecessor created; empty: none.
func (in *Instance) execChecks(treePath string) *execprobe.Runner {
	if in.checks != nil {
		return in.checks
	}
	env := in.Env
	in.checks = execprobe.New(execprobe.Options{
		Instance: in.Name, TreePath: treePath, Scope: &in.Scope,
		Host: env.Host, Reaper: env.Reaper, Log: env.Log, AfterSaving: env.Records.AfterSaving,
		OnUnkillable: in.checksUnkillable,
	})
	if treePath == "" {
		in.Save() // by the record, a successor finds leftover processes of the checks
	}
	return in.checks
}

// checksUnkillable handles that the checks have other unkillable processes than before. The texts
// are empty without any.
func (in *Instance) checksUnkillable(before, now string) {
	switch r := in.run; {
	case now == "" && in.unkillable == before:
		in.clearUnkillable()
	case now != "" && r != nil && r.teardown == nil && in.Machine.State() == fsm.TearingDown:
		in.markUnkillable(now) // the end of the run waits for it
	}
}
