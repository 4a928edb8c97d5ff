package procs

import (
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
)

// TestRestartAfterCheck: a restart whose check_command is under way does not undo what has been
// requested meanwhile, and is answered.
func TestRestartAfterCheck(t *testing.T) {
	stop := func(h *history) {
		if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
			t.Error(err)
		}
	}
	checked := func(p *config.Program) { p.CheckCommand = []string{hosttest.BesideCommand} }
	web, slow := programNamed("web", checked), programNamed("slow", checked)
	tests := []struct {
		name  string
		act   func(*history) // during the check; may be nil
		says  string
		state fsm.State // of web in the end
	}{
		{"nothing happens", nil, "running", fsm.Running},
		{"it is stopped", stop, "not restarted: it was stopped meanwhile", fsm.Stopped},
		{"it is removed", func(h *history) {
			h.file = &config.Config{Programs: []*config.Program{slow}}
			inspect(h.sup).apply(h.file, config.Compare(inspect(h.sup).config(), h.file))
		}, "it was removed or replaced meanwhile", fsm.Stopped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{slow, web}})
			h.v.RunFor(time.Minute)
			h.kernel.Mix.HookTime = 10 * time.Second
			run := inspect(h.sup).instance("web").Run().ID()
			var got []CommandResult
			answers := 0
			if _, err := h.sup.Command(OpRestart, []string{"web", "slow"}, true, func(all []CommandResult) {
				answers++
				got = all
			}); err != nil {
				t.Fatal(err)
			}
			if tt.act != nil {
				tt.act(h)
			}
			h.v.RunFor(2 * time.Minute)
			if answers != 1 || len(got) != 2 {
				t.Fatalf("%d answers, the last %+v; want one of two programs", answers, got)
			}
			for _, o := range got {
				if o.Name == "web" && (!strings.HasPrefix(o.Message, tt.says) || o.OK != (tt.act == nil) || o.State != tt.state) {
					t.Errorf("%+v, want %q, %v", o, tt.says, tt.state)
				}
			}
			if in := inspect(h.sup).instance("web"); in.exists() && (in.state() != tt.state || tt.act == nil && in.Run().ID() == run) {
				t.Errorf("web is %v in run %s", in.state(), in.Run().ID())
			}
		})
	}
}

// TestRestartIsCancelled: a restart that is cancelled, during the check or after it, is carried out
// without an answer.
func TestRestartIsCancelled(t *testing.T) {
	for _, check := range [][]string{nil, {hosttest.BesideCommand}} {
		for _, after := range []time.Duration{0, time.Second, time.Minute} {
			web := programNamed("web", func(p *config.Program) { p.CheckCommand = check })
			h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{web}})
			h.v.RunFor(time.Minute)
			h.kernel.Mix.HookTime = 10 * time.Second
			answered := false
			cancel, err := h.sup.Command(OpRestart, []string{"web"}, true, func([]CommandResult) { answered = true })
			if err != nil {
				t.Fatal(err)
			}
			h.v.RunFor(after)
			before := answered
			cancel()
			h.v.RunFor(2 * time.Minute)
			if answered != before || inspect(h.sup).instance("web").state() != fsm.Running {
				t.Errorf("with the check %v, cancelled after %v: answered %v, then %v", check, after, before, answered)
			}
		}
	}
}
