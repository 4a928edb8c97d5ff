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
	repeatAfter         = time.Second            // least time between two requests that count
	stopTimeout         = 4 * time.Second        // for a supervisor to start and shut down
	stopRetry           = 500 * time.Millisecond // longest pause between two supervisors meanwhile
	shutdownKillDelay   = 4 * time.Second        // from SIGTERM to SIGKILL
	shutdownKillTimeout = time.Second            // for processes to end after SIGKILL
	shutdownInterval    = 50 * time.Millisecond  // between two steps
)

// A stopRequest is the request of a SIGTERM, a SIGINT or a hangup of the terminal (SIGHUP). It
// stays valid until superd has ended, since a supervisor may crash before it has recorded the
// request.
type stopRequest struct {
	signal syscall.Signal // 0: no request
	unsent bool           // not yet sent to the supervisor
	at     time.Duration
	// end of the last supervisor that had become ready
	lastReadyEnd time.Duration
}

// requestStop records a stop request, and sends it to the supervisor.
func (k *Keeper) requestStop(sig syscall.Signal) {
	now := k.loop.Now()
	repeated := isStop(sig) && k.stop.signal != 0 && now-k.stop.at >= repeatAfter
	if k.stop.signal == 0 {
		k.stop.signal, k.stop.at = sig, now
	} else if !isStop(sig) {
		return
	}
	switch {
	case k.shutdown != nil:
		if repeated {
			k.shutdown.kill()
		}
	case k.listening && !isStop(sig):
		k.stop.unsent = true
		k.sendPending()
	case k.listening:
		k.signals = append(k.signals, sig)
		k.sendPending()
	case repeated:
		k.shutDownDirectly()
		k.shutdown.kill()
	case k.restart != nil:
		k.restart.Stop()
		k.start() // start sends it the request first
	}
}

// isStop reports whether a signal asks superd to end.
func isStop(sig syscall.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// stopOverdue reports whether after a stop request no supervisor has become ready for so long that
// the keeper must end the programs itself.
func (k *Keeper) stopOverdue() bool {
	return k.stop.signal != 0 && k.loop.Now()-max(k.stop.at, k.stop.lastReadyEnd) >= stopTimeout
}

// A directShutdown ends what superd has started, without a supervisor. It reaches the keeper's
// children and, through stored pidfds, main processes of which the keeper is not the parent. It
// knows neither an order nor stop signals other than SIGTERM.
//
// The children belong to programs whose supervisor has ended. When a child ends, its children
// become the keeper's, so that all are reached in the end. A pid is safe to signal since only the
// keeper reaps. If it had children before it ran superd, it spares those without environment tags
// of superd.
type directShutdown struct {
	k         *Keeper
	signalled map[int]bool // pids that received SIGTERM
	spared    map[int]bool // pids of spared processes, which may not be superd's
	// number of spared processes whose tags could not be read in the last step
	unreadable int
	killing    bool
	until      time.Duration // time of SIGKILL, or of the end

	runtimeDir string
	ticker     *loop.Timer
}

// shutDownDirectly begins a direct shutdown.
func (k *Keeper) shutDownDirectly() {
	k.log.Error("no supervisor starts to stop the programs: the keeper ends them, in no order",
		"signal", "SIGTERM", "sigkill_after", shutdownKillDelay)
	k.restart.Stop()
	k.restart = nil
	a := &directShutdown{k: k, runtimeDir: k.runtimeDir(), signalled: map[int]bool{}, spared: map[int]bool{}, until: k.loop.Now() + shutdownKillDelay}
	k.shutdown = a
	a.ticker = k.loop.Root().Every(shutdownInterval, a.step)
	a.step()
}

// kill continues with SIGKILL.
func (a *directShutdown) kill() {
	if a.killing {
		return
	}
	a.killing, a.until = true, a.k.loop.Now()+shutdownKillTimeout
	a.k.log.Warn("remaining processes are killed")
	a.step()
}

// step signals processes not yet signalled, and ends the keeper when no process remains.
func (a *directShutdown) step() {
	a.k.reapOrphans()
	living := a.living()
	late := a.k.loop.Now() >= a.until
	switch {
	case len(living) == 0 && a.unreadable == 0, late && a.killing:
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

func pidsOf(all []target) (pids []int) {
	for _, p := range all {
		pids = append(pids, p.pid)
	}
	return pids
}
