package procs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/notify"
	"superd/procs/snapshot"
)

// newFaultFree returns a history without faults, in which programs run without end, and a function
// that reports whether superd has ended.
func newFaultFree(seed uint64, conf *config.Config) (h *history, ended func() bool) {
	h = newHistory(seed, defect{}, false)
	h.kernel.Mix = hosttest.FaultMix{}
	h.sup.shutdown.onEnd = func() { h.ended = true }
	inspect(h.sup).activate(conf)
	h.v.RunFor(time.Minute)
	return h, func() bool { h.v.RunFor(time.Minute); return h.ended }
}

func programNamed(name string, change func(*config.Program)) *config.Program {
	p := testProgram()
	p.Name = name
	if change != nil {
		change(p)
	}
	return p
}

// mainOf returns the main process of an instance.
func (h *history) mainOf(name string) *hosttest.Process {
	return inspect(h.sup).instance(name).Run().Process().(*hosttest.Handle).Process
}

// hookOf returns the current hook of an instance.
func (h *history) hookOf(name string) *hosttest.Process {
	return inspect(h.sup).instance(name).Run().Hook().Process().(*hosttest.Handle).Process
}

func (h *history) mustCommand(t *testing.T, op Op, name string) {
	t.Helper()
	if _, err := h.sup.Command(op, []string{name}, false, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
}

// TestCancel: a cancelled command gets no answer, while others do.
func TestCancel(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
		p.Autostart, p.Ready, p.StartTimeout = false, &config.Ready{Notify: true}, time.Hour
	})}})
	h.kernel.Mix.NeverReady = 1
	answers := map[string]int{}
	start := func(client string) (cancel func()) {
		cancel, err := h.sup.Command(OpStart, []string{"web"}, true, func([]CommandResult) { answers[client]++ })
		if err != nil {
			t.Fatal(err)
		}
		return cancel
	}
	start("waiting client")
	for range 10 {
		start("cancelled client")()
	}
	h.v.RunFor(time.Second)
	if n := len(inspect(h.sup).instance("web").waiters()); n != 1 {
		t.Errorf("%d clients wait, want 1", n)
	}
	h.mainOf("web").Notify(notify.Message{Ready: true})
	h.v.RunFor(time.Second)
	if answers["waiting client"] != 1 || answers["cancelled client"] != 0 {
		t.Errorf("answered: %v", answers)
	}
}

// TestFirstOfTwoEssentials: two essential programs end in one turn. The first one decides reason
// and status.
func TestFirstOfTwoEssentials(t *testing.T) {
	essential := func(p *config.Program) { p.Essential, p.Restart = true, config.RestartNever }
	firsts := map[int]bool{}
	for seed := uint64(1); seed <= 20; seed++ {
		h, ended := newFaultFree(seed, &config.Config{Programs: []*config.Program{programNamed("three", essential), programNamed("four", essential)}})
		h.mainOf("three").End(pidfd.Exit{Known: true, Code: 3})
		h.mainOf("four").End(pidfd.Exit{Known: true, Code: 4})
		if !ended() {
			t.Fatal("superd has not ended")
		}
		want := 3
		if strings.HasPrefix(inspect(h.sup).shutdownReason().String(), "four") {
			want = 4
		}
		if got := h.sup.ExitStatus(); got != want {
			t.Errorf("superd ends with %d since %s", got, inspect(h.sup).shutdownReason())
		}
		firsts[want] = true
	}
	if len(firsts) < 2 {
		t.Errorf("the first was %v each time", firsts)
	}
}

// TestEssentialBeforeShutdown: SIGTERM comes in the turn in which an essential program has ended.
func TestEssentialBeforeShutdown(t *testing.T) {
	h, ended := newFaultFree(1, &config.Config{Programs: []*config.Program{
		programNamed("main", func(p *config.Program) { p.Essential, p.Restart = true, config.RestartNever }),
	}})
	main := h.mainOf("main")
	in := inspect(h.sup).instance("main")
	main.End(pidfd.Exit{Known: true, Code: 3})
	for in.state() != fsm.Failed {
		h.v.Step()
	}
	h.sup.Shutdown("SIGTERM")
	if !ended() || h.sup.ExitStatus() != 3 {
		t.Errorf("superd ends with %d, want 3, the essential program's", h.sup.ExitStatus())
	}
}

func TestAllExited(t *testing.T) {
	never := func(p *config.Program) { p.Restart = config.RestartNever }
	noAutostart := func(p *config.Program) { p.Autostart = false }
	conf := func(programs ...*config.Program) *config.Config {
		slices.SortFunc(programs, func(a, b *config.Program) int { return strings.Compare(a.Name, b.Name) })
		return &config.Config{Superd: config.Superd{ExitWhen: config.ExitAllExited}, Programs: programs}
	}
	web, job, idle := programNamed("web", nil), programNamed("job", never), programNamed("idle", noAutostart)
	tests := []struct {
		name   string
		conf   *config.Config
		happen func(t *testing.T, h *history)
		want   bool
		status int
	}{
		{"one still runs", conf(web, job), func(_ *testing.T, h *history) { h.mainOf("job").End(exitZero) }, false, 0},
		{"nothing was ever started", conf(idle), func(t *testing.T, h *history) { h.mustCommand(t, OpStop, "idle") }, false, 0},
		{"the last one is stopped by the operator", conf(web, job), func(t *testing.T, h *history) {
			h.mainOf("job").End(exitThree)
			h.v.RunFor(time.Second)
			h.mustCommand(t, OpStop, "web")
		}, true, 3},
		{"the last one is stopped in backoff", conf(web, job, idle), func(t *testing.T, h *history) {
			h.mainOf("job").End(exitZero)
			h.mainOf("web").End(exitThree)
			h.v.RunFor(20 * time.Millisecond)
			if state := inspect(h.sup).instance("web").state(); state != fsm.Backoff {
				t.Fatalf("web is %v, want backoff", state)
			}
			h.mustCommand(t, OpStop, "web")
		}, true, 0},
		{"the last one is restarted", conf(web), func(t *testing.T, h *history) { h.mustCommand(t, OpRestart, "web") }, false, 0},
		{"the last one is stopped and started", conf(web), func(t *testing.T, h *history) {
			h.mustCommand(t, OpStop, "web")
			for inspect(h.sup).instance("web").state() != fsm.Stopped {
				h.v.Step()
			}
			h.mustCommand(t, OpStart, "web")
		}, false, 0},
		{"the last one is removed", conf(web, job), func(_ *testing.T, h *history) {
			h.mainOf("job").End(exitThree)
			h.v.RunFor(time.Second)
			inspect(h.sup).activate(conf(job))
		}, true, 3},
		{"the last one is replaced", conf(web, job), func(t *testing.T, h *history) {
			h.mainOf("job").End(exitZero)
			h.v.RunFor(time.Second)
			old := inspect(h.sup).instance("web")
			inspect(h.sup).activate(conf(job))
			inspect(h.sup).activate(conf(web, job))
			for old.state() != fsm.Stopped {
				h.v.Step()
			}
			if inspect(h.sup).allEnded() { // its last output may still be drained
				t.Error("all counted as ended before the replacement was created")
			}
		}, false, 0},
		{"the last one releases its log file to another", conf(web, job), func(_ *testing.T, h *history) {
			h.mainOf("job").End(exitZero)
			h.v.RunFor(time.Second)
			inspect(h.sup).activate(conf(job, programNamed("other", func(p *config.Program) { p.Log.File = "web.log" })))
		}, false, 0},
		{"a reload sets exit_when", &config.Config{Programs: conf(job).Programs}, func(_ *testing.T, h *history) {
			h.mainOf("job").End(exitThree)
			h.v.RunFor(time.Second)
			inspect(h.sup).activate(conf(job))
		}, true, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, ended := newFaultFree(1, tt.conf)
			if h.ended {
				t.Fatal("superd has ended at once")
			}
			tt.happen(t, h)
			if got := ended(); got != tt.want || h.sup.ExitStatus() != tt.status {
				t.Errorf("superd has ended: %v, status %d; want %v, %d", got, h.sup.ExitStatus(), tt.want, tt.status)
			}
		})
	}
}

// A readyRecorder is a Notifier that records when superd was ready.
type readyRecorder struct {
	noopNotifier
	v  *loop.Virtual
	at []time.Duration
}

func (r *readyRecorder) Ready(string) { r.at = append(r.at, r.v.Now()) }

// TestReady: superd is ready when all programs with autostart are spawned, or after maxReadyDelay.
func TestReady(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: maxReadyDelay} {
		h := newHistory(1, defect{}, false)
		h.kernel.Mix = hosttest.FaultMix{HookHangs: 1}
		o := h.options()
		notifier := &readyRecorder{v: h.v}
		o.Notify = notifier
		o.Config = &config.Config{Programs: []*config.Program{programNamed("web", nil), programNamed("db", func(p *config.Program) {
			p.PreStart, p.StartTimeout = [][]string{{hosttest.PreStartCommand}}, took
			p.Restart = config.RestartNever
		})}}
		h.sup = New(o)
		began := h.v.Now()
		h.sup.Start(func() {})
		h.v.RunFor(2 * time.Hour)
		if len(notifier.at) != 1 || notifier.at[0]-began < want || notifier.at[0]-began > want+time.Second {
			t.Errorf("with a hook of %v superd was ready %v after %v, want once after %v", took, notifier.at, began, want)
		}
	}
}

// TestRecoveryJudgesFirstFailed: superd begins again with exit_when = "any-failed". Two programs
// failed under its predecessor; the one that failed first decides the exit status.
func TestRecoveryJudgesFirstFailed(t *testing.T) {
	before := &config.Config{Programs: []*config.Program{programNamed("a", nil), programNamed("b", nil)}}
	after := &config.Config{Programs: before.Programs}
	after.Superd.ExitWhen = config.ExitAnyFailed
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{}, map[string]*model{}
	h.configs = []*config.Config{before, after}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{
		snapshot.SuperdKey: json.RawMessage(`{"config":1,"begun":true}`), snapshot.ConfigKey(1): json.RawMessage(`0`),
		snapshot.InstanceKey("a"): json.RawMessage(`{"config":1,"state":"failed","outcome":"failed","since":20,"desired":{"up":true},"exit":{"code":7,"known":true}}`),
		snapshot.InstanceKey("b"): json.RawMessage(`{"config":1,"state":"failed","outcome":"failed","since":10,"desired":{"up":true},"exit":{"code":9,"known":true}}`),
	}}
	o := h.options()
	o.Config = after
	o.Predecessor.Resumed, o.Predecessor.Snapshot = false, snapshot.Read(state, h.restore)
	h.adopting = true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		t.Fatal(err)
	}
	h.sup.Start(func() {})
	h.v.RunFor(time.Second)
	if h.sup.shutdown == nil || h.sup.ExitStatus() != 9 {
		t.Errorf("shutdown %v, status %d, want 9", h.sup.shutdown != nil, h.sup.ExitStatus())
	}
}
