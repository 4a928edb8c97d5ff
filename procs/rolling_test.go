package procs

import (
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
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
		if _, err := h.sup.RestartRolling(names, func(o []CommandResult) { all, ended = o, true }); err != nil {
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
	if _, err := h.sup.RestartRolling([]string{"unknown"}, nil); err == nil {
		t.Error("an unknown name is accepted")
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
