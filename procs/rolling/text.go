package rolling

import (
	"fmt"
	"time"

	"superd/internal/words"
	"superd/procs/snapshot"
)

// A Status is the state of a roll as shown for one replica.
type Status struct {
	Stage     snapshot.RollStage
	Restarted int // replicas that were restarted, of so many that are to be
	Replicas  int
	Failure   string // why it has failed; empty if it has not
	Extra     bool   // the replica is an extra one; the caller sets it
	Waits     string // what the roll waits for, to start a replica; the caller sets it
}

// Waiting returns the replica for whose start the roll waited at the last step; empty without one.
// limit is how long it may wait from then on; 0: for ever.
func (r *Roll) Waiting() (replica string, limit time.Duration) {
	if r.Stage != snapshot.RollStarts && r.Stage != snapshot.RollRestarts {
		return r.waiting, 0
	}
	return r.waiting, r.limit
}

// Left returns what is left of a limit that was given some time ago, at least a second.
func Left(limit, ago time.Duration) time.Duration { return max(limit-ago, time.Second) }

// Status returns the state of the roll.
func (r *Roll) Status() Status {
	return Status{Stage: r.Stage, Restarted: r.taken, Replicas: len(r.Turns), Failure: r.Failure}
}

// Undone returns what the operator is told of the end of the roll that was requested.
func (r *Roll) Undone() string {
	if r.Stage == snapshot.RollHeld {
		return fmt.Sprintf("no further replica is restarted; %s until the others are up", words.Plural(r.Extra, "extra replica"))
	}
	return "rolling restart ended; no extra replica is left"
}

// Text describes the roll of a program to people.
func (r *Roll) Text(program string) string {
	s, extra := r.Status(), words.Plural(r.Extra, "extra replica")
	text := fmt.Sprintf("a rolling restart of %s is under way: %d of %d restarted", program, s.Restarted, s.Replicas)
	decide := fmt.Sprintf("`superd ctl continue %s` or `superd ctl undo %s`", program, program)
	switch r.Stage {
	case snapshot.RollStarts:
		text += ", starting " + extra
	case snapshot.RollAwaits:
		text += fmt.Sprintf(", %s up: %s", extra, decide)
	case snapshot.RollHeld:
		text += fmt.Sprintf(", ended (%s); %s until the others are up: %s", r.Failure, extra, decide)
	case snapshot.RollEnds:
		text += ", stopping " + extra
	case snapshot.RollRestarts, snapshot.RollOver: // what is over is no [Roll]
	}
	return text
}
