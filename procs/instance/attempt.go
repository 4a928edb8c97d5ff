package instance

import (
	"errors"

	"superd/loop"
	"superd/procs/host"
)

// A spawnAttempt is the start of the main process: the pre_start hooks, the spawn, and its
// time-out.
type spawnAttempt struct {
	run *run
	// Begins the run when the hung workers of earlier runs have returned; nil if there are none
	delayedBegin func()
	pending      host.PendingSpawn // spawn of the main process; nil once its result is known
	timer        *loop.Timer       // start time-out; nil when the start is over
	envSum       uint64            // [document.EnvSum] of the env file of the start; 0: none
	preStarted   bool              // the pre_start hooks are over
	timedOut     bool              // the start time-out ended before the spawn had a result
	awaitsKill   bool              // timer bounds the wait for a killed child, not the start
}

// cancelPending cancels a spawn if possible, and reports whether it did. hook is the prefix of its
// stage: empty for the main process. Until the cancelled worker returns, the instance spawns
// nothing else, so that workers that hang do not accumulate.
func (r *run) cancelPending(pending host.PendingSpawn, hook string) bool {
	stage := hook + pending.Stage()
	if !pending.Cancel(func() { workerReturned(r.in) }) {
		return false
	}
	problems := r.in.ownProblems()
	problems.hungWorkers++
	problems.hangsIn = stage
	return true
}

// workerReturned is called when a cancelled worker returns. After the last one, it begins the run
// that waits for that.
func workerReturned(in *Instance) {
	in.hungWorkers--
	if r := in.run; in.hungWorkers == 0 && r != nil && r.spawn.delayedBegin != nil {
		r.spawn.timer.Stop()
		r.spawn.delayedBegin()
	}
}

// isKilled reports whether a start failed because superd killed its child.
func isKilled(err error) bool {
	se, ok := errors.AsType[*host.SpawnError](err)
	return ok && se.Killed
}
