package procs

import (
	"slices"
	"strings"
	"syscall"

	"superd/config"
	"superd/procs/host"
)

// checkStop checks that a stop signal or SIGKILL reaches only processes that kill_mode allows, by
// any mode that the program has had.
func (k *simKernel) checkStop(p *simProcess, sig syscall.Signal, group bool) {
	modes := k.modes[config.ProgramOf(p.instance)]
	switch {
	case len(modes) == 0, p.role == roleHook, p.role == roleAfterHook,
		strings.HasSuffix(p.instance, host.ProbeSuffix):
		return
	}
	allowed := func(mode config.KillMode) bool { return k.mayReach(mode, p, sig, group) }
	if !slices.ContainsFunc(modes, allowed) {
		k.fail("%v reaches %d of %s (its main process: %v; by its group: %v), kill_mode being one of %v",
			sig, p.pid, p.instance, k.mains[p.run] == p, group, modes)
	}
}

func (k *simKernel) mayReach(mode config.KillMode, p *simProcess, sig syscall.Signal, group bool) bool {
	main := k.mains[p.run]
	switch {
	case sig == syscall.SIGKILL:
		return main == nil || main == p || mode != config.KillProcess
	case sig != syscall.SIGTERM:
		return true
	case main == p:
		return p.isSuccessor || p.zombie || group == mode.StopsGroup()
	case main != nil && !main.zombie: // the other processes are not in its group
		return false
	}
	return mode != config.KillProcess && mode != config.KillMixed
}
