package procs

import (
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/notify"
)

// settled lets superd do what it has to do at once.
func settled(v *loop.Virtual, d time.Duration) {
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

// A long chain is told in short: its beginning, its end, and the cause.
func TestWaitsForAreShort(t *testing.T) {
	c := graphConfig(10_000, graphs[0].needs)
	c.Programs[0].Autostart = false
	v, s := quickSupervisor(c)
	s.Start(func() {})
	s.Command(OpStop, []string{"p000000"}, false, func([]Outcome) {})
	settled(v, time.Second)
	last := s.instances[len(s.instances)-1]
	if last.machine.state != Waiting {
		t.Fatalf("%s is %s, want it waiting", last.name, last.machine.state)
	}
	lines := last.waitsFor()
	if len(lines) != 1 || !strings.HasSuffix(lines[0], "which waits for p000000, which the operator has stopped") || len(lines[0]) > 1000 {
		t.Errorf("waitsFor() = %q, want the way to the cause in short", lines)
	}
	if reason := last.reason(); len(reason) > 200 || !strings.HasPrefix(reason, "waits for p009998, which waits for p009997, which waits for p009996, which waits in turn") {
		t.Errorf("reason() = %q", reason)
	}
}

// The graph has no cycle, whatever was reloaded: the old one of a name follows the table that is in force.
func TestReloadTurnsDependencyAround(t *testing.T) {
	requires := func(who, whom string) func(p *config.Program) {
		return func(p *config.Program) {
			if p.Name == who {
				p.Requires = []string{whom}
			}
		}
	}
	v, s := quickSupervisor(namedPrograms(requires("web", "db"), "db", "web"))
	s.Start(func() {})
	settled(v, time.Second)
	s.apply(namedPrograms(func(*config.Program) {}, "web"))
	s.apply(namedPrograms(requires("db", "web"), "db", "web"))
	settled(v, time.Second)
	if s.counts[Running] != 2 || len(s.instances) != 2 {
		t.Errorf("%s; want both running", s.summary())
	}
	if n := s.node("db"); len(n.edges) != 0 || n.users != 0 {
		t.Errorf("db has %d edges, %d users; want none", len(n.edges), n.users)
	}
	s.apply(namedPrograms(func(*config.Program) {}, "web"))
	settled(v, 10*time.Second)
	if len(s.nodes) != 1 || len(s.instances) != 1 {
		t.Errorf("%d nodes, %d instances; want those of web alone", len(s.nodes), len(s.instances))
	}
}

// Who comes after a program waits for those of its instances that are on their way, and gives up, and tells why, by these alone.
func TestAfterReplicasThatDiffer(t *testing.T) {
	h, _ := quietWorld(1, &config.Config{Programs: []*config.Program{
		programNamed("db", func(p *config.Program) {
			p.Autostart, p.Replicas = false, 2
			p.Ready, p.StartTimeout = &config.Ready{Notify: true}, time.Hour
		}),
		programNamed("web", func(p *config.Program) { p.Autostart, p.After = false, []string{"db"} }),
	}})
	h.kernel.mix.neverReady = 1
	h.give(t, OpStop, "db@1")
	h.give(t, OpStart, "db@2")
	h.v.RunFor(time.Second)
	var answer []Outcome
	if _, err := h.sup.Command(OpStart, []string{"web"}, true, func(o []Outcome) { answer = o }); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(time.Minute)
	if answer != nil {
		t.Errorf("answered %+v while db@2 is starting", answer)
	}
	if reason, want := h.sup.byName["web"].reason(), "waits for db@2, which is starting"; reason != want {
		t.Errorf("reason %q, want %q", reason, want)
	}
	h.mainOf("db@2").tell(notify.Message{Ready: true})
	h.v.RunFor(time.Minute)
	if len(answer) != 1 || !answer[0].OK {
		t.Errorf("answered %+v, want that it runs", answer)
	}
}
