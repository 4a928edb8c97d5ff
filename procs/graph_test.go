package procs

import (
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/notify"
)

// runFor runs the loop for d.
func runFor(v *loop.Virtual, d time.Duration) {
	done := false
	v.Root().After(d, func() { done = true })
	for !done && v.Step() {
	}
}

func namedPrograms(change func(p *config.Program), names ...string) *config.Config {
	c := &config.Config{}
	for _, name := range names {
		p := testProgram()
		p.Name = name
		change(p)
		c.Programs = append(c.Programs, p)
	}
	return c
}

// TestLongWaitChainIsShortened: the text for a long chain of waiting programs has the begin and the
// end of the chain, and the cause.
func TestLongWaitChainIsShortened(t *testing.T) {
	c := graphConfig(10_000, graphs[0].requirements)
	c.Programs[0].Autostart = false
	v, s := quickSupervisor(c)
	s.Start(func() {})
	s.Command(OpStop, []string{"p000000"}, false, func([]CommandResult) {})
	runFor(v, time.Second)
	last := inspect(s).at(inspect(s).count() - 1)
	if last.state() != fsm.Waiting {
		t.Fatalf("%s is %s, want it waiting", last.name(), last.state())
	}
	lines := last.waitsFor()
	if len(lines) != 1 || !strings.HasSuffix(lines[0], "which waits for p000000, which the operator has stopped") || len(lines[0]) > 1000 {
		t.Errorf("waitsFor() = %q, want a short path to the cause", lines)
	}
	if reason := last.reason(); len(reason) > 200 || !strings.HasPrefix(reason, "waits for p009998, which waits for p009997, which waits for p009996, which is itself waiting") {
		t.Errorf("reason() = %q", reason)
	}
}

// TestOrderingHoldsForSimultaneousStarts: an ordering holds for programs that one command or reload
// starts, in any order.
func TestOrderingHoldsForSimultaneousStarts(t *testing.T) {
	after := func(autostart bool) func(p *config.Program) {
		return func(p *config.Program) {
			if p.Autostart = autostart; p.Name == "app" {
				p.After = []string{"web"}
			}
		}
	}
	tests := []struct {
		name string
		ask  func(t *testing.T, s *Supervisor)
		base *config.Config
	}{
		{"by superd's start", func(*testing.T, *Supervisor) {}, namedPrograms(after(true), "app", "web")},
		{"by a reload that adds them", func(_ *testing.T, s *Supervisor) {
			inspect(s).activate(namedPrograms(after(true), "app", "other", "web"))
		},
			namedPrograms(after(true), "other")},
		{"by a reload that changes them", func(_ *testing.T, s *Supervisor) { inspect(s).activate(namedPrograms(after(true), "app", "web")) },
			namedPrograms(after(false), "app", "web")},
		{"by the operator", func(t *testing.T, s *Supervisor) {
			if _, err := s.Command(OpStart, []string{"*"}, false, func([]CommandResult) {}); err != nil {
				t.Fatal(err)
			}
		}, namedPrograms(after(false), "app", "web")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, s := quickSupervisor(tt.base)
			s.Start(func() {})
			tt.ask(t, s)
			for app := inspect(s).instance("app"); app.state() != fsm.Spawning; {
				if !v.Step() {
					t.Fatalf("app is %s: %s", app.state(), app.reason())
				}
			}
			if web := inspect(s).instance("web").state(); web != fsm.Running {
				t.Errorf("app is being started while web is %s", web)
			}
			runFor(v, time.Second)
			if inspect(s).inState(fsm.Running) != inspect(s).count() {
				t.Errorf("%s; want all running", s.readyNotifier.summary())
			}
		})
	}
}

// TestReloadReversesDependency: a reload that reverses a dependency makes no cycle, since old
// instances get the requirements of the new definition.
func TestReloadReversesDependency(t *testing.T) {
	requires := func(from, to string) func(p *config.Program) {
		return func(p *config.Program) {
			if p.Name == from {
				p.Requires = []string{to}
			}
		}
	}
	v, s := quickSupervisor(namedPrograms(requires("web", "db"), "db", "web"))
	s.Start(func() {})
	runFor(v, time.Second)
	inspect(s).activate(namedPrograms(func(*config.Program) {}, "web"))
	inspect(s).activate(namedPrograms(requires("db", "web"), "db", "web"))
	runFor(v, time.Second)
	if inspect(s).inState(fsm.Running) != 2 || inspect(s).count() != 2 {
		t.Errorf("%s; want both running", s.readyNotifier.summary())
	}
	if inspect(s).instance("db").hasDependents() {
		t.Error("db has dependents; want none")
	}
	inspect(s).activate(namedPrograms(func(*config.Program) {}, "web"))
	runFor(v, 10*time.Second)
	if s.Graph.Len() != 1 || inspect(s).count() != 1 {
		t.Errorf("%d nodes, %d instances; want those of web alone", s.Graph.Len(), inspect(s).count())
	}
}

// TestOrderingWaitsForStartingReplicas: an ordering waits for the replicas that are starting. Only
// these decide when the wait ends, and its reason.
func TestOrderingWaitsForStartingReplicas(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{
		programNamed("db", func(p *config.Program) {
			p.Autostart, p.Replicas = false, 2
			p.Ready, p.StartTimeout = &config.Ready{Notify: true}, time.Hour
		}),
		programNamed("web", func(p *config.Program) { p.Autostart, p.After = false, []string{"db"} }),
	}})
	h.kernel.Mix.NeverReady = 1
	h.mustCommand(t, OpStop, "db@1")
	h.mustCommand(t, OpStart, "db@2")
	h.v.RunFor(time.Second)
	var answer []CommandResult
	if _, err := h.sup.Command(OpStart, []string{"web"}, true, func(o []CommandResult) { answer = o }); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(time.Minute)
	if answer != nil {
		t.Errorf("answered %+v while db@2 is starting", answer)
	}
	if reason, want := inspect(h.sup).instance("web").reason(), "waits for db@2, which is starting"; reason != want {
		t.Errorf("reason %q, want %q", reason, want)
	}
	h.mainOf("db@2").Notify(notify.Message{Ready: true})
	h.v.RunFor(time.Minute)
	if len(answer) != 1 || !answer[0].OK {
		t.Errorf("answered %+v, want that it runs", answer)
	}
}
