package procs

import (
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
)

// TestHungHookIsReported: a pre_start hook hangs in a file system before its fork. Its own failure
// names the hook, and so does the failure of the next start, which waits for it in vain.
func TestHungHookIsReported(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
		p.PreStart, p.Autostart = [][]string{{hosttest.PreStartCommand, "db"}}, false
	})}})
	h.kernel.Mix.SpawnHangs = 1
	h.mustCommand(t, OpStart, "web")
	in := inspect(h.sup).instance("web")
	const hook = "pre_start /hook db: open executable /sim"
	steps := []struct {
		state fsm.State
		after time.Duration
		says  string
	}{
		{fsm.Spawning, 29 * time.Second, hook},
		{fsm.Backoff, time.Second + 50*time.Millisecond, hook + ": no answer within start_timeout 30s"},
		{fsm.Spawning, 29 * time.Second, "an earlier start, which hangs in " + hook},
		{fsm.Backoff, time.Second + 100*time.Millisecond, "an earlier start still hangs in " + hook},
	}
	for _, want := range steps {
		h.v.RunFor(want.after)
		if in.state() != want.state || !strings.Contains(in.reason(), want.says) {
			t.Errorf("state %v, reason %q; want %v, %q", in.state().Name(), in.reason(), want.state.Name(), want.says)
		}
	}
	if d := in.diagnosis(); d.HangsIn != hook {
		t.Errorf("HangsIn = %q, want %q", d.HangsIn, hook)
	}
	h.kernel.Mix.SpawnHangs = 0
	h.v.RunFor(2 * time.Hour) // the file system answers
	if d := in.diagnosis(); in.state() != fsm.Running || d.HangsIn != "" {
		t.Errorf("in the end %v, hangs in %q; want running", in.state(), d.HangsIn)
	}
}

// TestQueueTimeDoesNotCountForHook: the time that a hook waits before it runs does not count for
// its time-out.
func TestQueueTimeDoesNotCountForHook(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		h, _ := newFaultFree(seed, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
			p.PreStart, p.StartTimeout, p.Autostart = [][]string{{hosttest.PreStartCommand}}, 30*time.Second, false
		})}})
		h.kernel.Mix.SlowSpawn, h.kernel.Mix.HookTime = 29*time.Second, 29*time.Second
		h.mustCommand(t, OpStart, "web")
		h.v.RunFor(2 * time.Minute)
		if in := inspect(h.sup).instance("web"); in.state() != fsm.Running || in.Machine().RestartAttempts() > 0 {
			t.Errorf("seed %d: %v, %s, want running at once", seed, in.state(), in.reason())
		}
	}
}
