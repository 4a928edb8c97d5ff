package snapshot

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/schedule"
)

// oneInstance returns a snapshot with records of one instance, web; each may be nil.
func oneInstance(v *Instance, start *Start) *Snapshot {
	s := &Snapshot{Superd: Superd{Config: 1}, Configs: map[uint64]*config.Config{}}
	if v != nil {
		s.Instances = map[string]*Instance{"web": v}
	}
	if start != nil {
		s.Starts = map[string]*Start{"web": start}
	}
	return s
}

// webConfig returns a configuration with the program web, and that program.
func webConfig() (*config.Config, *config.Program) {
	web := config.DefaultProgram("web")
	return &config.Config{Programs: []*config.Program{web}}, web
}

func TestMerge(t *testing.T) {
	record := func(state fsm.State, completed uint64, run *Run) *Instance {
		return &Instance{Config: 1, State: state.Name(), Outcome: fsm.RunEndedRetry.OutcomeName(), Due: new(time.Hour),
			LastCompletedStart: completed, Run: run, FailureReason: fsm.Reason{Kind: fsm.ReasonUnhealthy, Detail: "unhealthy"}.Snapshot()}
	}
	tests := []struct {
		name    string
		saved   *Instance
		start   *Start
		state   fsm.State
		started bool // whether the start record counts
		hook    int  // index of the current hook; -1: none
		ended   bool // whether the main process has ended
	}{
		{"no record, a main process", nil, &Start{Run: "a", Number: 1}, fsm.Spawning, true, -1, false},
		{"its output was stored", record(fsm.Backoff, 0, nil), &Start{Run: "a", FDNames: [2]string{"7"}, Number: 1}, fsm.Spawning, true, -1, false},
		{"a run that is not in the record", record(fsm.Backoff, 1, nil), &Start{Run: "b", Number: 2}, fsm.Spawning, true, -1, false},
		{"a start that was recorded", record(fsm.Backoff, 2, nil), &Start{Run: "a", Number: 2}, fsm.Backoff, false, -1, false},
		{"no start record", record(fsm.Backoff, 2, nil), nil, fsm.Backoff, false, -1, false},
		{"a hook before", record(fsm.Spawning, 1, &Run{ID: "a"}), &Start{Run: "a", Hook: new(1), Number: 2}, fsm.Spawning, true, 1, false},
		{"the main process after the hooks", record(fsm.Spawning, 1, &Run{ID: "a", Hook: &Hook{At: 1}}),
			&Start{Run: "a", Notify: "8", Ready: "9", Number: 2}, fsm.Spawning, true, -1, false},
		{"a hook after, of a main process that seemed to run", record(fsm.Running, 1, &Run{ID: "a", Main: &Process{Pid: 7}}),
			&Start{Run: "a", Hook: new(0), PostStop: true, Number: 2}, fsm.Running, true, 0, true},
		{"a hook after", record(fsm.TearingDown, 1, &Run{ID: "a"}),
			&Start{Run: "a", Hook: new(0), PostStop: true, Number: 2}, fsm.TearingDown, true, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := encode(t, tt.saved)
			conf, _ := webConfig()
			s := oneInstance(tt.saved, tt.start)
			m := s.Merge("web", conf)
			if m.State != tt.state.Name() || m.MainExited != tt.ended {
				t.Errorf("state %s, main process ended: %v; want %s, %v", m.State, m.MainExited, tt.state.Name(), tt.ended)
			}
			if (m.Start != nil) != tt.started || s.HasStart("web") != tt.started {
				t.Errorf("start %+v, HasStart %v, want %v", m.Start, s.HasStart("web"), tt.started)
			}
			if hook := hookOf(m.Run); hook != tt.hook {
				t.Errorf("hook %d, want %d", hook, tt.hook)
			}
			if tt.started {
				checkApplied(t, m, tt.saved, tt.start)
			}
			if after := encode(t, tt.saved); after != before {
				t.Errorf("the record has become\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// checkApplied checks what each start record changes.
func checkApplied(t *testing.T, m Merged, saved *Instance, start *Start) {
	t.Helper()
	if !m.Output || m.FDName != start.FDNames[0] || m.LastCompletedStart != start.Number || !m.Run.HadProcess {
		t.Errorf("output %v under %q, completed start %d, had process %v", m.Output, m.FDName, m.LastCompletedStart, m.Run.HadProcess)
	}
	if start.Hook == nil && (!m.Run.PreStarted || m.Run.Notify != start.Notify || m.Run.Ready != start.Ready) {
		t.Errorf("pre_start over: %v, notify %q, ready %q; want those of the start", m.Run.PreStarted, m.Run.Notify, m.Run.Ready)
	}
	sameRun := saved != nil && saved.Run != nil && saved.Run.ID == m.Run.ID
	if sameRun != (m.FailureReason != fsm.SavedReason{}) || sameRun != (m.Due != nil) {
		t.Errorf("failure reason %q, due %v; want them only in the run for which they are recorded", m.FailureReason, m.Due)
	}
}

func encode(t *testing.T, v *Instance) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func hookOf(r *Run) int {
	if r == nil || r.Hook == nil {
		return -1
	}
	return r.Hook.At
}

// TestStartRecordHasSchedule: a start record has the progress of the schedule, which counts if it
// is newer than that of the instance.
func TestStartRecordHasSchedule(t *testing.T) {
	older, newer := &schedule.State{Boot: time.Minute}, &schedule.State{Boot: time.Hour}
	sooner := &schedule.State{Boot: time.Hour, Grid: 2 * time.Hour}
	later := &schedule.State{Boot: time.Hour, Grid: 3 * time.Hour}
	noon := &schedule.State{Boot: time.Hour, HandledUntil: time.Unix(43200, 0)}
	midnight := &schedule.State{Boot: time.Hour, HandledUntil: time.Unix(86400, 0)}
	tests := []struct {
		name                string
		record, start, want *schedule.State
	}{
		{"the start is newer", older, newer, newer},
		{"another time was due during the start", newer, older, newer},
		{"only the start record has it", nil, newer, newer},
		{"the instance's record is older, of the same turn", sooner, later, later},
		{"another time was due in the same turn", later, sooner, later},
		{"another time of a cron line was due in the same turn", midnight, noon, midnight},
	}
	for _, tt := range tests {
		v := &Instance{State: fsm.Waiting.Name(), Outcome: fsm.WantUp.OutcomeName(), Schedule: tt.record}
		s := oneInstance(v, &Start{Run: "run", Schedule: tt.start, Number: 1})
		if got := s.Merge("web", &config.Config{}).Schedule; got != tt.want {
			t.Errorf("%s: schedule %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMergedDefinition: an instance has the definition of its own record, else that of the
// configuration in it, else the current one. A newer run has that of its start.
func TestMergedDefinition(t *testing.T) {
	old, oldWeb := webConfig()
	next, nextWeb := webConfig()
	own := config.DefaultProgram("web")
	both := map[uint64]*config.Config{1: old, 2: next}
	nextWeb.Autostart = !oldWeb.Autostart
	stopped := func(number uint64, p *config.Program) *Instance {
		return &Instance{Config: number, Definition: p, State: fsm.Stopped.Name(), Outcome: fsm.WantUp.OutcomeName()}
	}
	tests := []struct {
		name        string
		configs     map[uint64]*config.Config
		record      *Instance
		start       *Start
		program     *config.Program
		run         *config.Program // recorded for the run; nil: none
		outdated    bool
		desiredUpBy *config.Program // its autostart is the desired state; nil: down
	}{
		{"its own", both, stopped(1, own), nil, own, nil, false, nil},
		{"of its configuration", both, stopped(2, nil), nil, nextWeb, nil, false, nil},
		{"its configuration is gone", map[uint64]*config.Config{2: next}, stopped(1, nil), nil, nextWeb, nil, false, nil},
		{"no configuration is known", nil, stopped(1, nil), nil, oldWeb, nil, false, nil},
		{"a start alone", both, nil, &Start{Run: "a", Config: 2, Number: 1}, nextWeb, nil, false, nextWeb},
		{"a start alone, no configuration", both, nil, &Start{Run: "a", Config: 3, Number: 1}, oldWeb, nil, true, oldWeb},
		{"a start by the next configuration", both, stopped(1, nil), &Start{Run: "a", Config: 2, Number: 1}, oldWeb, nextWeb, false, nil},
		{"a start by the one that is left", map[uint64]*config.Config{2: next}, stopped(1, nil), &Start{Run: "a", Config: 2, Number: 1}, nextWeb, nil, false, nil},
		{"a start before the record", both, stopped(2, own), &Start{Run: "a", Config: 1, Number: 1}, own, nil, false, nil},
		{"a start by one that is lost", both, stopped(1, nil), &Start{Run: "a", Config: 3, Number: 1}, oldWeb, nil, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := oneInstance(tt.record, tt.start)
			s.Configs, s.Superd = tt.configs, Superd{Config: 2, Before: 1}
			m := s.Merge("web", old)
			if m.Program != tt.program {
				t.Errorf("the definition is %p, want %p", m.Program, tt.program)
			}
			if run := m.RunDefinition(nil); (run == nil) != (tt.run == nil) || run != nil && !reflect.DeepEqual(run, tt.run) {
				t.Errorf("the run has %+v, want %+v", run, tt.run)
			}
			if outdated := m.Machine().Outdated; outdated != tt.outdated {
				t.Errorf("outdated %v, want %v", outdated, tt.outdated)
			}
			if up := tt.desiredUpBy != nil && tt.desiredUpBy.Autostart; m.Desired.Up != up {
				t.Errorf("wanted up: %v, want %v", m.Desired.Up, up)
			}
		})
	}
}

// TestCompletedStartOfLostConfiguration: a run is outdated if its start names a configuration that
// the journal does not have, even if the instance's record includes the start.
func TestCompletedStartOfLostConfiguration(t *testing.T) {
	record := &Instance{Config: 3, State: fsm.Running.Name(), Outcome: fsm.WantUp.OutcomeName(), LastCompletedStart: 1, Run: &Run{ID: "a", Main: &Process{Pid: 2}}}
	m := oneInstance(record, &Start{Run: "a", Config: 3, Number: 1}).Merge("web", &config.Config{})
	if !m.Run.Outdated || m.Start != nil || record.Run.Outdated {
		t.Errorf("outdated %v, start %v, in the record outdated %v; want true, none, false", m.Run.Outdated, m.Start, record.Run.Outdated)
	}
}

// TestProgramInNoConfiguration: an instance whose program nothing has is known without a
// definition.
func TestProgramInNoConfiguration(t *testing.T) {
	s := oneInstance(nil, &Start{Run: "a", Config: 1, Number: 1})
	if m := s.Merge("web", &config.Config{}); m.Program != nil || m.Desired.Up || m.State != fsm.Spawning.Name() {
		t.Errorf("definition %v, wanted up %v, state %s; want none, down, spawning", m.Program, m.Desired.Up, m.State)
	}
}

// TestMergedProcess: the process is that of the record, else that of the start record.
func TestMergedProcess(t *testing.T) {
	main := &Process{Pid: 2}
	running := &Instance{State: fsm.Running.Name(), Outcome: fsm.WantUp.OutcomeName(), Run: &Run{ID: "a", Main: main}}
	tests := []struct {
		name   string
		record *Instance
		start  *Start
		pid    int // 0: no process is known
	}{
		{"of the record", running, nil, 2},
		{"of a start", nil, &Start{Run: "a", Process: &Process{Pid: 3}, Number: 1}, 3},
		{"of a start without a pid", nil, &Start{Run: "a", Number: 1}, 0},
		{"of a hook after the run", running, &Start{Run: "a", Hook: new(0), PostStop: true, Process: &Process{Pid: 4}, Number: 1}, 4},
		{"of another run", running, &Start{Run: "b", Process: &Process{Pid: 5}, Number: 1}, 5},
	}
	for _, tt := range tests {
		m := oneInstance(tt.record, tt.start).Merge("web", &config.Config{})
		pid := 0
		if p := m.Process(); p != nil {
			pid = p.Pid
		}
		if pid != tt.pid {
			t.Errorf("%s: pid %d, want %d", tt.name, pid, tt.pid)
		}
	}
}
