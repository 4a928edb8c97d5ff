package procs

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/journal"
)

// An adoptions is a kernel that remembers what it was given to adopt.
type adoptions struct {
	*simKernel
	all []*Adoptee
}

func (a *adoptions) Adopt(all []*Adoptee) {
	a.all = all
	a.simKernel.Adopt(all)
}

// takeOver makes a superd of what is in a journal, which adopts.
func (h *history) takeOver(t *testing.T, state *journal.State) *adoptions {
	t.Helper()
	o := h.options()
	kernel := &adoptions{simKernel: h.kernel}
	o.System = kernel
	o.Resumed, o.Recovery = true, ReadRecovery(state, h.restore, slog.New(slog.DiscardHandler))
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

// TestStreamsByTheTableOfItsBirth: superd was killed when a program had been started by a new table, and before its record said so.
func TestStreamsByTheTableOfItsBirth(t *testing.T) {
	before := programNamed("web", func(p *config.Program) { p.Log.Stderr = config.StderrMerge })
	after := programNamed("web", func(p *config.Program) { p.Log.Stderr = config.StderrSeparate })
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models = faultMix{}, map[string]*model{}
	h.kernel.born("web", "a", roleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{before}}, {Programs: []*config.Program{after}}}
	kernel := h.takeOver(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), configKey(1): json.RawMessage(`0`), configKey(2): json.RawMessage(`1`),
		instanceKey("web"): json.RawMessage(`{"config":1,"state":"Stopped","verdict":"EndDown","wanted":{"up":true}}`),
		birthKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}})
	taken := map[logs.Stream]bool{}
	for _, o := range kernel.all[0].Outputs {
		taken[o.Stream] = true
	}
	if !taken[logs.Stdout] || !taken[logs.Stderr] {
		t.Errorf("streams taken up: %v, want both", taken)
	}
}

// TestAddedProgramIsTakenOver: so it was with a program that the reload had added, of which there is no record at all.
func TestAddedProgramIsTakenOver(t *testing.T) {
	web, db := programNamed("web", nil), programNamed("db", nil)
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models = faultMix{}, map[string]*model{}
	h.kernel.born("web", "a", roleMain)
	h.configs = []*config.Config{{Programs: []*config.Program{db}}, {Programs: []*config.Program{db, web}}}
	h.takeOver(t, &journal.State{Existed: true, Values: map[string]json.RawMessage{
		superdKey: json.RawMessage(`{"config":2,"before":1,"begun":true}`), configKey(1): json.RawMessage(`0`), configKey(2): json.RawMessage(`1`),
		birthKey("web", 1): json.RawMessage(`{"run":"a","config":2,"process":{"pid":2,"start":1}}`),
	}})
	h.v.RunFor(time.Minute)
	if in := h.sup.byName["web"]; in.machine.state != Running || in.pid() != 2 {
		t.Errorf("web is %v with pid %d, want running with pid 2, as before", in.machine.state, in.pid())
	}
}

// TestLogAndLimitsOfTheRun: a run that was begun by an earlier table keeps its log and its limits when superd is killed, too.
func TestLogAndLimitsOfTheRun(t *testing.T) {
	scheduled := func(file string, format config.LogFormat, tasks int64) *config.Program {
		return programNamed("web", func(p *config.Program) {
			p.Log.File, p.Log.Format, p.Limits.Tasks = file, format, &tasks
			p.Type, p.Restart, p.Schedule = config.TypeOneshot, config.RestartNever, "@every 1h"
		})
	}
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.models = faultMix{}, map[string]*model{}
	h.file = &config.Config{Programs: []*config.Program{scheduled("/old.log", config.LogRaw, 500)}}
	h.configs = nil
	h.journal.lag = 0
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(61 * time.Minute)
	h.sup.apply(&config.Config{Programs: []*config.Program{scheduled("/new.log", config.LogJSON, 3)}})
	h.v.RunFor(time.Second)
	if in := h.sup.byName["web"]; in.run == nil || in.run.program == in.program {
		t.Fatalf("web is %v, want it to run by its first table", in.machine.state)
	}
	state, _ := h.journal.cut()
	values := h.journal.values
	h.sup.scope.Close()
	h.kernel.abandon()
	h.journal = newSimJournal(h, 0)
	h.journal.values = values
	h.configs = h.configs[:len(h.configs):len(h.configs)]
	kernel := h.takeOver(t, state)
	if path := h.sup.byName["web"].capture.Path(); path != "/old.log" {
		t.Errorf("its log is %s, want /old.log", path)
	}
	if tasks := *kernel.all[0].Program.Limits.Tasks; tasks != 500 {
		t.Errorf("its limit is %d tasks, want 500", tasks)
	}
}
