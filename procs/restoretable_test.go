package procs

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// An adoptRecorder is a simulated host that records the processes to adopt.
type adoptRecorder struct {
	*hosttest.Kernel
	all []*host.RecoveredProcess
}

func (a *adoptRecorder) Adopt(all []*host.RecoveredProcess) {
	a.all = all
	a.Kernel.Adopt(all)
}

// adoptFrom starts a superd from a journal, with the processes of that.
func (h *history) adoptFrom(t *testing.T, state *journal.State) *adoptRecorder {
	t.Helper()
	o := h.options()
	kernel := &adoptRecorder{Kernel: h.kernel}
	o.Host = kernel
	o.Predecessor.Resumed, o.Predecessor.Snapshot = true, snapshot.Read(state, h.restore)
	if len(h.configs) > 0 {
		o.Config = h.configs[len(h.configs)-1]
	}
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	return kernel
}

// TestRecoveredStreamsFollowStartRecord: superd was killed after a start with a new definition,
// before the instance's record had that.
func TestRecoveredStreamsFollowStartRecord(t *testing.T) {
	before := programNamed("web", func(p *config.Program) { p.Log.Stderr = config.StderrMerge })
	after := programNamed("web", func(p *config.Program) { p.Log.Stderr = config.StderrSeparate })
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{before}}, {Programs: []*config.Program{after}}}
	kernel := h.adoptFrom(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.ConfigKey(2): json.RawMessage(`1`),
		snapshot.InstanceKey("web"): json.RawMessage(`{"config":1,"state":"stopped","outcome":"down","desired":{"up":true}}`),
		snapshot.StartKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}})
	taken := map[logs.Stream]bool{}
	for _, o := range kernel.all[0].Outputs {
		taken[o.Stream] = true
	}
	if !taken[logs.Stdout] || !taken[logs.Stderr] {
		t.Errorf("recovered streams: %v, want both", taken)
	}
}

// TestProcessOfAddedProgramIsAdopted: superd was killed after it started a program that a reload
// added, before the instance had a record.
func TestProcessOfAddedProgramIsAdopted(t *testing.T) {
	web, db := programNamed("web", nil), programNamed("db", nil)
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{db}}, {Programs: []*config.Program{db, web}}}
	h.adoptFrom(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.ConfigKey(2): json.RawMessage(`1`),
		snapshot.StartKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}})
	h.v.RunFor(time.Minute)
	if in := inspect(h.sup).instance("web"); in.state() != fsm.Running || in.pid() != 2 {
		t.Errorf("web is %v with pid %d, want running with pid 2, as before", in.state(), in.pid())
	}
}

// TestRecoveredRunKeepsLogAndLimits: a run that began with an earlier definition keeps its log and
// its limits, even after a kill of superd.
func TestRecoveredRunKeepsLogAndLimits(t *testing.T) {
	scheduled := func(file string, format config.LogFormat, tasks int64) *config.Program {
		return programNamed("web", func(p *config.Program) {
			p.Log.File, p.Log.Format, p.Limits.Tasks = file, format, &tasks
			p.Type, p.Restart, p.Schedule = config.TypeOneshot, config.RestartNever, "@every 1h"
		})
	}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.file = &config.Config{Programs: []*config.Program{scheduled("/old.log", config.LogRaw, 500)}}
	h.configs = nil
	h.journal.writeDelay = 0
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(61 * time.Minute)
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{scheduled("/new.log", config.LogJSON, 3)}})
	h.v.RunFor(time.Second)
	if in := inspect(h.sup).instance("web"); !in.Run().Exists() || in.Run().Program() == in.program() {
		t.Fatalf("web is %v, want running by its first definition", in.state())
	}
	state, _ := h.journal.end()
	values := h.journal.values
	inspect(h.sup).kill()
	h.kernel.KillSupervisor()
	h.journal = newSimJournal(h, 0)
	h.journal.values = values
	h.configs = h.configs[:len(h.configs):len(h.configs)]
	kernel := h.adoptFrom(t, state)
	if path := inspect(h.sup).instance("web").logPath(); path != "/old.log" {
		t.Errorf("its log is %s, want /old.log", path)
	}
	if tasks := *kernel.all[0].Program.Limits.Tasks; tasks != 500 {
		t.Errorf("its limit is %d tasks, want 500", tasks)
	}
}

// TestStartInNoConfiguration: the journal has a start, or a quarantined instance, of a program that
// is in no configuration. It is not started with default settings, which have no command.
func TestStartInNoConfiguration(t *testing.T) {
	records := map[string]string{
		"started": `{"config":1,"state":"spawning","outcome":"retry","desired":{"up":true},"run":{"id":"a"}}`,
		"ready":   `{"config":1,"state":"spawning","outcome":"retry","desired":{"up":true},"run":{"id":"a","pre_started":true}}`,
		"held":    `{"config":1,"state":"stopped","quarantined":true,"outcome":"retry","desired":{"up":true}}`,
	}
	for name, record := range records {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1, defect{}, false)
			h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
			h.configs = []*config.Config{{Programs: []*config.Program{programNamed("db", nil)}}}
			h.adoptFrom(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
				snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`),
				snapshot.InstanceKey("web"): json.RawMessage(record),
			}})
			h.v.RunFor(time.Minute)
			if in := inspect(h.sup).instance("web"); in.exists() || h.kernel.MainsStarted("web") != 0 || h.err != nil {
				t.Errorf("web exists: %v, started %d times, %v; want it removed", in.exists(), h.kernel.MainsStarted("web"), h.err)
			}
		})
	}
}

// TestProgramInNoConfigurationIsRetired: one reload added a program and the next removed it, and
// superd was killed before that was recorded.
func TestProgramInNoConfigurationIsRetired(t *testing.T) {
	web, db := programNamed("web", nil), programNamed("db", nil)
	without := &config.Config{Programs: []*config.Program{db}}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	h.configs = []*config.Config{without, {Programs: []*config.Program{db, web}}, {Programs: []*config.Program{db}}}
	h.adoptFrom(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey:    json.RawMessage(`{"config":3,"before":1,"begun":true}`),
		snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.ConfigKey(2): json.RawMessage(`1`), snapshot.ConfigKey(3): json.RawMessage(`2`),
		snapshot.InstanceKey("web"): json.RawMessage(`{"config":2,"state":"running","outcome":"retry","desired":{"up":true},"run":{"id":"a","main":{"pid":2,"start":1}}}`),
	}})
	h.v.RunFor(time.Minute)
	if in := inspect(h.sup).instance("web"); in.exists() {
		t.Errorf("web is %s, want it removed: the active configuration does not have it", in.state().Name())
	}
}

// zeros is a source of randomness that returns only 0.
type zeros struct{}

func (zeros) Uint64() uint64 { return 0 }

// TestConfigurationIsKeptWhileJournalIsFull: the journal keeps the previous configuration until all
// effects of the next one are written, however often a write fails.
func TestConfigurationIsKeptWhileJournalIsFull(t *testing.T) {
	h, _ := newRunning(programNamed("web", nil), false)
	h.journal.full = rand.New(zeros{})
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{programNamed("db", nil)}})
	h.v.RunFor(10 * time.Second)
	if inspect(h.sup).previousConfig() == 0 {
		t.Error("the previous configuration is dropped while nothing can be written")
	}
	h.journal.full = nil
	h.v.RunFor(10 * time.Second)
	if inspect(h.sup).previousConfig() != 0 || h.journal.values[snapshot.ConfigKey(1)] != nil || h.journal.values[snapshot.ConfigKey(2)] == nil {
		t.Errorf("the previous configuration is %d, the journal has %v; want only the newest",
			inspect(h.sup).previousConfig(), sortedKeys(h.journal.values))
	}
}

// TestUnrecordedProcessIsAdopted: a journal has lost its end, and with it a start. If the kill_mode
// spares no process, a live one can only be the main process.
func TestUnrecordedProcessIsAdopted(t *testing.T) {
	for _, mode := range []config.KillMode{config.KillMainFirst, config.KillMixed, config.KillTree} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHistory(1, defect{}, false)
			h.kernel.Mix, h.models, h.kernel.ReportsLeftovers = hosttest.FaultMix{}, map[string]*model{}, true
			h.kernel.NewProcess("web", "a", hosttest.RoleMain)
			web := programNamed("web", func(p *config.Program) { p.KillMode = mode })
			h.configs = []*config.Config{{Programs: []*config.Program{web}}}
			h.adoptFrom(t, &journal.State{Existed: true, MissingBytes: 1, Values: map[string]json.RawMessage{
				snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`),
				snapshot.InstanceKey("web"): json.RawMessage(`{"config":1,"state":"failed","outcome":"failed","desired":{"up":true}}`),
			}})
			h.v.RunFor(time.Minute)
			if in := inspect(h.sup).instance("web"); in.state() != fsm.Running || in.pid() != 2 || h.err != nil {
				t.Errorf("web is %s with pid %d, %v; want it running with pid 2", in.state().Name(), in.pid(), h.err)
			}
		})
	}
}

// TestLostActor: the journal does not have the actor of a recovered run, or has one that this
// superd does not know. The run has an actor and reasons nevertheless.
func TestLostActor(t *testing.T) {
	start := snapshot.StartKey("web", 1)
	const started, idle = `{"run":"a","config":1,"process":{"pid":2,"start":1}}`,
		`{"config":1,"state":"stopped","outcome":"none","desired":{"up":false},"state_reason":{"kind":"not-started"}}`
	const running = `{"config":1,"state":"running","outcome":"retry","run":{"id":"a","main":{"pid":2,"start":1}},`
	stops := fsm.ReasonStopping.With("an unknown actor")
	runs := fsm.ReasonStarted.With("an unknown actor")
	tests := []struct {
		name    string
		records map[string]string
		want    fsm.Reason
	}{
		{"start record alone", map[string]string{start: started}, stops},
		{"start record after one of an idle instance", map[string]string{start: started, snapshot.InstanceKey("web"): idle}, stops},
		{"no actor", map[string]string{snapshot.InstanceKey("web"): running + `"desired":{"up":true}}`}, runs},
		{"actor of another version", map[string]string{snapshot.InstanceKey("web"): running + `"desired":{"up":true,"by":"robot"}}`}, runs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(1, defect{}, false)
			h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
			h.kernel.NewProcess("web", "a", hosttest.RoleMain)
			h.configs = []*config.Config{{Programs: []*config.Program{programNamed("web", func(p *config.Program) { p.Autostart = false })}}}
			values := map[string]json.RawMessage{snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`)}
			for key, record := range tt.records {
				values[key] = json.RawMessage(record)
			}
			h.adoptFrom(t, &journal.State{Existed: true, MissingBytes: 1, Values: values})
			in := inspect(h.sup).instance("web")
			if m := in.Machine(); m.StateReason() != tt.want || m.StartReason() != runs || m.Desired().By != fsm.By(fsm.ActorOther) || in.pid() != 2 {
				t.Errorf("pid %d: %q, %q, by %q; want pid 2, %q, %q, by an unknown actor", in.pid(), m.StateReason(), m.StartReason(), m.Desired().By, tt.want, runs)
			}
		})
	}
}

// TestRecoveredRunOwnsItsLogFile: a reload gave the log file of app to web, and superd was killed
// while app still ran by its earlier definition. web waits until app has ended.
func TestRecoveredRunOwnsItsLogFile(t *testing.T) {
	logsTo := func(name, file string) *config.Program {
		return programNamed(name, func(p *config.Program) { p.Log.File, p.KillMode = file, config.KillProcess })
	}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("app", "a", hosttest.RoleMain)
	h.configs = []*config.Config{
		{Programs: []*config.Program{logsTo("app", "one.log"), logsTo("web", "two.log")}},
		{Programs: []*config.Program{logsTo("app", "three.log"), logsTo("web", "one.log")}},
	}
	running, err := json.Marshal(h.configs[0].Programs[0])
	if err != nil {
		t.Fatal(err)
	}
	h.adoptFrom(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":2,"begun":true}`), snapshot.ConfigKey(2): json.RawMessage(`1`),
		snapshot.InstanceKey("app"): json.RawMessage(`{"config":2,"state":"stopping","outcome":"again","desired":{"up":true},"outdated":true,"restart_pending":true,
			"run":{"id":"a","main":{"pid":2,"start":1},"table":` + string(running) + `}}`),
		snapshot.InstanceKey("web"): json.RawMessage(`{"config":2,"state":"waiting","outcome":"retry","desired":{"up":true}}`),
	}})
	if web := inspect(h.sup).instance("web"); web.state() != fsm.Waiting {
		t.Errorf("web is %s while app writes to its log file", web.state().Name())
	}
	h.v.RunFor(time.Minute)
	for _, name := range []string{"app", "web"} {
		if in := inspect(h.sup).instance(name); in.state() != fsm.Running || h.err != nil {
			t.Errorf("%s is %s in the end, %v; want it running", name, in.state().Name(), h.err)
		}
	}
}
