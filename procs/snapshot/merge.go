package snapshot

import (
	"cmp"

	"superd/config"
	"superd/procs/fsm"
)

// A Merged is what is known of an instance: its record, completed by its newest start record.
type Merged struct {
	*Instance // may be the record in the snapshot: must not be changed

	// Its definition; nil: it is in no configuration
	Program *config.Program
	// Its start record, if the instance's record does not include that start. It started the hook
	// of the run, or else the main process
	Start *Start
	// The main process has ended, though the state says that it lives
	MainExited bool
}

// Merge returns what is known of the instance with that name, which is one of [Snapshot.Names].
// current is the configuration that stays active until [Snapshot.Config] is applied.
func (s *Snapshot) Merge(name string, current *config.Config) Merged {
	program := config.ProgramOf(name)
	m, start := Merged{Instance: s.Instances[name]}, s.Starts[name]
	// The configuration of the start; it may be missing
	var startConfig *config.Config
	if start != nil {
		startConfig = s.Configs[start.Config]
	}
	switch {
	case m.Instance != nil:
	case startConfig != nil:
		m.Instance = unrecorded(start.Config, startConfig.Program(program))
	default:
		m.Instance = unrecorded(s.Oldest(), current.Program(program))
	}
	if s.HasStart(name) {
		m.completeBy(*start)
	}
	if start != nil && start.Config > s.Superd.Config && m.Run != nil && m.Run.ID == start.Run {
		m.outdate() // it was started after a reload that the journal does not have
	}
	m.Program = cmp.Or(m.Definition, s.Definition(m.Config, name), current.Program(program))
	// If the instance's record is newer than the start, it has the definition of the run
	if m.Start != nil && m.Run.Definition == nil && start.Config > m.Config && startConfig != nil {
		if p := startConfig.Program(program); p != nil && p != m.Program {
			m.Run.Definition = WithoutMistakes(p)
		}
	}
	return m
}

// unrecorded returns the record of an instance that has none. Its definition, or nil, is of the
// configuration of that number.
func unrecorded(number uint64, p *config.Program) *Instance {
	v := &Instance{Config: number, State: fsm.Stopped.Name(), Outcome: fsm.WantUp.OutcomeName()}
	if p != nil && p.Autostart {
		v.Desired = fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot()
	}
	return v
}

// completeBy completes the record by a newer start record.
func (m *Merged) completeBy(start Start) {
	v, run := *m.Instance, Run{ID: start.Run}
	if v.Run != nil && v.Run.ID == start.Run {
		run = *v.Run
	} else { // the earlier run is over
		v.State, v.Due, v.RestartPending = fsm.Spawning.Name(), nil, false
		v.FailureReason = fsm.SavedReason{}
	}
	run.HadProcess = true
	v.Run, v.LastCompletedStart = &run, start.Number
	v.RunPending = true // without a schedule it has no effect
	if start.Schedule != nil && (v.Schedule == nil || !start.Schedule.Before(*v.Schedule)) {
		v.Schedule = start.Schedule // otherwise another time was due during the start
	}
	v.Output = true // the FIFO was created before
	v.FDName = cmp.Or(start.FDNames[0], v.FDName)
	v.StderrFDName = cmp.Or(start.FDNames[1], v.StderrFDName)
	if start.Hook == nil {
		run.PreStarted, run.Hook = true, nil
		run.Notify, run.Ready = start.Notify, start.Ready
	} else {
		run.Hook = &Hook{At: *start.Hook}
		if start.PostStop && v.State != fsm.TearingDown.Name() {
			v.State, m.MainExited = fsm.Running.Name(), true
		}
	}
	m.Instance, m.Start = &v, &start
}

// outdate marks the run as outdated.
func (m *Merged) outdate() {
	v, run := *m.Instance, *m.Run
	run.Outdated = true
	v.Run = &run
	m.Instance = &v
}

// Process returns the process of the run that may live: its hook, or else its main process. It is
// nil without one, and if no record has its pid: then Start says what to look for.
func (m *Merged) Process() *Process {
	if p := m.Instance.Process(); p != nil || m.Start == nil {
		return p
	}
	return m.Start.Process
}
