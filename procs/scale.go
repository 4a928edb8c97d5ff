package procs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/journal"
)

// A scale is the number of replicas that an operator has set. It is valid until the configuration's
// number changes.
type scale struct {
	Replicas   int `json:"replicas"`
	Configured int `json:"file"` // number in the configuration when the scale was set
}

const scalePrefix = "scale/"

// fits reports whether the scale is valid for that definition of its program.
func (v scale) fits(p *config.Program) bool { return p.Replicas == v.Configured && !namesLogFile(p) }

func scaleKey(program string) string { return scalePrefix + program }

// replicaCount returns how many instances the program has by scale or configuration, and whether
// they are numbered. A single one has no number, unless an operator has scaled the program.
func (s *Supervisor) replicaCount(program *config.Program) (replicas int, numbered bool) {
	if scaled, ok := s.scales[program.Name]; ok {
		return scaled.Replicas, true
	}
	return program.Replicas, program.Replicas != 1
}

// namesOf returns the names of the instances that the program has by scale or configuration.
func (s *Supervisor) namesOf(program *config.Program) []string {
	if n, numbered := s.replicaCount(program); numbered {
		return config.NumberedNames(program.Name, n)
	}
	return []string{program.Name}
}

// configured reports whether the program has that instance by scale or configuration.
func (s *Supervisor) configured(program *config.Program, instance string) bool {
	count, numbered := s.replicaCount(program)
	name, number, isNumbered := strings.Cut(instance, "@")
	if name != program.Name || isNumbered != numbered {
		return false
	}
	n, err := strconv.Atoi(number)
	return !numbered || err == nil && 1 <= n && n <= count && number == strconv.Itoa(n)
}

// desiredFor returns the desired state of a new instance of a program, derived from the existing
// ones: up if one of them is wanted up; down if an operator has stopped them; nil: that of the
// configuration.
func (s *Supervisor) desiredFor(program string) *target {
	var stopped *target
	for _, in := range s.registry.of(program) {
		switch desired := in.desired(); {
		case in.retiring && in.replacement == nil:
		case desired.up:
			return &desired
		case desired.by.is(ActorOperator):
			stopped = &desired
		}
	}
	return stopped
}

// desired returns the desired state of the instance, or of its replacement.
func (in *instance) desired() target {
	switch {
	case !in.retiring:
		return in.machine.desired
	case in.replacementTarget != nil:
		return *in.replacementTarget
	case in.replacement != nil && in.replacement.Autostart:
		return target{true, actor(ActorConfiguration)}
	}
	return target{}
}

// endsScale reports whether a change ends the operator's scale of a program.
func (s *Supervisor) endsScale(c *config.Change) bool {
	return c.Kind == config.ProgramRemoved || !s.scales[c.Name].fits(c.Program)
}

func (s *Supervisor) dropScale(program string) {
	if _, ok := s.scales[program]; ok {
		delete(s.scales, program)
		s.recorder.queue(scaleKey(program), nil)
	}
}

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

// replica returns the instance's number within its program; "1" if it has none.
func (in *instance) replica() string {
	if _, number, numbered := strings.Cut(in.name, "@"); numbered {
		return number
	}
	return "1"
}

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
			s.recorder.afterSaving(func(err error) {
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
		for _, in := range s.scale(s.config.active.Program(name), counts[name], scaled) {
			at := len(scaled.Instances)
			scaled.Instances = append(scaled.Instances, CommandResult{Name: in.name})
			op := OpStart
			switch {
			case in.retiring && in.replacement == nil:
				op = OpStop
			case !in.desired().up:
				scaled.Instances[at] = CommandResult{Name: in.name, OK: true, State: in.machine.state, Message: "not started: the other instances of its program are stopped"}
				continue
			}
			if !wait {
				scaled.Instances[at] = CommandResult{Name: in.name, OK: true, State: in.machine.state, Message: op.String() + " requested"}
				continue
			}
			remaining++
			in.waiters = append(in.waiters, &waiter{op: op, done: func(o CommandResult) {
				o.Name = in.name
				scaled.Instances[at] = o
				finishOne()
			}})
			in.answerWaiters()
		}
	}
	s.subscriptions.changed()
	s.scope.Post(finishOne)
	return func() { canceled = true }, nil
}

// scale scales a program and returns the instances that it creates or retires.
func (s *Supervisor) scale(program *config.Program, replicas int, result *ScaleResult) []*instance {
	before, numbered := s.replicaCount(program)
	*result = ScaleResult{Program: program.Name, From: before, To: replicas}
	if replicas == before {
		return nil
	}
	s.log.Info("program scaled", "program", program.Name, "from", before, "to", replicas,
		"by", actor(ActorOperator).String())
	s.recorder.record(because(byOperator(eventlog.Event{Kind: eventlog.Command, Program: program.Name}),
		Reason{ReasonRequestedScale, fmt.Sprintf("%s=%d", program.Name, replicas)}))
	desired := s.desiredFor(program.Name)
	if before == 0 {
		desired = &target{true, actor(ActorOperator)}
	}
	if numbered && replicas == program.Replicas && replicas != 1 {
		s.dropScale(program.Name)
	} else {
		scaled := scale{Replicas: replicas, Configured: program.Replicas}
		s.scales[program.Name] = scaled
		s.recorder.queue(scaleKey(program.Name), scaled)
	}
	var affected []*instance
	for _, in := range slices.Clone(s.registry.of(program.Name)) {
		if !s.configured(program, in.name) {
			if !in.retiring || in.replacement != nil {
				affected = append(affected, in)
			}
			in.retire(actor(ActorScale))
		}
	}
	for _, name := range s.namesOf(program) {
		if in := s.registry.byName[name]; in == nil || in.retiring {
			s.create(name, program, desired)
			if in := s.registry.byName[name]; in != nil {
				affected = append(affected, in)
			}
		}
	}
	s.endIfAllEnded()
	return affected
}

// scalings returns the desired number of replicas of each program.
func (s *Supervisor) scalings(wanted []Scaling) (map[string]int, error) {
	if s.shutdown != nil {
		return nil, &ScaleError{wanted[0].Name, "superd is shutting down"}
	}
	counts := map[string]int{}
	for _, w := range wanted {
		programs := s.selectPrograms(w.Name)
		if programName := programOf(w.Name); len(programs) == 0 && programName != w.Name && s.config.active.Program(programName) != nil {
			return nil, &ScaleError{w.Name, fmt.Sprintf("it is an instance: scale its program, as in %s=%d", programName, max(w.Replicas, 1))}
		}
		if len(programs) == 0 {
			return nil, &UnknownNameError{w.Name, s.selectableNames()}
		}
		for _, p := range programs {
			if n, twice := counts[p.Name]; twice && n != w.Replicas {
				return nil, &ScaleError{p.Name, fmt.Sprintf("both %d and %d replicas requested", n, w.Replicas)}
			}
			if why := s.scaleRefusal(p, w.Replicas); why != "" {
				return nil, &ScaleError{p.Name, why}
			}
			counts[p.Name] = w.Replicas
		}
	}
	return counts, nil
}

// scaleRefusal returns why a program can't have so many replicas; empty if it can.
func (s *Supervisor) scaleRefusal(p *config.Program, replicas int) string {
	switch now, _ := s.replicaCount(p); {
	case replicas < 0 || replicas > config.MaxReplicas:
		return fmt.Sprintf("the number of replicas must be from 0 to %d, got %d", config.MaxReplicas, replicas)
	case replicas == now:
	case len(p.Invalid) > 0:
		return "its configuration has a mistake: " + p.Invalid.Error()
	case namesLogFile(p) && replicas > 0:
		return fmt.Sprintf("%q would be the log file of several instances; without it each has <instance>.log", cmp.Or(p.Log.File, p.Log.StderrFile))
	}
	return ""
}

// selectPrograms returns the configured programs that a name, a group or a glob selects.
func (s *Supervisor) selectPrograms(name string) []*config.Program {
	if p := s.config.active.Program(name); p != nil {
		return []*config.Program{p}
	}
	var found []*config.Program
	for _, p := range s.config.active.Programs {
		if ok, err := path.Match(name, p.Name); ok && err == nil || slices.Contains(p.Groups, name) {
			found = append(found, p)
		}
	}
	return found
}

func (r *Snapshot) readScales(state *journal.State, log *slog.Logger) {
	r.scales = map[string]scale{}
	for key, text := range state.Values {
		name, ok := strings.CutPrefix(key, scalePrefix)
		if !ok {
			continue
		}
		var v scale
		if err := json.Unmarshal(text, &v); err != nil || v.Replicas < 0 || v.Replicas > config.MaxReplicas {
			r.keys = append(r.keys, key)
			log.Warn("journal record not understood: using the replicas of the configuration", "key", key, "error", err)
			continue
		}
		r.scales[name] = v
	}
}

// restoreScales restores the scales that are valid for the newest configuration.
func (s *Supervisor) restoreScales(r *Snapshot) {
	newest := cmp.Or(r.Config(), s.config.active)
	for name, scaled := range r.scales {
		if p := newest.Program(name); p != nil && scaled.fits(p) {
			s.scales[name] = scaled
		} else {
			s.recorder.queue(scaleKey(name), nil)
		}
	}
}

// removeAllSurplus retires the surplus instances that the predecessor has not retired. The
// predecessor may have activated several configurations, of which only two are compared at
// recovery.
func (s *Supervisor) removeAllSurplus() {
	for _, in := range slices.Clone(s.registry.instances) {
		switch p := s.config.active.Program(in.program.Name); {
		case in.retiring:
		case p == nil:
			in.retire(actor(ActorRemoval))
		case !s.configured(p, in.name):
			in.retire(actor(ActorScale))
		}
	}
}
