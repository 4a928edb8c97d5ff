package keeper

import (
	"maps"
	"slices"
	"syscall"
	"time"

	"superd/loop"
)

// After a stop request the keeper relies on a supervisor, which stops the programs in order. If
// none starts, the keeper ends the processes it can reach. docker stop allows ten seconds in total.
const (
	insistAfter   = time.Second            // least time between two requests that count
	stopPatience  = 4 * time.Second        // for a supervisor to start and shut down
	stopRetry     = 500 * time.Millisecond // longest pause between two supervisors meanwhile
	aloneGrace    = 4 * time.Second        // from SIGTERM to SIGKILL
	alonePatience = time.Second            // for processes to end after SIGKILL
	aloneLook     = 50 * time.Millisecond  // between two looks for living processes
)

// A stopRequest is the request of a SIGTERM, a SIGINT or a hangup of the terminal (SIGHUP). It
// stays valid until superd has ended, since a supervisor may crash before it has recorded the
// request.
type stopRequest struct {
	signal syscall.Signal // 0: no request
	unsent bool           // not yet sent to the supervisor
	at     time.Duration
	upTo   time.Duration // when the last supervisor ended that had become ready
}

// askToStop records a stop request, and sends it to the supervisor.
func (k *Keeper) askToStop(sig syscall.Signal) {
	now := k.loop.Now()
	insists := isStop(sig) && k.stop.signal != 0 && now-k.stop.at >= insistAfter
	if k.stop.signal == 0 {
		k.stop.signal, k.stop.at = sig, now
	} else if !isStop(sig) {
		return
	}
	switch {
	case k.alone != nil:
		if insists {
			k.alone.kill()
		}
	case k.listening && !isStop(sig):
		k.stop.unsent = true
		k.sendPending()
	case k.listening:
		k.signals = append(k.signals, sig)
		k.sendPending()
	case insists:
		k.endAlone()
		k.alone.kill()
	case k.restart != nil:
		k.restart.Stop()
		k.start() // start sends it the request first
	}
}

// isStop reports whether a signal asks superd to end.
func isStop(sig syscall.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// tooLate reports whether after a stop request no supervisor has started for so long that the
// keeper must end the programs itself.
func (k *Keeper) tooLate() bool {
	return k.stop.signal != 0 && k.loop.Now()-max(k.stop.at, k.stop.upTo) >= stopPatience
}

// A lonely keeper ends what superd has started, since there is no supervisor. It reaches its own
// children and, through stored pidfds, main processes of which it is not the parent. It knows
// neither an order nor stop signals other than SIGTERM.
//
// Its children belong to programs whose supervisor has ended. When a child ends, its children
// become the keeper's, so that all are reached in the end. A pid is safe to signal since only the
// keeper reaps. If it had children before it ran superd, it spares those without environment tags
// of superd.
type lonely struct {
	k         *Keeper
	signalled map[int]bool // pids that received SIGTERM
	spared    map[int]bool // pids of spared processes, which may not be superd's
	// spared processes whose tags could not be read at the last look
	undecided int
	killing   bool
	until     time.Duration // time of the next step

	runtimeDir string
	ticker     *loop.Timer
}

// endAlone starts ending the processes of superd.
func (k *Keeper) endAlone() {
	k.log.Error("no supervisor starts to stop the programs: the keeper ends them, in no order",
		"signal", "SIGTERM", "sigkill_after", aloneGrace)
	k.restart.Stop()
	k.restart = nil
	a := &lonely{k: k, runtimeDir: k.runtimeDir(), signalled: map[int]bool{}, spared: map[int]bool{}, until: k.loop.Now() + aloneGrace}
	k.alone = a
	a.ticker = k.loop.Root().Every(aloneLook, a.look)
	a.look()
}

// kill continues with SIGKILL.
func (a *lonely) kill() {
	if a.killing {
		return
	}
	a.killing, a.until = true, a.k.loop.Now()+alonePatience
	a.k.log.Warn("remaining processes are killed")
	a.look()
}

// look signals processes not yet signalled, and ends the keeper when none is left.
func (a *lonely) look() {
	a.k.sweep()
	living := a.living()
	late := a.k.loop.Now() >= a.until
	switch {
	case len(living) == 0 && a.undecided == 0, late && a.killing:
		if len(living) > 0 {
			a.k.log.Error("processes left behind: unkillable", "pids", pidsOf(living))
		}
		if len(a.spared) > 0 {
			a.k.log.Warn("processes left alone: they may not be of superd, which inherited children",
				"pids", slices.Sorted(maps.Keys(a.spared)))
		}
		a.ticker.Stop()
		a.k.status = 1
		a.k.log.Error("superd has ended without a supervisor: its successor starts the programs as after a crash")
		a.k.loop.Stop()
		return
	case late:
		a.kill()
		return
	}
	for _, p := range living {
		if a.killing {
			p.signal(syscall.SIGKILL)
		} else if !a.signalled[p.pid] {
			a.signalled[p.pid] = true
			p.signal(syscall.SIGTERM)
			p.signal(syscall.SIGCONT)
		}
	}
}

func pidsOf(all []survivor) (pids []int) {
	for _, p := range all {
		pids = append(pids, p.pid)
	}
	return pids
}
