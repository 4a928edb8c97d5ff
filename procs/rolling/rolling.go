// Package rolling decides a rolling restart of one program: which replicas are restarted when, and
// what a failure leads to.
//
// It is level-triggered: [Roll.Next] gets all replicas as they are at the moment, and returns which
// of them to restart. So it does not matter which change was noticed, and a successor of superd
// goes on with the record of the roll alone. The package does no I/O and reads no clock.
//
// # The promise
//
// A replica that is up is restarted only if, without it, as many replicas are up as are wanted,
// less max_unavailable. Extra replicas count like others. One that is not up costs nothing, and is
// restarted at once.
package rolling

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/procs/snapshot"
)

// Limits are the limits of a roll, from the definition in force.
type Limits struct {
	MaxUnavailable int
	Pause          time.Duration // how long a restarted replica must be up before it counts
	Abort          bool          // a failure ends the roll
	Wait           time.Duration // how long a replica may wait for its start; 0: for ever
}

// leastPause is how long a replica of a program that reports no readiness must be up before it
// counts: most programs that can't run end sooner.
const leastPause = time.Second

// Limits returns the limits of the roll, by the definition of its program. Without extra replicas,
// one replica at a time may be down.
func (r *Roll) Limits(p *config.Program) Limits {
	k := p.RollingOrDefault()
	if r.Extra == 0 {
		k.MaxUnavailable = max(k.MaxUnavailable, 1)
	}
	if p.Type == config.TypeService && p.Ready == nil && len(p.PostStart) == 0 {
		k.Pause = max(k.Pause, leastPause)
	}
	return Limits{MaxUnavailable: k.MaxUnavailable, Pause: k.Pause, Abort: k.AbortOnFailure, Wait: k.WaitTimeout}
}

// A Condition is what a replica is for a roll.
type Condition uint8

// The conditions of a replica.
const (
	Stopped Condition = iota // not wanted up
	Ended                    // it has ended with success, and stays down
	Coming                   // not up yet, or about to be down
	Failed                   // its start or its run failed
	Up
)

// A Replica is a replica as it is at the moment.
type Replica struct {
	Name  string
	Run   string // id of its run; empty without one
	Extra bool   // beyond the number of replicas of its program
	Is    Condition
	Final bool          // it has failed and is not started again
	UpFor time.Duration // how long it has been up
	Ends  bool          // its run has to end
	Why   string        // why it is as it is
	Waits bool          // it is coming, and its start waits for something
	// How long this superd has seen it wait
	WaitedFor time.Duration
}

// A Roll is a rolling restart that is under way. Its methods change only its record.
type Roll struct {
	snapshot.Roll
	taken   int           // number of turns that are taken, as of the last step
	waiting string        // a replica that waits for its start, likewise; empty: none
	limit   time.Duration // how long it may wait at most from then on; 0: for ever
}

// New returns a roll that has done nothing yet. It is to restart the replicas in runs, each of
// which has that run or none, after it has started extra replicas. With canary it then waits for a
// decision of the operator.
func New(runs map[string]string, extra int, canary bool) *Roll {
	r := &Roll{Roll: snapshot.Roll{Stage: snapshot.RollStarts, Extra: extra, Canary: canary}}
	r.Restart(runs)
	return r
}

// Restart begins the roll again with these replicas, as for [New].
func (r *Roll) Restart(runs map[string]string) {
	r.Stage, r.Failure, r.Turns = snapshot.RollStarts, "", map[string]snapshot.Turn{}
	for name, run := range runs {
		r.Turns[name] = snapshot.Turn{Run: run}
	}
	r.count()
}

// Resume returns the roll of a predecessor.
func Resume(v snapshot.Roll) *Roll {
	r := &Roll{Roll: v}
	if r.Turns == nil { // the record of a roll without turns has none
		r.Turns = map[string]snapshot.Turn{}
	}
	r.count()
	return r
}

// count counts the turns that are taken.
func (r *Roll) count() {
	r.taken = 0
	for _, turn := range r.Turns {
		r.taken += one(turn.Taken)
	}
}

// Record returns a copy of the record.
func (r *Roll) Record() snapshot.Roll {
	v := r.Roll
	v.Turns = maps.Clone(v.Turns)
	return v
}

// Is reports whether the record is still v.
func (r *Roll) Is(v snapshot.Roll) bool {
	return r.Stage == v.Stage && r.Extra == v.Extra && r.Canary == v.Canary && r.Failure == v.Failure &&
		maps.Equal(r.Turns, v.Turns)
}

// Extras returns how many extra replicas the program has because of the roll.
func (r *Roll) Extras() int {
	if r.Stage == snapshot.RollEnds {
		return 0
	}
	return r.Extra
}

// Decided reports whether the roll does nothing more by itself for those who wait for it.
func (r *Roll) Decided() bool {
	return r.Stage == snapshot.RollAwaits || r.Stage == snapshot.RollHeld
}

// Continue carries on with a roll that waits for the operator, with at least surge extra replicas.
// It restarts replicas again whose restart failed. ok is false if it does not wait.
func (r *Roll) Continue(all []Replica, surge int) (ok bool) {
	if !r.Decided() {
		return false
	}
	for _, p := range all {
		if p.Is == Failed && (p.Extra || r.Turns[p.Name].Taken) {
			r.Turns[p.Name] = snapshot.Turn{Run: p.Run}
		}
	}
	r.Stage, r.Canary, r.Failure = snapshot.RollStarts, false, ""
	r.Extra = max(r.Extra, surge)
	r.count()
	return true
}

// Fail ends the roll for that reason. Where replicas were restarted, the extra ones stay until all
// are up: they stand in for those that are not.
func (r *Roll) Fail(why string) {
	r.Failure = why
	if r.Stage == snapshot.RollRestarts && r.Extra > 0 {
		r.Stage = snapshot.RollHeld
	} else {
		r.Stage = snapshot.RollEnds
	}
}

// Done reports whether a roll that ends has no extra replica left.
func (r *Roll) Done(all []Replica) bool {
	for _, p := range all {
		if p.Extra {
			return false
		}
	}
	return true
}

// Next takes the steps to which the replicas lead, and returns which of them to restart now. wait
// is the time after which to look again, 0: only after a change.
func (r *Roll) Next(all []Replica, l Limits) (restart []string, wait time.Duration) {
	defer r.count()
	r.takeRenewed(all)
	s := r.survey(all, l)
	r.waiting, r.limit = s.waiting, s.limit
	spare := s.ready - (s.wanted - l.MaxUnavailable)
	switch {
	case r.Stage == snapshot.RollEnds:
		return nil, 0
	case s.stopped:
		r.Failure, r.Stage = "all replicas were stopped", snapshot.RollEnds
		return nil, 0
	case r.Stage == snapshot.RollHeld:
		if s.down == 0 || s.extraDown {
			r.Stage = snapshot.RollEnds
		}
		return nil, s.wait
	case s.failure != "" && (l.Abort || s.extraDown):
		r.Fail(s.failure)
		return r.Next(all, l) // it may be over at once
	case s.overdue != "" && r.Stage != snapshot.RollAwaits:
		r.Fail(s.overdue)
		return r.Next(all, l)
	case r.Stage == snapshot.RollStarts:
		restart, waiting := r.restarts(all, true, spare)
		if len(restart) > 0 || waiting || s.extraReady < r.Extra {
			return restart, s.wait
		}
		if r.Stage = snapshot.RollRestarts; r.Canary {
			r.Stage = snapshot.RollAwaits
			return nil, 0
		}
		return r.Next(all, l)
	case r.Stage == snapshot.RollAwaits:
		return nil, 0
	}
	restart, waiting := r.restarts(all, false, spare)
	if len(restart) == 0 && !waiting && !s.unready {
		r.Stage = snapshot.RollEnds
	}
	return restart, s.wait
}

// restarts returns the extra replicas, or the others, to restart now. spare is how many of them may
// be up. waiting reports whether others wait for their turn.
func (r *Roll) restarts(all []Replica, extra bool, spare int) (restart []string, waiting bool) {
	present := map[string]bool{}
	for _, p := range all {
		present[p.Name] = true
		due, _ := r.due(&p)
		switch {
		case !due || p.Extra != extra:
		case p.Is == Stopped: // an operator has stopped it: it is not restarted
			delete(r.Turns, p.Name)
		case p.Is == Up && spare <= 0:
			waiting = true
		default:
			restart = append(restart, p.Name)
			spare -= one(p.Is == Up)
			r.take(&p)
		}
	}
	for name, turn := range r.Turns {
		if !present[name] && !turn.Taken { // removed meanwhile
			delete(r.Turns, name)
		}
	}
	return restart, waiting
}

// takeRenewed takes the turns of replicas that are renewed: the roll does not restart them, but
// waits until they are up, and their failures count.
func (r *Roll) takeRenewed(all []Replica) {
	if r.Stage != snapshot.RollStarts && r.Stage != snapshot.RollRestarts {
		return
	}
	for _, p := range all {
		_, renewed := r.due(&p)
		if renewed && p.Is != Stopped && p.Extra == (r.Stage == snapshot.RollStarts) {
			r.take(&p)
		}
	}
}

// due reports whether it is still to be the turn of a replica. It needs none if it is renewed: it
// has another run since, or its run is about to end. The turn of a replica whose restart was lost,
// as by a crash of superd or by the operator's start, comes again.
func (r *Roll) due(p *Replica) (due, renewed bool) {
	turn, has := r.Turns[p.Name]
	old := turn.Run == p.Run && !p.Ends
	if !has || turn.Taken && (!old || p.Run == "") {
		return false, false
	}
	return true, !old && p.Run != ""
}

func (r *Roll) take(p *Replica) {
	turn := r.Turns[p.Name]
	turn.Taken = true
	r.Turns[p.Name] = turn
}

// A survey is what all replicas together are.
type survey struct {
	stopped bool // none of the program's own replicas is wanted up
	// Own replicas that have to be up. One that stays down by itself counts if it has a turn
	wanted int
	down   int // own replicas that are not up and do not stay down by themselves
	// Replicas that are up and count: a restarted one and an extra one only after the pause
	ready      int
	extraReady int  // of them, the extra ones
	unready    bool // one that was restarted, or an extra one, does not count yet
	// Why the roll fails; empty if it does not
	failure   string
	extraDown bool          // an extra one is stopped, or has ended by itself
	wait      time.Duration // until one counts, or is overdue; 0: none will
	waiting   string        // the first one that waits for its start; empty: none
	limit     time.Duration // how much longer it may; 0: for ever
	overdue   string        // why one has waited for too long; empty: none has
}

// sooner looks again after d, at the latest.
func (s *survey) sooner(d time.Duration) {
	if s.wait == 0 || d < s.wait {
		s.wait = d
	}
}

// await takes account of a replica that waits for its start.
func (s *survey) await(p *Replica, limit time.Duration) {
	left := limit - p.WaitedFor
	if s.waiting == "" {
		s.waiting, s.limit = p.Name, max(0, left)
	}
	switch {
	case limit == 0:
	case left > 0:
		s.sooner(left)
	case s.overdue == "":
		s.overdue = fmt.Sprintf("%s has not been started within %s: %s", p.Name, words.Duration(limit), p.Why)
	}
}

func (r *Roll) survey(all []Replica, l Limits) survey {
	s := survey{stopped: true}
	for _, p := range all {
		young := p.Extra || r.Turns[p.Name].Taken
		counts := p.Is == Up && (!young || p.UpFor >= l.Pause)
		if p.Is == Up && !counts {
			s.sooner(l.Pause - p.UpFor)
		}
		if p.Is == Coming && p.Waits {
			s.await(&p, l.Wait)
		}
		switch {
		case counts && p.Extra:
			s.extraReady++
			s.ready++
		case counts:
			s.ready++
		case young && p.Is != Stopped && p.Is != Ended:
			s.unready = true
		}
		due, _ := r.due(&p)
		staysDown := p.Is == Ended || p.Is == Failed && p.Final && !young
		if !p.Extra && p.Is != Stopped {
			s.stopped = false
			s.wanted += one(due || !staysDown)
			s.down += one(p.Is != Up && !staysDown)
		}
		s.extraDown = s.extraDown || p.Extra && (p.Is == Stopped || p.Is == Ended)
		if !due || p.Is != Failed { // otherwise it is about to be restarted
			s.failure = cmp.Or(s.failure, failureOf(&p, young))
		}
	}
	return s
}

// failureOf returns why a replica makes the roll fail; empty if it does not.
func failureOf(p *Replica, young bool) string {
	switch {
	case p.Extra && (p.Is == Stopped || p.Is == Ended):
		return "the extra replica " + p.Name + " is down: " + p.Why
	case p.Extra && p.Is == Failed:
		return "the extra replica " + p.Name + " failed: " + p.Why
	case young && p.Is == Failed:
		return "the restart of " + p.Name + " failed: " + p.Why
	}
	return ""
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
