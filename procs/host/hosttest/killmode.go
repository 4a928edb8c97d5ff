package hosttest

import (
	"slices"
	"strings"
	"syscall"

	"superd/config"
	"superd/procs/host"
)

// AllowKillMode records that the program has that kill mode. Signals to a program without a
// recorded mode are not checked.
func (k *Kernel) AllowKillMode(program string, mode config.KillMode) {
	k.modes[program] = append(k.modes[program], mode)
}

// checkStop checks that a stop signal or SIGKILL reaches only processes that kill_mode allows, by
// any mode that the program has had.
func (k *Kernel) checkStop(p *Process, sig syscall.Signal, group bool) {
	modes := k.modes[config.ProgramOf(p.Instance)]
	switch {
	case len(modes) == 0, p.Role == RolePreStart, p.Role == RolePostStop,
		strings.HasSuffix(p.Instance, host.ProbeSuffix):
		return
	}
	allowed := func(mode config.KillMode) bool { return k.mayReach(mode, p, sig, group) }
	if !slices.ContainsFunc(modes, allowed) {
		k.fail("%v reaches %d of %s (its main process: %v; by its group: %v), kill_mode being one of %v",
			sig, p.Pid, p.Instance, k.mains[p.Run] == p, group, modes)
	}
}

func (k *Kernel) mayReach(mode config.KillMode, p *Process, sig syscall.Signal, group bool) bool {
	main := k.mains[p.Run]
	switch {
	case sig == syscall.SIGKILL:
		return main == nil || main == p || mode != config.KillProcess
	case sig != syscall.SIGTERM:
		return true
	case main == p:
		return p.isSuccessor || p.Zombie || group == mode.StopsGroup()
	case main != nil && !main.Zombie: // the other processes are not in its group
		return false
	}
	return mode != config.KillProcess && mode != config.KillMixed
}
