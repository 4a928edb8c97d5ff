package procs

import (
	"encoding/json"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// duringReload returns the journal of a superd that was killed during a reload, without records of
// instances.
func (h *history) duringReload(before, after *config.Config) *journal.State {
	h.configs = []*config.Config{before, after}
	return &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey:    json.RawMessage(`{"config":2,"before":1,"begun":true}`),
		snapshot.ConfigKey(1): json.RawMessage(`0`), snapshot.ConfigKey(2): json.RawMessage(`1`),
	}}
}

// TestRemovedProgramIsNotStartedAgain: superd was killed after a reload that removed a program, one
// of its replicas, or its only instance in favour of replicas. The instance was gone already.
func TestRemovedProgramIsNotStartedAgain(t *testing.T) {
	replicas := func(n int) []*config.Program {
		return []*config.Program{programNamed("web", func(p *config.Program) { p.Replicas = n })}
	}
	tests := []struct {
		name          string
		before, after []*config.Program
		gone          string
		want          int // instances in the end
	}{
		{"a program", replicas(1), nil, "web", 0},
		{"a replica", replicas(3), replicas(2), "web@3", 2},
		{"the unnumbered one", replicas(1), replicas(2), "web", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(1, defect{}, false)
			h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
			h.kernel.OnSpawn = func(spec *host.SpawnSpec) {
				if spec.Name == tt.gone {
					t.Errorf("%s is started", spec.Name)
				}
			}
			before, after := &config.Config{Programs: tt.before}, &config.Config{Programs: tt.after}
			h.adoptFrom(t, h.duringReload(before, after))
			h.v.RunFor(time.Minute)
			if n := inspect(h.sup).count(); n != tt.want || h.err != nil {
				t.Errorf("%d instances, %v; want %d", n, h.err, tt.want)
			}
		})
	}
}

// TestMissingInstanceGetsTheNewestDefinition: superd was killed after a reload that changed a
// program whose instance the journal does not have. It starts once, by the new definition.
func TestMissingInstanceGetsTheNewestDefinition(t *testing.T) {
	defined := func(version string) *config.Config {
		return &config.Config{Programs: []*config.Program{
			programNamed("web", func(p *config.Program) { p.Environment = map[string]string{"V": version} }),
		}}
	}
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	var started []string
	h.kernel.OnSpawn = func(spec *host.SpawnSpec) {
		started = append(started, spec.Program.Environment["V"])
	}
	h.adoptFrom(t, h.duringReload(defined("old"), defined("new")))
	h.v.RunFor(time.Minute)
	if len(started) != 1 || started[0] != "new" || h.err != nil {
		t.Errorf("the versions %v of web are started, %v; want only the new one", started, h.err)
	}
}

// TestDefinitionOfAReloadInBetween: superd was killed after two reloads. The journal has the
// instance with the definition of the first. It gets that of the second, also if the configuration
// before both lacks the program, or has it as the second does.
func TestDefinitionOfAReloadInBetween(t *testing.T) {
	defined := func(version string) *config.Config {
		return &config.Config{Programs: []*config.Program{
			programNamed("web", func(p *config.Program) { p.Environment = map[string]string{"V": version} }),
		}}
	}
	for name, before := range map[string]*config.Config{
		"added": {}, "unchanged": defined("new"), "changed": defined("old"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1, defect{}, false)
			h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
			var started []string
			h.kernel.OnSpawn = func(spec *host.SpawnSpec) {
				started = append(started, spec.Program.Environment["V"])
			}
			state := h.duringReload(before, defined("new"))
			h.configs = []*config.Config{before, defined("between"), defined("new")}
			state.Values[snapshot.SuperdKey] = json.RawMessage(`{"config":3,"before":1,"begun":true}`)
			state.Values[snapshot.ConfigKey(3)] = json.RawMessage(`2`)
			record, err := json.Marshal(snapshot.Instance{
				Config: 2, State: fsm.Waiting.Name(), Outcome: fsm.WantUp.OutcomeName(),
				Desired: fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot(),
			})
			if err != nil {
				t.Fatal(err)
			}
			state.Values[snapshot.InstanceKey("web")] = record
			h.adoptFrom(t, state)
			h.v.RunFor(time.Minute)
			if len(started) == 0 || started[len(started)-1] != "new" || h.err != nil {
				t.Errorf("the versions %v of web are started, %v; want the new one last", started, h.err)
			}
		})
	}
}

// TestUnrecordedProcessOfAnAddedProgram: superd was killed after a reload that added a program, and
// the journal has lost its end. The program is not started a second time.
func TestUnrecordedProcessOfAnAddedProgram(t *testing.T) {
	web := programNamed("web", func(p *config.Program) { p.KillMode = config.KillProcess })
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models, h.kernel.ReportsLeftovers = hosttest.FaultMix{}, map[string]*model{}, true
	h.kernel.NewProcess("web", "a", hosttest.RoleMain)
	h.kernel.OnSpawn = func(spec *host.SpawnSpec) { t.Errorf("%s is started a second time", spec.Name) }
	state := h.duringReload(&config.Config{}, &config.Config{Programs: []*config.Program{web}})
	state.MissingBytes = 1
	h.adoptFrom(t, state)
	h.v.RunFor(time.Second)
	if in := inspect(h.sup).instance("web"); !in.Quarantined() || h.err != nil {
		t.Errorf("web is %s, %v; want it quarantined", in.state().Name(), h.err)
	}
}
