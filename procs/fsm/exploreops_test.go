package fsm

import (
	"fmt"
	"time"

	"superd/config"
)

// explorationPrograms cover the restart policies, the start limit, a schedule, a process
// for each connection, and a mistake.
func explorationPrograms() []*config.Program {
	limit := func(retry time.Duration) config.StartLimit {
		return config.StartLimit{Failures: 3, Within: time.Minute, RetryAfter: retry}
	}
	changes := []func(p *config.Program){
		func(p *config.Program) { p.Restart = config.RestartAlways },
		func(p *config.Program) { p.Restart, p.StartLimit = config.RestartAlways, limit(0) },
		func(p *config.Program) { p.Restart, p.StartLimit = config.RestartOnFailure, limit(time.Hour) },
		func(p *config.Program) { p.Restart, p.Autostart = config.RestartNever, false },
		func(p *config.Program) { // a one-shot with another exit code of success
			p.Type, p.Restart, p.SuccessExitCodes = config.TypeOneshot, config.RestartOnFailure, []int{0, 3}
			p.Backoff.Initial = time.Second
		},
		func(p *config.Program) {
			p.Type, p.Restart, p.Schedule = config.TypeOneshot, config.RestartOnFailure, "@daily"
			p.StartLimit = limit(0)
		},
		func(p *config.Program) {
			p.Restart, p.StartLimit = config.RestartAlways, limit(time.Hour)
			p.Sockets = &config.ProgramSockets{OnConnect: true, Accept: true}
		},
		func(p *config.Program) { p.Autostart, p.Invalid = false, config.Errors{{Key: "x"}} },
	}
	var programs []*config.Program
	for _, change := range changes {
		p := testProgram()
		change(p)
		programs = append(programs, p)
	}
	return programs
}

// allConditions has the combinations of conditions that can occur. Conflict is not combined with
// AwaitsOthers: either blocks a start, and nothing else reads the two.
var allConditions = func() (all []Conditions) {
	for _, c := range []Conditions{{}, {Held: true}, {AwaitsOthers: true}, {AwaitsOthers: true, Lost: true}} {
		for i := range 6 {
			c.HasDependents, c.DependentsDown, c.Ordered = i/2 > 0, i/2 < 2, i%2 == 1
			all = append(all, c)
		}
	}
	return all
}()

// What a method reads of the conditions.
const (
	readsConflict = 1 << iota
	readsOrdered
	readsDependents
	readsRequirements
	// All, but one at a time: the method calls others that are explored with all combinations
	readsEach
	readsBlockers = readsConflict | readsDependents | readsRequirements
	readsAll      = readsBlockers | readsOrdered
)

// conditionsFor returns the indices in allConditions that differ for what a method reads.
func conditionsFor(reads int) (indices []int) {
	for i, c := range allConditions {
		single := 0
		for _, is := range []bool{c.Held, c.Ordered, c.HasDependents, c.AwaitsOthers} {
			if is {
				single++
			}
		}
		if reads == readsEach && single <= 1 || c == c.masked(reads) {
			indices = append(indices, i)
		}
	}
	return indices
}

// masked returns the conditions with those reset that a method does not read.
func (c Conditions) masked(reads int) Conditions {
	if reads&readsConflict == 0 {
		c.Held = false
	}
	if reads&readsOrdered == 0 {
		c.Ordered = false
	}
	if reads&readsDependents == 0 {
		c.HasDependents, c.DependentsDown = false, true
	}
	if reads&readsRequirements == 0 {
		c.AwaitsOthers, c.Lost = false, false
	}
	return c
}

// An op is a request, or an occurrence.
type op struct {
	name     string
	reads    int
	under    []int // indices in allConditions
	possible func(n *node) bool
	// Changes the world before the step
	occurs func(w *world)
	do     func(x *exploration, m *Machine, c Conditions) (t Transition, ok bool)
	// Checks what is special to this op, after it
	check func(before, after *node, c Conditions) string
	// It ends a run whatever the dependents do: that has failed, or the shutdown is in a hurry
	fails bool
}

func always(do func(x *exploration, m *Machine, c Conditions) Transition) func(*exploration, *Machine, Conditions) (Transition, bool) {
	return func(x *exploration, m *Machine, c Conditions) (Transition, bool) { return do(x, m, c), true }
}

func inState(s State) func(*node) bool { return func(n *node) bool { return n.m.state == s } }

const farBeyond = time.Hour // the window of the start limit

// ops are all requests and occurrences.
var ops = func() (all []op) {
	for _, group := range []func(add func(op)){requests, changes, starts, runs, ends, quarantines} {
		group(func(o op) {
			o.under = conditionsFor(o.reads)
			all = append(all, o)
		})
	}
	return all
}()

func unquarantined(n *node) bool { return !n.world.quarantined }

// isOnItsWay checks that a start has an effect.
func isOnItsWay(_, after *node, _ Conditions) string {
	if s := after.m.state; s.AtRest() || s == Backoff {
		return "it is neither started nor does it wait"
	}
	return ""
}

// requests adds what is requested of an instance, and what other instances bring about.
func requests(add func(op)) {
	for _, by := range []ActorKind{ActorConfiguration, ActorOperator} {
		add(op{name: "WantUp by " + by.String(), reads: readsAll, possible: unquarantined, check: isOnItsWay,
			do: always(func(_ *exploration, m *Machine, c Conditions) Transition {
				return m.WantUp(By(by), by == ActorOperator, c)
			})})
	}
	for _, by := range []ActorKind{ActorReload, ActorOperator} {
		add(op{name: "WantRestart by " + by.String(), reads: readsAll, possible: unquarantined, check: isOnItsWay,
			do: always(func(_ *exploration, m *Machine, c Conditions) Transition {
				return m.WantRestart(By(by), by == ActorOperator, c)
			})})
	}
	for _, by := range []ActorKind{ActorOperator, ActorShutdown} {
		add(op{name: "WantDown by " + by.String(), reads: readsDependents,
			possible: func(n *node) bool { return !n.world.quarantined || by == ActorShutdown },
			do:       always(func(_ *exploration, m *Machine, c Conditions) Transition { return m.WantDown(By(by), c) })})
	}
	add(op{name: "Reconcile", reads: readsBlockers,
		do: func(_ *exploration, m *Machine, c Conditions) (Transition, bool) { return m.Reconcile(c, lostReasons) },
		check: func(before, after *node, c Conditions) string {
			m := &after.m
			stays := before.m.state == m.state
			switch {
			case c.Lost && m.desired.Up && (m.state == Starting || m.state == Running):
				return "it goes on without its requirement"
			case c.Lost && m.state == Spawning && !after.world.canceled:
				return "its start goes on without its requirement"
			case stays && m.state == StopPending && (c.DependentsDown || !m.MustEnd(c)):
				return "its stop waits for nothing"
			case stays && m.state == Waiting && !m.StartBlocked(c):
				return "its start waits for nothing"
			}
			return ""
		}})
	add(op{name: "Trigger", reads: readsBlockers, check: isOnItsWay,
		possible: func(n *node) bool {
			return n.m.state == Waiting && n.m.desired.Up && n.m.program.Triggered() && !n.m.runPending
		},
		do: always(func(_ *exploration, m *Machine, c Conditions) Transition {
			return m.Trigger(Reason{ReasonScheduleDue, "noon"}, c)
		})})
	add(op{name: "StopNow", possible: inState(StopPending), fails: true,
		do: always(func(_ *exploration, m *Machine, _ Conditions) Transition { return m.StopNow() })})
}

// changes adds the changes of the definition to each other one.
func changes(add func(op)) {
	for to := range explorationPrograms() {
		for i := range 6 {
			restarts, exit := i&1 != 0, Exit{Known: true}
			rolls := i >= 4 // with restarts or, to no effect, without
			if i&2 != 0 {
				exit.Code = 1
			}
			add(op{name: fmt.Sprintf("Reevaluate with program %d, restarts %v, rolls %v, after %s", to, restarts, rolls, exit), reads: readsEach,
				possible: func(n *node) bool {
					return !n.world.quarantined && (!rolls || n.m.state == Running && n.m.desired.Up) && (i&2 == 0 || ended(n.m.state) && !n.m.notStarted && !n.m.failed)
				},
				do: func(x *exploration, m *Machine, c Conditions) (Transition, bool) {
					before := m.program
					m.Redefine(x.programs[to], restarts && !rolls)
					return m.Reevaluate(Change{before, restarts, rolls, exit}, c, x.rng)
				}})
		}
		add(op{name: fmt.Sprintf("Redefine in quarantine with program %d", to),
			possible: func(n *node) bool { return n.world.quarantined },
			do: func(x *exploration, m *Machine, _ Conditions) (Transition, bool) {
				m.Redefine(x.programs[to], true)
				return Transition{}, false
			}})
	}
}

// starts adds the results of a start.
func starts(add func(op)) {
	starting := func(w *world) { w.spawn = false }
	started := func(w *world) { w.spawn, w.main = false, true }
	for _, ready := range []bool{true, false} {
		add(op{name: fmt.Sprintf("Spawned, ready %v", ready), reads: readsRequirements,
			possible: func(n *node) bool { return n.world.spawn }, occurs: started,
			do: always(func(_ *exploration, m *Machine, c Conditions) Transition { return m.Spawned(ready, c) })})
	}
	add(op{name: "Ready", possible: func(n *node) bool { return n.world.awaited },
		do: always(func(_ *exploration, m *Machine, _ Conditions) Transition { return m.Ready(time.Second) })})
	for i := range 8 {
		f := StartFailure{Reason: Reason{ReasonStartFailed, "no such file"}, Fault: Fault(i / 2 % 3), Leftovers: i%2 == 1}
		if i >= 6 {
			f.At = farBeyond
		}
		add(op{name: fmt.Sprintf("SpawnFailed, %+v", f), reads: readsBlockers,
			possible: func(n *node) bool { return n.world.spawn }, occurs: starting,
			do: always(func(x *exploration, m *Machine, c Conditions) Transition { return m.SpawnFailed(f, c, x.rng) })})
	}
	for _, leftovers := range []bool{true, false} {
		add(op{name: fmt.Sprintf("SpawnCanceled, leftovers %v", leftovers), reads: readsBlockers,
			possible: func(n *node) bool { return n.world.spawn }, occurs: starting,
			do: always(func(_ *exploration, m *Machine, c Conditions) Transition { return m.SpawnCanceled(leftovers, c) })})
		add(op{name: fmt.Sprintf("Interrupted, leftovers %v", leftovers), reads: readsBlockers,
			possible: func(n *node) bool { return n.world.spawn }, occurs: starting,
			do: always(func(_ *exploration, m *Machine, c Conditions) Transition { return m.Interrupted(leftovers, c) })})
	}
}

// runs adds what may happen to a main process, but for its end.
func runs(add func(op)) {
	for _, fail := range []struct {
		event  Event
		in     State
		reason ReasonKind
	}{
		{StartTimeout, Starting, ReasonStartTimeout},
		{HealthFailed, Running, ReasonUnhealthy},
		{WatchdogTimeout, Running, ReasonWatchdogTimeout},
	} {
		add(op{name: "FailRun, " + fail.event.String(), fails: true, possible: inState(fail.in),
			do: always(func(_ *exploration, m *Machine, _ Conditions) Transition {
				return m.FailRun(fail.event, Reason{fail.reason, "failed"})
			})})
	}
	add(op{name: "StopTimedOut", possible: inState(Stopping), occurs: func(w *world) { w.stopTimer = false },
		do: always(func(_ *exploration, m *Machine, _ Conditions) Transition { return m.StopTimedOut("SIGKILL") })})
	add(op{name: "KillTimedOut", possible: func(n *node) bool { return n.world.killTimer },
		do: always(func(_ *exploration, m *Machine, _ Conditions) Transition { return m.KillTimedOut() }),
		check: func(_, after *node, _ Conditions) string {
			if !after.world.reported {
				return "an unkillable process is not reported"
			}
			return ""
		}})
}

// ends adds the ends of runs, and what follows them.
func ends(add func(op)) {
	exit := func(name string, end RunEnd) {
		add(op{name: fmt.Sprintf("Exited, %s, at %v, stable %v, leftovers %v", name, end.At, end.Stable, end.Leftovers), reads: readsBlockers,
			possible: func(n *node) bool { return n.world.main && (end.Stable == 0 || n.m.state != Starting) }, occurs: exits,
			do: always(func(x *exploration, m *Machine, c Conditions) Transition { return m.Exited(end, c, x.rng) })})
	}
	for i := range 8 {
		end := RunEnd{Exit: Exit{Known: true}, Leftovers: i&1 != 0}
		if i&2 != 0 {
			end.Stable = testProgram().Backoff.ResetAfter
		}
		if i&4 == 0 {
			exit("success", end)
		} else {
			end.At = farBeyond
		}
		end.Exit.Code = 3
		exit("exit status 3", end)
	}
	exit("unknown", RunEnd{})
	exit("out of memory", RunEnd{Exit: Exit{Known: true, Signal: 9}, Note: Reason{ReasonOutOfMemory, "out of memory"}})
	add(op{name: "TornDown", reads: readsBlockers, possible: func(n *node) bool { return n.world.teardown },
		occurs: func(w *world) { w.teardown = false },
		do:     always(func(x *exploration, m *Machine, c Conditions) Transition { return m.TornDown(c, x.rng) })})
	add(op{name: "RestartDue", reads: readsBlockers, possible: func(n *node) bool { return n.world.restartTimer }, check: isOnItsWay,
		occurs: func(w *world) { w.restartTimer = false },
		do:     always(func(_ *exploration, m *Machine, c Conditions) Transition { return m.RestartDue(c) })})
	add(op{name: "WentToBackground", possible: func(n *node) bool { return n.m.exitReason.Kind == ReasonExited },
		do: func(_ *exploration, m *Machine, _ Conditions) (Transition, bool) {
			m.WentToBackground()
			return Transition{}, false
		}})
}

// quarantines adds what follows where superd was killed and its successor does not know what
// lives.
func quarantines(add func(op)) {
	add(op{name: "Quarantine", occurs: func(w *world) { *w = world{quarantined: true} },
		do: always(func(_ *exploration, m *Machine, _ Conditions) Transition {
			// What led to the run is not known any more: a key does not have it
			if !ended(m.state) && m.stateReason.Kind != ReasonQuarantined {
				m.outcome, m.notStarted, m.failed, m.resourceShortage = WantUp, false, false, false
			}
			return m.Quarantine(Reason{ReasonQuarantined, "7 is alive"})
		})})
	add(op{name: "QuarantineLifted", reads: readsAll, possible: func(n *node) bool { return n.world.quarantined },
		occurs: func(w *world) { w.quarantined = false },
		do: func(_ *exploration, m *Machine, c Conditions) (Transition, bool) {
			m.QuarantineLifted()
			if !m.desired.Up {
				return Transition{}, false
			}
			return m.WantUp(m.desired.By, false, c), true
		}})
	add(op{name: "EndQuarantine", possible: func(n *node) bool { return n.world.quarantined },
		occurs: func(w *world) { w.quarantined, w.run = false, true },
		do:     always(func(_ *exploration, m *Machine, _ Conditions) Transition { return m.EndQuarantine() })})
}
