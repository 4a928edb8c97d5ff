package hosttest

import (
	"cmp"
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
	case len(modes) == 0, p.Role == RolePreStart, p.Role == RolePostStop, p.Key == ExecuteArgument,
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
	sparing := mode == config.KillProcess || mode == config.KillGroup
	switch {
	case sparing && k.mayBeMain(p):
		return true
	case deadly(sig):
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

// A killRule is how processes are killed that outlive the stop time-out.
type killRule struct {
	signal syscall.Signal // 0: SIGKILL
	spares bool           // they are not
}

// AllowKill records that the program has that kill_signal and final_kill. The kills of a program
// without a record are not checked.
func (k *Kernel) AllowKill(p *config.Program) {
	if p.NoFinalKill {
		for other := range k.Processes() { // they may have ignored the signal before a reload
			if config.ProgramOf(other.Instance) == p.Name && other.ignored != 0 && !other.Zombie && !other.Dying {
				other.endLate()
			}
		}
	}
	k.kills[p.Name] = append(k.kills[p.Name], killRule{p.KillSignal, p.NoFinalKill})
}

// mayBeSpared reports whether a process that ignores the stop signal may live on after the stop
// time-out. It ends by itself some minutes later.
func (k *Kernel) mayBeSpared(instance string) bool {
	spares := func(r killRule) bool { return r.spares }
	return slices.ContainsFunc(k.kills[config.ProgramOf(instance)], spares)
}

// checkKill checks that a process of a program is killed by the signal that its definition names,
// and only if that lets it be killed. Any definition that the program has had counts.
func (k *Kernel) checkKill(p *Process, sig syscall.Signal) {
	rules := k.kills[config.ProgramOf(p.Instance)]
	switch {
	case !deadly(sig), len(rules) == 0, p.Zombie, p.resultPending, p.Role == RolePreStart,
		p.Role == RolePostStop, p.Role.OwnTree(), strings.HasSuffix(p.Instance, host.ProbeSuffix):
		return
	}
	allows := func(r killRule) bool { return !r.spares && cmp.Or(r.signal, syscall.SIGKILL) == sig }
	if !slices.ContainsFunc(rules, allows) {
		k.fail("%v is sent to %d of %s, whose kill rules are %v", sig, p.Pid, p.Instance, rules)
	}
}
