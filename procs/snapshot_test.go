package procs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/journal"
	"superd/procs/schedule"
)

func TestMerge(t *testing.T) {
	record := func(state fsm.State, completed uint64, run *savedRun) *savedInstance {
		return &savedInstance{State: state.Name(), Outcome: fsm.RunEndedRetry.OutcomeName(), LastCompletedStart: completed, Run: run, FailureReason: fsm.ReasonUnhealthy.With("unhealthy").Snapshot()}
	}
	tests := []struct {
		name        string
		saved       *savedInstance
		startRecord *savedStart
		state       fsm.State
		main        bool // whether the start record is that of the main process
		hook        int  // hook of the start record; -1: none
		ended       bool
	}{
		{"no record, a main process", nil, &savedStart{Run: "a", number: 1}, fsm.Spawning, true, -1, false},
		{"its output was stored", record(fsm.Backoff, 0, nil), &savedStart{Run: "a", FDNames: [2]string{"7"}, number: 1}, fsm.Spawning, true, -1, false},
		{"a run that is not in the record", record(fsm.Backoff, 1, nil), &savedStart{Run: "b", number: 2}, fsm.Spawning, true, -1, false},
		{"a start that was recorded", record(fsm.Backoff, 2, nil), &savedStart{Run: "a", number: 2}, fsm.Backoff, false, -1, false},
		{"a hook before", record(fsm.Spawning, 1, &savedRun{ID: "a"}), &savedStart{Run: "a", Hook: new(1), number: 2}, fsm.Spawning, false, 1, false},
		{"the main process after the hooks", record(fsm.Spawning, 1, &savedRun{ID: "a", Hook: &savedHook{At: 1}}),
			&savedStart{Run: "a", number: 2}, fsm.Spawning, true, -1, false},
		{"a hook after, of a main process that seemed to run", record(fsm.Running, 1, &savedRun{ID: "a", Main: &savedProcess{Pid: 7}}),
			&savedStart{Run: "a", Hook: new(0), PostStop: true, number: 2}, fsm.Running, false, 0, true},
		{"a hook after", record(fsm.TearingDown, 1, &savedRun{ID: "a"}),
			&savedStart{Run: "a", Hook: new(0), PostStop: true, number: 2}, fsm.TearingDown, false, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := merge(tt.saved, tt.startRecord, true, 1)
			if v.State != tt.state.Name() {
				t.Errorf("state %s, want %s", v.State, tt.state.Name())
			}
			if tt.startRecord.FDNames[0] != "" && v.FDName != tt.startRecord.FDNames[0] {
				t.Errorf("the keeper has its output under %q, want %q", v.FDName, tt.startRecord.FDNames[0])
			}
			if own := tt.saved != nil && (v.Run == nil || tt.saved.Run != nil && tt.saved.Run.ID == v.Run.ID); own != (v.FailureReason != (fsm.SavedReason{})) {
				t.Errorf("failure reason %q; want it only in the run for which it is recorded", v.FailureReason)
			}
			r := v.Run
			if r == nil {
				r = &savedRun{}
			}
			hook := -1
			if r.Hook != nil {
				hook = r.Hook.At
			}
			if main := r.start != nil; main != tt.main || hook != tt.hook || r.ended != tt.ended {
				t.Errorf("start of the main process: %v, of hook %d, main process ended: %v; want %v, %d, %v", main, hook, r.ended, tt.main, tt.hook, tt.ended)
			}
		})
	}
}

// TestNewestConfiguration: the newest configuration with effects in the journal is active, whatever
// superd's own record says.
func TestNewestConfiguration(t *testing.T) {
	h := newHistory(1, defect{}, false)
	h.configs = []*config.Config{{}, {}, {}}
	tests := []struct {
		name                  string
		self                  string
		instance, startRecord int // numbers of their configurations; 0: none
		written               int // number of configurations
		config, before        uint64
	}{
		{"superd's own record is the newest", `{"config":2,"before":1}`, 1, 1, 2, 2, 1},
		{"an instance's is newer", `{"config":1}`, 2, 1, 2, 2, 1},
		{"a start record is newer", `{"config":1}`, 1, 2, 2, 2, 1},
		{"another reload was under way", `{"config":2,"before":1}`, 3, 0, 3, 3, 1},
		{"the newest is lost", `{"config":1}`, 2, 0, 1, 1, 0},
		{"no effect of the newest", `{"config":1}`, 1, 0, 2, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := map[string]json.RawMessage{superdKey: json.RawMessage(tt.self)}
			for i := range tt.written {
				values[configKey(uint64(i+1))] = fmt.Appendf(nil, "%d", i)
			}
			if tt.instance > 0 {
				values[instanceKey("web")] = fmt.Appendf(nil, `{"config":%d,"state":"stopped","outcome":"down"}`, tt.instance)
			}
			if tt.startRecord > 0 {
				values[startKey("web", 1)] = fmt.Appendf(nil, `{"config":%d}`, tt.startRecord)
			}
			r := ReadSnapshot(&journal.State{Existed: true, Values: values}, h.restore, slog.New(slog.DiscardHandler))
			if r.self.Config != tt.config || r.self.Before != tt.before || r.Config() != h.configs[tt.config-1] {
				t.Errorf("active is %d (%p) after %d, want %d after %d", r.self.Config, r.Config(), r.self.Before, tt.config, tt.before)
			}
		})
	}
}

// TestConfigurationIsWrittenFirst: a queued record is replaced by one that refers to the new
// configuration.
func TestConfigurationIsWrittenFirst(t *testing.T) {
	h := newHistory(1, defect{}, false)
	h.kernel.mix = faultMix{}
	before, after := programNamed("web", nil), programNamed("web", nil)
	after.Restart = config.RestartNever
	h.journal = newSimJournal(h, 0)
	h.journal.stall()
	h.file = &config.Config{Programs: []*config.Program{before}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	if !h.journal.queued(instanceKey("web")) {
		t.Fatal("no record of web waits to be written")
	}
	h.sup.reloads.compareAndApply(&config.Config{Programs: []*config.Program{after}})
	written := map[string]bool{}
	for _, e := range h.journal.queue {
		written[e.key] = true
		if v, ok := e.value.(*savedInstance); ok && !written[configKey(v.Config)] {
			t.Errorf("%s, by configuration %d, comes before that", e.key, v.Config)
		}
	}
}

// TestRecoveredRunFollowsStartRecord: superd was killed after a reload added readiness to web and
// web was started with it; the record of the instance is older.
func TestRecoveredRunFollowsStartRecord(t *testing.T) {
	before, after := programNamed("web", nil), programNamed("web", nil)
	after.Ready = &config.Ready{Notify: true}
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models = faultMix{}, map[string]*model{}
	h.kernel.registerSpawned("web", "a", roleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{before}}, {Programs: []*config.Program{after}}}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), configKey(1): json.RawMessage(`0`), configKey(2): json.RawMessage(`1`),
		instanceKey("web"): json.RawMessage(`{"config":1,"state":"stopped","outcome":"down","desired":{"up":true}}`),
		startKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}}
	o := h.options()
	o.Config, o.Resumed, o.Snapshot = h.configs[1], true, ReadSnapshot(state, h.restore, slog.New(slog.DiscardHandler))
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	if web := h.sup.registry.byName["web"]; web.machine.State() != fsm.Starting {
		t.Errorf("web is %v, want starting", web.machine.State().Name())
	}
}

// TestChecksAfterExitDoNotCount: superd learns late how a process that is not its child has exited.
// Checks that fail until then do not count.
func TestChecksAfterExitDoNotCount(t *testing.T) {
	web := programNamed("web", nil)
	web.Restart = config.RestartNever
	web.Health = &config.Health{TCP: "web", Interval: 200 * time.Millisecond, Timeout: time.Second, Failures: 1, Action: config.HealthRestart}
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models, h.kernel.keeper = faultMix{slowReap: 1}, map[string]*model{}, false
	main := h.kernel.registerSpawned("web", "a", roleMain)
	main.reparented, main.readyAt = true, h.v.Now()
	h.configs = []*config.Config{{Programs: []*config.Program{web}}}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":1,"begun":true}`), configKey(1): json.RawMessage(`0`),
		instanceKey("web"): json.RawMessage(`{"config":1,"state":"running","outcome":"retry","desired":{"up":true},"run":{"id":"a","ready_at":1,"main":{"pid":2,"start":1}}}`),
	}}
	o := h.options()
	o.Config, o.Resumed, o.Snapshot = h.configs[0], true, ReadSnapshot(state, h.restore, slog.New(slog.DiscardHandler))
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	h.v.RunFor(time.Minute)
	in := h.sup.registry.byName["web"]
	if in.machine.State() != fsm.Running || in.run.monitor.healthy() == nil || !*in.run.monitor.healthy() {
		t.Fatalf("web is %s, want it healthy", in.machine.State().Name())
	}
	main.end(pidfd.Exit{Known: true})
	h.v.RunFor(time.Minute)
	if m := &in.machine; m.State() != fsm.Failed || strings.Contains(m.StateReason().String(), "unhealthy") || h.err != nil {
		t.Errorf("web is %s: %s, %v; want that it exited by itself", m.State().Name(), m.StateReason(), h.err)
	}
}

// TestRecoveredStartWaitsForConflict: superd was killed after web was scaled, and the journal has
// only the processes of that. web, recorded as being started, waits until web@1 is removed.
func TestRecoveredStartWaitsForConflict(t *testing.T) {
	conf := &config.Config{Programs: []*config.Program{programNamed("web", nil)}}
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models = faultMix{}, map[string]*model{}
	h.kernel.registerSpawned("web@1", "b", roleMain)
	h.configs = []*config.Config{conf}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":1,"begun":true}`), configKey(1): json.RawMessage(`0`),
		instanceKey("web"):   json.RawMessage(`{"config":1,"state":"spawning","outcome":"retry","desired":{"up":true},"run":{"id":"a"}}`),
		instanceKey("web@1"): json.RawMessage(`{"config":1,"state":"running","outcome":"retry","desired":{"up":true},"run":{"id":"b","main":{"pid":2,"start":1}}}`),
	}}
	o := h.options()
	o.Config, o.Resumed, o.Snapshot = conf, true, ReadSnapshot(state, h.restore, slog.New(slog.DiscardHandler))
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	if web := h.sup.registry.byName["web"]; web.machine.State() != fsm.Waiting {
		t.Errorf("web is %v, want waiting", web.machine.State().Name())
	}
	h.v.RunFor(time.Minute)
	if web := h.sup.registry.byName["web"]; web.machine.State() != fsm.Running || len(h.sup.registry.instances) != 1 || h.err != nil {
		t.Errorf("web is %v in the end, with %d others, %v", web.machine.State().Name(), len(h.sup.registry.instances)-1, h.err)
	}
}

// TestJournalOfAnotherBoot: the journal of an earlier boot is ignored, and replaced by new records.
func TestJournalOfAnotherBoot(t *testing.T) {
	h := newHistory(1, defect{}, false)
	state := &journal.State{Existed: true, OtherBoot: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":1}`), configKey(1): json.RawMessage(`0`), instanceKey("gone"): json.RawMessage(`{"state":"running"}`),
		instanceKey("daily"): json.RawMessage(`{"state":"waiting","outcome":"none","schedule":{"line":"@daily","wall":"2026-01-01T00:00:00Z"}}`),
	}}
	v := loop.NewVirtual(1)
	o := h.options()
	o.Loop, o.Store = v.Loop, logs.NewStore(v.Loop, slog.New(slog.DiscardHandler))
	o.Config, o.Snapshot = &config.Config{}, ReadSnapshot(state, h.restore, slog.New(slog.DiscardHandler))
	j := newSimJournal(h, 0)
	for key, text := range state.Values {
		j.values[key] = text
	}
	o.Journal = j
	s := New(o)
	if err := s.Adopt(); err != nil {
		t.Fatal(err)
	}
	v.RunFor(1e9) // writes all
	h.v.RunFor(1e9)
	if saved := s.schedules.take("daily"); saved == nil || saved.Line != "@daily" || s.schedules.take("daily") != nil {
		t.Errorf("state of the schedule %v, want the known one, once", saved)
	}
	if len(s.registry.instances) > 0 || j.values[instanceKey("gone")] != nil {
		t.Errorf("instances %d, old record %s; want nothing", len(s.registry.instances), j.values[instanceKey("gone")])
	}
	if _, ok := j.values[superdKey].(*savedSuperd); !ok || j.values[configKey(s.config.number)] == nil {
		t.Errorf("in the journal: %v, want this superd's own records", j.values)
	}
}

// TestConfigurationBeforeIsGone: superd was killed while it removed old configurations. The newest
// one is active, and the others are removed.
func TestConfigurationBeforeIsGone(t *testing.T) {
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":6,"before":3}`), configKey(5): json.RawMessage(`5`), configKey(6): json.RawMessage(`6`),
	}}
	newest := &config.Config{}
	restore := func(archive []byte) (*config.Config, error) {
		if string(archive) == "6" {
			return newest, nil
		}
		return &config.Config{}, nil
	}
	r := ReadSnapshot(state, restore, slog.New(slog.DiscardHandler))
	if r.Config() != newest || r.oldest() != 6 || !slices.Contains(r.keys, configKey(5)) {
		t.Errorf("active %v, oldest %d, not needed %v; want the newest, 6, and configuration 5 among them",
			r.Config() == newest, r.oldest(), r.keys)
	}
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
		name                   string
		record, start, expects *schedule.State
	}{
		{"the start is newer", older, newer, newer},
		{"another time was due during the start", newer, older, newer},
		{"only the start record has it", nil, newer, newer},
		{"the instance's record is older, of the same turn", sooner, later, later},
		{"another time was due in the same turn", later, sooner, later},
		{"another time of a cron line was due in the same turn", midnight, noon, midnight},
	}
	for _, tt := range tests {
		v := &savedInstance{State: fsm.Waiting.Name(), Outcome: fsm.WantUp.OutcomeName(), Schedule: tt.record}
		start := &savedStart{Run: "run", Schedule: tt.start, number: 1}
		if got := merge(v, start, true, 1).Schedule; got != tt.expects {
			t.Errorf("%s: schedule %v, want %v", tt.name, got, tt.expects)
		}
	}
}
