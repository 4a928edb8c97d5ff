package procs

import (
	"fmt"
	"maps"
	"slices"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/reconcile"
	"superd/procs/selection"
	"superd/procs/snapshot"
)

// A Scaling is a desired number of replicas. Name is a program, a group or a glob.
type Scaling struct {
	Name     string
	Replicas int
}

// A ScaleResult is the result of a [Scaling] for one program.
type ScaleResult struct {
	Program   string
	From, To  int             // numbers of instances
	Instances []CommandResult // instances created or removed

	Unrecorded error // why the scale is not in the journal; nil: it is
}

// A ScaleError reports a scale that superd refuses.
type ScaleError struct{ Program, Why string }

func (e *ScaleError) Error() string { return fmt.Sprintf("scale %s: %s", e.Program, e.Why) }

// Scale sets the number of replicas of programs. It starts or stops only the difference; the
// highest numbers are stopped first. If superd refuses any of the scalings, it does nothing.
//
// With wait, done runs when the started instances run or have failed and the stopped ones are down;
// without, as soon as the journal is written. done runs on the loop, after Scale has returned, and
// never after cancel.
func (s *Supervisor) Scale(wanted []Scaling, wait bool, done func([]ScaleResult)) (cancel func(), err error) {
	counts, err := s.scalings(wanted)
	if err != nil {
		return nil, err
	}
	all := make([]ScaleResult, 0, len(counts))
	remaining, canceled := 1, false
	finishOne := func() {
		if remaining--; remaining == 0 {
			s.recorder.AfterSaving(func(err error) {
				for i := range all {
					all[i].Unrecorded = err
				}
				if !canceled {
					done(all)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, ScaleResult{})
		scaled := &all[len(all)-1] // stays valid: the slice has capacity for all
		for _, in := range s.replicas.scale(s.config.active.Program(name), counts[name], scaled) {
			at := len(scaled.Instances)
			scaled.Instances = append(scaled.Instances, CommandResult{Name: in.Name})
			op := OpStart
			switch {
			case !in.Membership.Stays():
				op = OpStop
			case !s.replicas.desired(in).Up:
				scaled.Instances[at] = CommandResult{Name: in.Name, OK: true, State: in.Machine.State(), Message: "not started: the other instances of its program are stopped"}
				continue
			}
			if !wait {
				scaled.Instances[at] = CommandResult{Name: in.Name, OK: true, State: in.Machine.State(), Message: op.String() + " requested"}
				continue
			}
			remaining++
			s.waiters.Add(in, &reconcile.Waiter{Op: op, Done: func(o CommandResult) {
				o.Name = in.Name
				scaled.Instances[at] = o
				finishOne()
			}})
		}
	}
	s.subscriptions.Changed()
	s.Scope.Post(finishOne)
	return func() { canceled = true }, nil
}

// scale scales a program and returns the instances that it creates or retires.
func (r *replicas) scale(program *config.Program, replicas int, result *ScaleResult) []*instance.Instance {
	before, numbered := r.count(program)
	*result = ScaleResult{Program: program.Name, From: before, To: replicas}
	if replicas == before {
		return nil
	}
	r.Log.Info("program scaled", "program", program.Name, "from", before, "to", replicas,
		"by", fsm.By(fsm.ActorOperator).String())
	r.recorder.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command, Program: program.Name}),
		fsm.ReasonRequestedScale.With(fmt.Sprintf("%s=%d", program.Name, replicas))))
	desired := r.desiredFor(program.Name)
	if before == 0 {
		desired = &fsm.Target{Up: true, By: fsm.By(fsm.ActorOperator)}
	}
	if numbered && replicas == program.Replicas && replicas != 1 {
		r.dropScale(program.Name)
	} else {
		scaled := snapshot.Scale{Replicas: replicas, Configured: program.Replicas}
		r.scales[program.Name] = scaled
		r.recorder.Queue(snapshot.ScaleKey(program.Name), scaled)
	}
	retired := r.removeSurplus(program, fsm.By(fsm.ActorScale))
	created := r.createMissing(program, desired)
	r.exitPolicy.endIfAllEnded()
	return slices.Concat(retired, created)
}

// scalings returns the desired number of replicas of each program.
func (s *Supervisor) scalings(wanted []Scaling) (map[string]int, error) {
	if s.shutdown.begun {
		return nil, &ScaleError{wanted[0].Name, "superd is shutting down"}
	}
	counts := map[string]int{}
	for _, w := range wanted {
		programs := selection.Programs(s.config.active, w.Name)
		if programName := config.ProgramOf(w.Name); len(programs) == 0 && programName != w.Name && s.config.active.Program(programName) != nil {
			return nil, &ScaleError{w.Name, fmt.Sprintf("it is an instance: scale its program, as in %s=%d", programName, max(w.Replicas, 1))}
		}
		if len(programs) == 0 {
			return nil, &selection.UnknownNameError{Name: w.Name, Known: s.selector.Known()}
		}
		for _, p := range programs {
			if n, twice := counts[p.Name]; twice && n != w.Replicas {
				return nil, &ScaleError{p.Name, fmt.Sprintf("both %d and %d replicas requested", n, w.Replicas)}
			}
			if why := s.rolls.text(p.Name); why != "" {
				return nil, &ScaleError{p.Name, why}
			}
			if why := s.replicas.refusal(p, w.Replicas); why != "" {
				return nil, &ScaleError{p.Name, why}
			}
			counts[p.Name] = w.Replicas
		}
	}
	return counts, nil
}

// refusal returns why a program can't have so many replicas; empty if it can.
func (r *replicas) refusal(p *config.Program, replicas int) string {
	if now, _ := r.count(p); replicas == now && !p.Accepts() {
		return ""
	}
	return p.RefuseReplicas(replicas)
}
