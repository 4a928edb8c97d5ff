package hosttest

import (
	"fmt"
	"time"

	"superd/procs/host"
)

// A privateTmp is the directory of a run's private_tmp.
type privateTmp struct {
	run     string
	removal bool // superd has requested its removal
}

// makeTmp makes the private_tmp of a process that executes its program.
func (k *Kernel) makeTmp(spec *host.SpawnSpec, run string) {
	if spec.PrivateTmp != "" && k.tmps[spec.PrivateTmp] == nil {
		k.tmps[spec.PrivateTmp] = &privateTmp{run: run}
		k.logf("%s has the private_tmp of run %s", spec.Name, run)
	}
}

// RemoveTmp implements [host.Host]. The removal may take minutes, or fail.
func (k *Kernel) RemoveTmp(path string) {
	t := k.tmps[path]
	if t == nil {
		return // no process of the run was started, or it is removed already
	}
	t.removal = true
	for p := range k.Processes() {
		if p.Run == t.run && !p.Zombie && !p.Role.OwnTree() && !k.Spares(p.Instance) {
			k.fail("%s is removed while %d of %s lives", path, p.Pid, p.Instance)
		}
	}
	late := k.upTo(10 * time.Millisecond)
	if k.chance(k.Mix.TmpStays) {
		if k.chance(0.5) {
			return
		}
		late = k.upTo(10 * time.Minute)
	}
	k.session.After(late, func() { delete(k.tmps, path) })
}

// KeptTmp returns the run of a private_tmp that superd has not removed though that run is over, by
// isOver; empty without any.
func (k *Kernel) KeptTmp(isOver func(run string) bool) (run string) {
	for _, path := range sortedKeys(k.tmps) {
		if t := k.tmps[path]; !t.removal && isOver(t.run) {
			return t.run
		}
	}
	return ""
}

// drawSandboxLacks draws what of the sandbox of a run can't be enforced.
func (k *Kernel) drawSandboxLacks(spec *host.SpawnSpec, run string) []string {
	if spec.Program.Sandbox == nil || !k.chance(k.Mix.SandboxLacks) {
		return nil
	}
	k.sandboxLacks[run] = []string{fmt.Sprintf("sandbox.landlock: missing for %s", spec.Name)}
	return k.sandboxLacks[run]
}

// SandboxLacks returns what of the sandbox of a run could not be enforced.
func (k *Kernel) SandboxLacks(run string) []string { return k.sandboxLacks[run] }
