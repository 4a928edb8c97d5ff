package procs

import (
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
)

// TestRestartRolling: at most one of several replicas is down at a time.
func TestRestartRolling(t *testing.T) {
	web := programNamed("web", func(p *config.Program) { p.Replicas = 3 })
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{web, programNamed("zero", func(p *config.Program) { p.Replicas = 0 })}})
	h.v.RunFor(time.Minute)
	before := map[string]string{}
	for in := range inspect(h.sup).instances() {
		before[in.name()] = in.Run().ID()
	}
	roll := func(names ...string) (all []CommandResult) {
		t.Helper()
		ended := false
		if _, err := h.sup.RestartRolling(names, 0, func(o []CommandResult) { all, ended = o, true }); err != nil {
			t.Fatal(err)
		}
		for range 100_000 {
			if ended {
				return all
			}
			h.v.RunFor(time.Millisecond)
			down := 0
			for in := range inspect(h.sup).instances() {
				if in.state() != fsm.Running {
					down++
				}
			}
			if down > 1 {
				t.Fatalf("%d instances are down at a time", down)
			}
		}
		t.Fatal("the rolling restart does not end")
		return nil
	}
	all := roll("web", "zero")
	if len(all) != 4 || all[0].Name != "zero" || all[0].OK {
		t.Errorf("outcomes %+v, want that zero has no instances, and three more", all)
	}
	for _, o := range all[1:] {
		if in := inspect(h.sup).instance(o.Name); !o.OK || in.state() != fsm.Running || in.Run().ID() == before[o.Name] {
			t.Errorf("%+v: run %s, %s before", o, in.Run().ID(), before[o.Name])
		}
	}
	if _, err := h.sup.RestartRolling([]string{"unknown"}, 0, nil); err == nil {
		t.Error("an unknown name is accepted")
	}
}

// TestRollStartsStopped: a rolling restart of a stopped program starts it, and is over when that is
// up.
func TestRollStartsStopped(t *testing.T) {
	for _, k := range []config.Rolling{{Surge: 1, AbortOnFailure: true}, {MaxUnavailable: 1, AbortOnFailure: true}} {
		h := rolled(1, k)
		h.mustCommand(t, OpStop, "web")
		h.v.RunFor(time.Minute)
		all, _, _ := h.roll(t, h.restartRolling(0))
		if len(all) != 1 || !all[0].OK || all[0].State != fsm.Running {
			t.Errorf("%+v: %+v", k, all)
		}
		h.mustCommand(t, OpStop, "web")
		h.v.RunFor(time.Minute)
		h.kernel.Mix.SpawnFails = 1
		if all, _, _ = h.roll(t, h.restartRolling(0)); len(all) != 1 || all[0].OK {
			t.Errorf("%+v: it can't start: %+v", k, all)
		}
	}
}

// TestAwait: what waits for a change of the configuration gets the results of its rolling restart,
// of its other instances, and of programs that are removed.
func TestAwait(t *testing.T) {
	conf := func(n string) *config.Config {
		changed := func(p *config.Program) { p.Command = append(p.Command, n) }
		return &config.Config{Programs: []*config.Program{
			programNamed("down", func(p *config.Program) { p.Autostart = false; changed(p) }),
			programNamed("plain", changed),
			programNamed("web", func(p *config.Program) {
				p.Replicas, p.Rolling = 2, &config.Rolling{Surge: 1, AbortOnFailure: true}
				changed(p)
			}),
		}}
	}
	first := conf("1")
	first.Programs = append(first.Programs, programNamed("xold", func(*config.Program) {}))
	h, _ := newFaultFree(1, first)
	h.v.RunFor(time.Minute)
	await := func(names ...string) (results map[string]CommandResult) {
		all, _, _ := h.roll(t, func(done func([]CommandResult)) (func(), error) { return Await(h.sup, names, done) })
		results = map[string]CommandResult{}
		for _, o := range all {
			results[o.Name] = o
		}
		return results
	}
	want := func(results map[string]CommandResult, ok map[string]bool) {
		t.Helper()
		for name, ok := range ok {
			if o, has := results[name]; !has || o.OK != ok || o.Message == "" {
				t.Errorf("%s: %+v, want %t", name, o, ok)
			}
		}
		if len(results) != len(ok) {
			t.Errorf("results %+v, want those of %v", results, ok)
		}
	}
	names, before := []string{"down", "plain", "web", "xold"}, h.runs()
	inspect(h.sup).activate(conf("2"))
	all := map[string]bool{"down": true, "plain": true, "web@1": true, "web@2": true, "xold": true}
	want(await(names...), all)
	for name, run := range h.runs() {
		if before[name] == run {
			t.Errorf("%s was not restarted", name)
		}
	}
	want(await(names...), all)

	before = h.runs()
	h.kernel.Mix.SpawnFails = 1
	inspect(h.sup).activate(conf("3"))
	want(await("plain", "web"), map[string]bool{"plain": false, "web@1": false, "web@2": false})
	// They run with the former definition
	want(await("web"), map[string]bool{"web@1": false, "web@2": false})
	if after := h.runs(); after["web@1"] != before["web@1"] {
		t.Errorf("web@1 was restarted")
	}
}

// rolled returns a history with a program of so many replicas, which is rolled as given.
func rolled(replicas int, k config.Rolling) *history {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
		p.Replicas, p.Rolling = replicas, &k
		p.DrainTimeout = 20 * time.Second
	})}})
	return h
}

// runs returns the runs of all instances that are up, by name.
func (h *history) runs() map[string]string {
	all := map[string]string{}
	for in := range inspect(h.sup).instances() {
		if in.state() == fsm.Running {
			all[in.name()] = in.Run().ID()
		}
	}
	return all
}

// roll begins a rolling restart and runs until it is decided. It returns the results, and the
// smallest and the greatest number of instances that were up meanwhile.
func (h *history) roll(t *testing.T, begin func(done func([]CommandResult)) (func(), error)) (all []CommandResult, least, most int) {
	t.Helper()
	ended := false
	if _, err := begin(func(o []CommandResult) { all, ended = o, true }); err != nil {
		t.Fatal(err)
	}
	least = len(h.runs())
	for range 1_000_000 {
		up := len(h.runs())
		least, most = min(least, up), max(most, up)
		if ended {
			return all, least, most
		}
		if !h.v.Step() {
			break
		}
	}
	for name, o := range h.sup.rolls.all {
		t.Logf("%s: %+v: %+v", name, o.Roll.Roll, h.sup.rolls.look(inspect(h.sup).config().Program(name)))
	}
	t.Fatal("the rolling restart does not end")
	return nil, 0, 0
}

func (h *history) restartRolling(canary int) func(done func([]CommandResult)) (func(), error) {
	return func(done func([]CommandResult)) (func(), error) {
		return h.sup.RestartRolling([]string{"web"}, canary, done)
	}
}

func (h *history) decideRoll(d RollDecision) func(done func([]CommandResult)) (func(), error) {
	return func(done func([]CommandResult)) (func(), error) {
		return h.sup.DecideRoll([]string{"web"}, d, done)
	}
}

// renewed returns how many instances have another run than before.
func renewed(before, after map[string]string) (n int) {
	for name, run := range after {
		if before[name] != "" && before[name] != run {
			n++
		}
	}
	return n
}

// TestRollKeepsPromise: as many replicas are up as promised, and no extra one is left.
func TestRollKeepsPromise(t *testing.T) {
	for _, tt := range []struct{ replicas, surge, unavailable, least, most int }{
		{3, 1, 0, 3, 4}, {3, 2, 0, 3, 5}, {3, 0, 1, 2, 3}, {3, 1, 1, 2, 4}, {3, 0, 3, 0, 3},
		{1, 1, 0, 1, 2}, {1, 0, 1, 0, 1},
	} {
		h := rolled(tt.replicas, config.Rolling{Surge: tt.surge, MaxUnavailable: tt.unavailable, AbortOnFailure: true})
		before := h.runs()
		all, least, most := h.roll(t, h.restartRolling(0))
		if least != tt.least || most != tt.most {
			t.Errorf("%+v: from %d to %d were up", tt, least, most)
		}
		after := h.runs()
		if len(all) != tt.replicas || !all[0].OK || renewed(before, after) != tt.replicas || inspect(h.sup).count() != tt.replicas || h.err != nil {
			t.Errorf("%+v: %+v; runs %v, %v before; %v", tt, all, after, before, h.err)
		}
		if len(h.sup.rolls.all) > 0 || h.journal.values[snapshot.RollKey("web")] != nil {
			t.Errorf("%+v: the roll is not over: %+v", tt, h.sup.rolls.all)
		}
	}
}

// TestRollWithoutStart: an extra replica fails, so the others run on.
func TestRollWithoutStart(t *testing.T) {
	h := rolled(2, config.Rolling{Surge: 1, AbortOnFailure: true})
	before := h.runs()
	h.kernel.Mix.SpawnFails = 1
	all, least, _ := h.roll(t, h.restartRolling(0))
	const want = "not restarted: the extra replica web@3 failed: "
	if least != 2 || len(all) != 2 || all[0].OK || !strings.HasPrefix(all[0].Message, want) {
		t.Errorf("%d were up at least; %+v", least, all)
	}
	if after := h.runs(); renewed(before, after) != 0 || inspect(h.sup).count() != 2 || h.err != nil {
		t.Errorf("runs %v, %v before; %v", after, before, h.err)
	}
}

// TestRollIsHeld: a restarted replica fails. The extra one stays until it is up; so does the
// replica that was not restarted.
func TestRollIsHeld(t *testing.T) {
	for _, d := range []struct {
		name     string
		decision func(h *history) // nil: none
		renewed  int
	}{
		{"until it is up", nil, 1},
		{"until the operator continues", func(h *history) { h.roll(t, h.decideRoll(ContinueRoll)) }, 2},
		{"until the operator ends it", func(h *history) { h.roll(t, h.decideRoll(UndoRoll)) }, 1},
	} {
		t.Run(d.name, func(t *testing.T) {
			h := rolled(2, config.Rolling{Surge: 1, AbortOnFailure: true})
			before := h.runs()
			h.kernel.OnSpawn = func(spec *host.SpawnSpec) { h.kernel.Mix.SpawnFails = float64(1 - strings.Count(spec.Name, "@3")) }
			all, _, _ := h.roll(t, h.restartRolling(0))
			if len(all) != 2 || all[0].OK || all[1].OK || !strings.HasPrefix(all[1].Message, "not restarted: the restart of web@1 failed: ") {
				t.Errorf("%+v", all)
			}
			if up := h.runs(); len(up) != 2 || up["web@2"] != before["web@2"] || up["web@3"] == "" {
				t.Errorf("%v are up, %v before", up, before)
			}
			h.kernel.OnSpawn, h.kernel.Mix = nil, hosttest.FaultMix{}
			if d.decision != nil {
				d.decision(h)
			}
			h.v.RunFor(time.Minute)
			after := h.runs()
			if renewed(before, after) != d.renewed || inspect(h.sup).count() != 2 || len(after) != 2 || len(h.sup.rolls.all) > 0 {
				t.Errorf("in the end %v are up, %v before", after, before)
			}
		})
	}
}

// TestCanary: extra replicas run until the operator decides.
func TestCanary(t *testing.T) {
	for _, d := range []RollDecision{ContinueRoll, UndoRoll} {
		h := rolled(2, config.Rolling{Surge: 2, AbortOnFailure: true})
		before := h.runs()
		all, _, _ := h.roll(t, h.restartRolling(1))
		h.v.RunFor(time.Hour)
		if up := h.runs(); len(all) != 1 || !all[0].OK || all[0].Name != "web@3" || len(up) != 3 || renewed(before, up) != 0 {
			t.Errorf("%+v; %v are up, %v before", all, up, before)
		}
		second, _, _ := h.roll(t, h.restartRolling(0))
		if len(second) == 0 || second[0].OK || !strings.Contains(second[0].Message, "under way: 0 of 2 restarted, 1 extra replica up") {
			t.Errorf("a second roll: %+v", second)
		}
		if _, err := h.sup.Scale([]Scaling{{"web", 3}}, false, nil); err == nil || !strings.Contains(err.Error(), "rolling restart") {
			t.Errorf("a scale during the roll: %v", err)
		}
		all, least, most := h.roll(t, h.decideRoll(d))
		want, up := map[RollDecision]int{ContinueRoll: 2, UndoRoll: 0}[d], h.runs()
		if !all[0].OK || renewed(before, up) != want || least < 2 || d == ContinueRoll && most != 4 || inspect(h.sup).count() != 2 {
			t.Errorf("%d: %+v; %v are up, %v before", d, all, up, before)
		}
		if all, _, _ = h.roll(t, h.decideRoll(d)); all[0].OK {
			t.Errorf("%d without a roll: %+v", d, all)
		}
	}
}

// TestReloadRolls: a changed configuration rolls a program, whose replicas run on until then.
func TestReloadRolls(t *testing.T) {
	h := rolled(3, config.Rolling{Surge: 1, AbortOnFailure: true})
	before := h.runs()
	least := 3
	h.changeProgram(func(p *config.Program) { p.Environment = map[string]string{"N": "1"} })
	for range 100 {
		h.v.RunFor(100 * time.Millisecond)
		least = min(least, len(h.runs()))
	}
	if after := h.runs(); least < 3 || renewed(before, after) != 3 || inspect(h.sup).count() != 3 {
		t.Errorf("%d were up at least; %v are up, %v before", least, after, before)
	}
	for in := range inspect(h.sup).instances() {
		if in.Run().Program().Environment["N"] != "1" {
			t.Errorf("%s runs with %v", in.name(), in.Run().Program().Environment)
		}
	}
}

// TestFailedReload: after a rolling restart has failed, each instance says that its former
// definition runs, and why, until it does not. A reload does not speak of it.
func TestFailedReload(t *testing.T) {
	h := rolled(2, config.Rolling{Surge: 1, AbortOnFailure: true})
	former := func() (n int) {
		all, err := h.sup.Status(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range all {
			if strings.HasPrefix(st.Reason, "runs with its former definition, since the rolling restart ended: the extra replica web@3 failed: ") {
				n++
			}
		}
		return n
	}
	h.v.RunFor(time.Minute)
	h.kernel.Mix.SpawnFails = 1
	h.changeProgram(func(p *config.Program) { p.Environment = map[string]string{"N": "1"} })
	h.v.RunFor(time.Minute)
	if n := former(); n != 2 {
		t.Errorf("%d of 2 have a reason", n)
	}
	if notes := h.sup.applier.notes(config.Compare(inspect(h.sup).config(), inspect(h.sup).config())); len(notes) > 0 {
		t.Errorf("a reload without a change notes %q", notes)
	}
	if why, err := h.sup.Why([]string{"web@1"}); err != nil || !strings.Contains(why[0].Roll, "former definition") {
		t.Errorf("why web@1: %+v, %v", why, err)
	}
	h.kernel.Mix = hosttest.FaultMix{}
	h.mustCommand(t, OpRestart, "web@1")
	h.v.RunFor(time.Minute)
	if n := former(); n != 1 {
		t.Errorf("%d of 1 have a reason", n)
	}
	h.roll(t, h.restartRolling(0))
	if n := former(); n != 0 || len(h.sup.rolls.failed) > 0 {
		t.Errorf("%d have a reason after a rolling restart, %v", n, h.sup.rolls.failed)
	}
}

// TestCanaryIsStopped: the operator stops the extra replica instead of a decision.
func TestCanaryIsStopped(t *testing.T) {
	h := rolled(1, config.Rolling{Surge: 1})
	h.roll(t, h.restartRolling(1))
	h.mustCommand(t, OpStop, "web@2")
	h.v.RunFor(time.Minute)
	if rolls, n := inspect(h.sup).rolls(), inspect(h.sup).count(); len(rolls) > 0 || n != 1 {
		t.Errorf("%d instances, %+v", n, rolls)
	}
}

// TestPause: a restarted replica must be up for the pause before the next one is restarted.
func TestPause(t *testing.T) {
	h := rolled(2, config.Rolling{MaxUnavailable: 1, Pause: time.Minute, AbortOnFailure: true})
	began := h.v.Now()
	h.roll(t, h.restartRolling(0))
	if took := h.v.Now() - began; took < 2*time.Minute || took > 3*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestScaleToNothingStays: a program that names its log file stays scaled to 0 after a reload.
func TestScaleToNothingStays(t *testing.T) {
	web := programNamed("web", func(p *config.Program) { p.Log.File = "web.log" })
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{web}})
	h.v.RunFor(time.Second)
	if _, err := h.sup.Scale([]Scaling{{"web", 0}}, false, func([]ScaleResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(time.Minute)
	h.changeProgram(func(p *config.Program) { p.StopTimeout += time.Second })
	h.v.RunFor(time.Minute)
	if n := inspect(h.sup).count(); n != 0 || h.err != nil {
		t.Errorf("%d instances run, %v; want none", n, h.err)
	}
}
