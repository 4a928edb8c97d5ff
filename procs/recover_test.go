package procs

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// TestConfigurationIsWrittenFirst: a queued record is replaced by one that refers to the new
// configuration.
func TestConfigurationIsWrittenFirst(t *testing.T) {
	h := newHistory(1, defect{}, false)
	h.kernel.Mix = hosttest.FaultMix{}
	before, after := programNamed("web", nil), programNamed("web", nil)
	after.Restart = config.RestartNever
	h.journal = newSimJournal(h, 0)
	h.journal.stall()
	h.file = &config.Config{Programs: []*config.Program{before}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	if !h.journal.queued(snapshot.InstanceKey("web")) {
		t.Fatal("no record of web waits to be written")
	}
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{after}})
	written := map[string]bool{}
	for _, e := range h.journal.queue {
		written[e.key] = true
		if v, ok := e.value.(*snapshot.Instance); ok && !written[snapshot.ConfigKey(v.Config)] {
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
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{before}}, {Programs: []*config.Program{after}}}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.ConfigKey(2): json.RawMessage(`1`),
		snapshot.InstanceKey("web"): json.RawMessage(`{"config":1,"state":"stopped","outcome":"down","desired":{"up":true}}`),
		snapshot.StartKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}}
	o := h.options()
	o.Config = h.configs[1]
	o.Predecessor.Resumed, o.Predecessor.Snapshot = true, snapshot.Read(state, h.restore)
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	if web := inspect(h.sup).instance("web"); web.state() != fsm.Starting {
		t.Errorf("web is %v, want starting", web.state().Name())
	}
}

// TestChecksAfterExitDoNotCount: superd learns late how a process that is not its child has exited.
// Checks that fail until then do not count.
func TestChecksAfterExitDoNotCount(t *testing.T) {
	web := programNamed("web", nil)
	web.Restart = config.RestartNever
	web.Health = &config.Health{TCP: "web", Interval: 200 * time.Millisecond, Timeout: time.Second, Failures: 1, Action: config.HealthRestart}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models, h.kernel.Keeper = hosttest.FaultMix{SlowReap: 1}, map[string]*model{}, false
	main := h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	main.Reparented, main.ReadyAt = true, h.v.Now()
	h.configs = []*config.Config{{Programs: []*config.Program{web}}}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`),
		snapshot.InstanceKey("web"): json.RawMessage(`{"config":1,"state":"running","outcome":"retry","desired":{"up":true},"run":{"id":"a","ready_at":1,"main":{"pid":2,"start":1}}}`),
	}}
	o := h.options()
	o.Config = h.configs[0]
	o.Predecessor.Resumed, o.Predecessor.Snapshot = true, snapshot.Read(state, h.restore)
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	h.v.RunFor(time.Minute)
	in := inspect(h.sup).instance("web")
	if in.state() != fsm.Running || in.Run().Healthy() != 1 {
		t.Fatalf("web is %s, want it healthy", in.state().Name())
	}
	main.End(pidfd.Exit{Known: true})
	h.v.RunFor(time.Minute)
	if m := in.Machine(); m.State() != fsm.Failed || strings.Contains(m.StateReason().String(), "unhealthy") || h.err != nil {
		t.Errorf("web is %s: %s, %v; want that it exited by itself", m.State().Name(), m.StateReason(), h.err)
	}
}

// TestRecoveredStartWaitsForConflict: superd was killed after web was scaled, and the journal has
// only the processes of that. web, recorded as being started, waits until web@1 is removed.
func TestRecoveredStartWaitsForConflict(t *testing.T) {
	conf := &config.Config{Programs: []*config.Program{programNamed("web", nil)}}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.kernel.NewProcess("web@1", "b", hosttest.RoleMain)
	h.configs = []*config.Config{conf}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`),
		snapshot.InstanceKey("web"):   json.RawMessage(`{"config":1,"state":"spawning","outcome":"retry","desired":{"up":true},"run":{"id":"a"}}`),
		snapshot.InstanceKey("web@1"): json.RawMessage(`{"config":1,"state":"running","outcome":"retry","desired":{"up":true},"run":{"id":"b","main":{"pid":2,"start":1}}}`),
	}}
	o := h.options()
	o.Config = conf
	o.Predecessor.Resumed, o.Predecessor.Snapshot = true, snapshot.Read(state, h.restore)
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	if web := inspect(h.sup).instance("web"); web.state() != fsm.Waiting {
		t.Errorf("web is %v, want waiting", web.state().Name())
	}
	h.v.RunFor(time.Minute)
	if web := inspect(h.sup).instance("web"); web.state() != fsm.Running || inspect(h.sup).count() != 1 || h.err != nil {
		t.Errorf("web is %v in the end, with %d others, %v", web.state().Name(), inspect(h.sup).count()-1, h.err)
	}
}

// TestJournalOfAnotherBoot: the journal of an earlier boot is ignored, and replaced by new records.
func TestJournalOfAnotherBoot(t *testing.T) {
	h := newHistory(1, defect{}, false)
	state := &journal.State{Existed: true, OtherBoot: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":1}`), snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.InstanceKey("gone"): json.RawMessage(`{"state":"running"}`),
		snapshot.InstanceKey("daily"): json.RawMessage(`{"state":"waiting","outcome":"none","schedule":{"line":"@daily","wall":"2026-01-01T00:00:00Z"}}`),
	}}
	v := loop.NewVirtual(1)
	o := h.options()
	o.Loop, o.Store = v.Loop, logs.NewStore(v.Loop, slog.New(slog.DiscardHandler))
	o.Config, o.Predecessor.Snapshot = &config.Config{}, snapshot.Read(state, h.restore)
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
	if saved := s.Schedules.Take("daily"); saved == nil || saved.Line != "@daily" || s.Schedules.Take("daily") != nil {
		t.Errorf("state of the schedule %v, want the known one, once", saved)
	}
	if inspect(s).count() > 0 || j.values[snapshot.InstanceKey("gone")] != nil {
		t.Errorf("instances %d, old record %s; want nothing", inspect(s).count(), j.values[snapshot.InstanceKey("gone")])
	}
	if _, ok := j.values[snapshot.SuperdKey].(*snapshot.Superd); !ok || j.values[snapshot.ConfigKey(s.config.number)] == nil {
		t.Errorf("in the journal: %v, want this superd's own records", j.values)
	}
}
