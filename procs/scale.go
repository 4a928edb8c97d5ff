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

// A scale is how many replicas of a program the operator wants. It holds until the configuration says another number of
// replicas than it said then.
type scale struct {
	Replicas int `json:"replicas"`
	File     int `json:"file"` // what the configuration says
}

const scalePrefix = "scale/"

// fits reports whether the scale holds for that table of its program.
func (v scale) fits(p *config.Program) bool { return p.Replicas == v.File && !namesLog(p) }

func scaleKey(program string) string { return scalePrefix + program }

// count returns how many instances a program is to have, and whether they have numbers: a single one has none, unless the
// operator has scaled the program.
func (s *Supervisor) count(program *config.Program) (replicas int, numbered bool) {
	if scaled, ok := s.scales[program.Name]; ok {
		return scaled.Replicas, true
	}
	return program.Replicas, program.Replicas != 1
}

// namesOf returns the names of the instances that a program is to have.
func (s *Supervisor) namesOf(program *config.Program) []string {
	if n, numbered := s.count(program); numbered {
		return config.NumberedNames(program.Name, n)
	}
	return []string{program.Name}
}

// has reports whether a program is to have an instance of that name.
func (s *Supervisor) has(program *config.Program, instance string) bool {
	count, numbered := s.count(program)
	name, number, isNumbered := strings.Cut(instance, "@")
	if name != program.Name || isNumbered != numbered {
		return false
	}
	n, err := strconv.Atoi(number)
	return !numbered || err == nil && 1 <= n && n <= count && number == strconv.Itoa(n)
}

// wishFor returns what is wanted of a further instance of a program, going by those that it has: up, if any of them is; down, if
// the operator holds them down. nil: what the configuration says.
func (s *Supervisor) wishFor(program string) *wish {
	var stopped *wish
	for _, in := range s.instancesOf(program) {
		switch w := in.wish(); {
		case in.removed && in.next == nil:
		case w.up:
			return &w
		case w.by == operator:
			stopped = &w
		}
	}
	return stopped
}

// wish returns what is wanted of the instance, or of the one that takes its place.
func (in *instance) wish() wish {
	switch {
	case !in.removed:
		return in.machine.wanted
	case in.nextWish != nil:
		return *in.nextWish
	case in.next != nil && in.next.Autostart:
		return wish{true, theConfiguration}
	}
	return wish{}
}

// endsScale reports whether the operator's scale of a program, if there is one, doesn't hold any more after a change.
func (s *Supervisor) endsScale(c *config.Change) bool {
	return c.Kind == config.ProgramRemoved || !s.scales[c.Name].fits(c.Program)
}

func (s *Supervisor) dropScale(program string) {
	if _, ok := s.scales[program]; ok {
		delete(s.scales, program)
		s.queue(scaleKey(program), nil)
	}
}

// A Scaling is how many replicas are wanted of what the name stands for: a program, a group, or a glob.
type Scaling struct {
	Name     string
	Replicas int
}

// A Scaled tells what became of a [Scaling] for one program.
type Scaled struct {
	Program   string
	From, To  int       // instances
	Instances []Outcome // of those that come or leave
}

// A ScaleError is a scale that can't be had.
type ScaleError struct{ Program, Why string }

func (e *ScaleError) Error() string { return fmt.Sprintf("scale %s: %s", e.Program, e.Why) }

// Scale has programs have so many instances. Only the difference is started, or stopped, beginning with the highest numbers. All
// of it can be had, or nothing is done. With wait, done runs when those that are started run or can't, and those that are stopped are
// down; without, at once; in any case on the loop, not before Scale has returned. After cancel it doesn't run any more.
func (s *Supervisor) Scale(wanted []Scaling, wait bool, done func([]Scaled)) (cancel func(), err error) {
	counts, err := s.scalings(wanted)
	if err != nil {
		return nil, err
	}
	all := make([]Scaled, 0, len(counts))
	left, canceled := 1, false
	settle := func() {
		if left--; left == 0 {
			s.afterSaving(func() {
				if !canceled {
					done(all)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, Scaled{})
		scaled := &all[len(all)-1] // there is room for all: they stay where they are
		for _, in := range s.scale(s.config.Program(name), counts[name], scaled) {
			at := len(scaled.Instances)
			scaled.Instances = append(scaled.Instances, Outcome{Name: in.name})
			op := OpStart
			switch {
			case in.removed && in.next == nil:
				op = OpStop
			case !in.wish().up:
				scaled.Instances[at] = Outcome{Name: in.name, OK: true, State: in.machine.state, Message: "not started, as the others of its program are stopped"}
				continue
			}
			if !wait {
				scaled.Instances[at] = Outcome{Name: in.name, OK: true, State: in.machine.state, Message: "asked to " + op.String()}
				continue
			}
			left++
			in.waiters = append(in.waiters, &waiter{op: op, done: func(o Outcome) {
				o.Name = in.name
				scaled.Instances[at] = o
				settle()
			}})
			in.settleWaiters()
		}
	}
	s.changed()
	s.scope.Post(settle)
	return func() { canceled = true }, nil
}

// scale has a program have so many instances and returns those that come or leave.
func (s *Supervisor) scale(program *config.Program, replicas int, told *Scaled) []*instance {
	before, numbered := s.count(program)
	*told = Scaled{Program: program.Name, From: before, To: replicas}
	if replicas == before {
		return nil
	}
	s.log.Info("program scaled", "program", program.Name, "from", before, "to", replicas, "by", operator)
	s.record(eventlog.Event{Kind: eventlog.Command, Program: program.Name, By: operator, Reason: fmt.Sprintf("scale %s=%d", program.Name, replicas)})
	w := s.wishFor(program.Name)
	if before == 0 {
		w = &wish{true, operator}
	}
	if numbered && replicas == program.Replicas && replicas != 1 {
		s.dropScale(program.Name)
	} else {
		scaled := scale{Replicas: replicas, File: program.Replicas}
		s.scales[program.Name] = scaled
		s.queue(scaleKey(program.Name), scaled)
	}
	var touched []*instance
	for _, in := range slices.Clone(s.instancesOf(program.Name)) {
		if !s.has(program, in.name) {
			if !in.removed || in.next != nil {
				touched = append(touched, in)
			}
			in.leave(operator + ": scaled")
		}
	}
	for _, name := range s.namesOf(program) {
		if in := s.byName[name]; in == nil || in.removed {
			s.bring(name, program, w)
			if in := s.byName[name]; in != nil {
				touched = append(touched, in)
			}
		}
	}
	s.endIfAllEnded()
	return touched
}

// scalings returns how many replicas are wanted of each program.
func (s *Supervisor) scalings(wanted []Scaling) (map[string]int, error) {
	if s.shutdown != nil {
		return nil, &ScaleError{wanted[0].Name, "superd is shutting down"}
	}
	counts := map[string]int{}
	for _, w := range wanted {
		programs := s.selectPrograms(w.Name)
		if programName := programOf(w.Name); len(programs) == 0 && programName != w.Name && s.config.Program(programName) != nil {
			return nil, &ScaleError{w.Name, fmt.Sprintf("it is an instance: scale its program, as in %s=%d", programName, max(w.Replicas, 1))}
		}
		if len(programs) == 0 {
			return nil, &UnknownNameError{w.Name, s.names()}
		}
		for _, p := range programs {
			if n, twice := counts[p.Name]; twice && n != w.Replicas {
				return nil, &ScaleError{p.Name, fmt.Sprintf("both %d and %d replicas are asked for", n, w.Replicas)}
			}
			if why := s.refusesScale(p, w.Replicas); why != "" {
				return nil, &ScaleError{p.Name, why}
			}
			counts[p.Name] = w.Replicas
		}
	}
	return counts, nil
}

// refusesScale returns why a program can't have so many replicas; empty if it can.
func (s *Supervisor) refusesScale(p *config.Program, replicas int) string {
	switch now, _ := s.count(p); {
	case replicas < 0 || replicas > config.MaxReplicas:
		return fmt.Sprintf("the number of replicas must be from 0 to %d, got %d", config.MaxReplicas, replicas)
	case replicas == now:
	case len(p.Invalid) > 0:
		return "its configuration has a mistake: " + p.Invalid.Error()
	case namesLog(p) && replicas > 0:
		return fmt.Sprintf("%q would be the log file of several instances: leave it out, and each has <instance>.log", cmp.Or(p.Log.File, p.Log.StderrFile))
	}
	return ""
}

// selectPrograms returns the programs of the configuration that a name stands for: its own, that of a group, or a glob.
func (s *Supervisor) selectPrograms(name string) []*config.Program {
	if p := s.config.Program(name); p != nil {
		return []*config.Program{p}
	}
	var found []*config.Program
	for _, p := range s.config.Programs {
		if ok, err := path.Match(name, p.Name); ok && err == nil || slices.Contains(p.Groups, name) {
			found = append(found, p)
		}
	}
	return found
}

// readScales decodes the operator's scales.
func (r *Recovery) readScales(state *journal.State, log *slog.Logger) {
	r.scales = map[string]scale{}
	for key, text := range state.Values {
		name, ok := strings.CutPrefix(key, scalePrefix)
		if !ok {
			continue
		}
		var v scale
		if err := json.Unmarshal(text, &v); err != nil || v.Replicas < 0 || v.Replicas > config.MaxReplicas {
			r.keys = append(r.keys, key)
			log.Warn("record of the journal not understood: the configuration says how many replicas there are", "key", key, "error", err)
			continue
		}
		r.scales[name] = v
	}
}

// restoreScales has those scales hold on that fit the newest configuration.
func (s *Supervisor) restoreScales(r *Recovery) {
	newest := cmp.Or(r.Config(), s.config)
	for name, scaled := range r.scales {
		if p := newest.Program(name); p != nil && scaled.fits(p) {
			s.scales[name] = scaled
		} else {
			s.queue(scaleKey(name), nil)
		}
	}
}

// dropSurplus has those instances leave that are too many: the superd before has not come to it.
func (s *Supervisor) dropSurplus() {
	for _, in := range slices.Clone(s.instances) {
		if p := s.config.Program(in.program.Name); p != nil && !in.removed && !s.has(p, in.name) {
			in.leave(operator + ": scaled")
		}
	}
}
