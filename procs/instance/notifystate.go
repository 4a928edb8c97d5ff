package instance

import (
	"time"

	"superd/loop"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A notifyState holds the channels by which the processes of a run notify superd, and what they
// have reported. Most runs need none.
type notifyState struct {
	notifyFDName string // name of the notify socket in the descriptor store
	readyFDName  string // name of the pipe on which the main process reports readiness
	// By [logs.Stream]: the [segment.Cursor] at which the output of the run begins; empty: unknown,
	// or not needed
	outputStart [2]string
	readyFD     int           // read end of that pipe; -1: none, or it has another owner
	listener    host.Listener // on the notify socket; nil without one
	statusText  string        // last STATUS= of the program
	// Period that the program requested; 0: that of the configuration
	watchdogPeriod time.Duration
	// Ends a reload that the program announced; nil without one
	reloadTimer *loop.Timer
	reloadedAt  time.Duration // end of the last reload; 0 before
	// Deadline of a stop that the program announced; nil without one
	ownStopTimer *loop.Timer
}

// noNotifyState is shared by all runs without notifications. It is never changed.
var noNotifyState = notifyState{readyFD: -1}

// snapshot sets the names of the channels, and what the program has reported, in the record of the
// run.
func (t *notifyState) snapshot(v *snapshot.Run) {
	v.Notify, v.Ready = t.notifyFDName, t.readyFDName
	v.StatusText, v.Watchdog = t.statusText, t.watchdogPeriod
	if t.reloadTimer.Active() {
		v.Reloading = new(t.reloadTimer.Due())
	}
	if t.ownStopTimer.Active() {
		v.Leaving = new(t.ownStopTimer.Due())
	}
}
