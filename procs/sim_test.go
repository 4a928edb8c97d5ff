package procs

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
)

var (
	simHistories = flag.Int("sim.n", 2000, "number of simulated histories")
	simSeed      = flag.Uint64("sim.seed", 0, "replay the history of this seed alone, and show it")
)

// TestSimulation draws a world from each seed: programs, faults, an operator's commands and their moments. While faults
// happen, the invariants must hold at every step; when they have ceased, everything must come to rest as it is wanted.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		h := newHistory(*simSeed, true)
		err := h.run()
		t.Logf("seed %d:\n%s", *simSeed, strings.Join(h.lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	began := time.Now()
	var simulated time.Duration
	for seed := uint64(1); seed <= uint64(*simHistories); seed++ {
		h := newHistory(seed, false)
		if err := h.run(); err != nil {
			again := newHistory(seed, true)
			again.run()
			lines := again.lines[max(0, len(again.lines)-60):]
			t.Fatalf("seed %d: %v\n%s\nreplay with -sim.seed %d", seed, err, strings.Join(lines, "\n"), seed)
		}
		simulated += h.v.Now()
	}
	spent := time.Since(began)
	t.Logf("%d histories, %.0f hours simulated, %.0f histories a second", *simHistories, simulated.Hours(), float64(*simHistories)/spent.Seconds())
}

// A history is one simulated world.
type history struct {
	v      *loop.Virtual
	rng    *rand.Rand
	kernel *simKernel
	sup    *Supervisor
	conf   *config.Config

	wanted  map[string]bool // as the operator and the file have it, by instance
	downAt  map[string]time.Duration
	ended   bool
	pending int // commands whose outcome is not in
	err     error
	trace   bool
	lines   []string
}

// silent is the Notifier of the simulation.
type silent struct{}

func (silent) Ready(string)  {}
func (silent) Status(string) {}
func (silent) Reloading()    {}
func (silent) Stopping()     {}

func newHistory(seed uint64, trace bool) *history {
	h := &history{
		v:      loop.NewVirtual(seed),
		rng:    rand.New(rand.NewPCG(seed, 7)),
		wanted: map[string]bool{},
		downAt: map[string]time.Duration{},
		trace:  trace,
	}
	h.kernel = &simKernel{
		v: h.v, rng: h.rng, byPid: map[int]*simProcess{},
		note: h.note, fail: h.fail,
		mix: faultMix{
			crash:      h.pick(0, 0.5, 1),
			deaf:       h.pick(0, 0.2, 1),
			immortal:   h.pick(0, 0, 0.2),
			spawnFails: h.pick(0, 0.1, 0.7),
			shortage:   h.pick(0, 0.5, 1),
			spawnHangs: h.pick(0, 0, 0.1),
			slowSpawn:  time.Duration(h.pick(0, 0.01, 5) * float64(time.Second)),
			life:       time.Duration(h.pick(0.001, 1, 60) * float64(time.Second)),
			orphans:    h.pick(0, 0.3),
		},
	}
	h.conf = &config.Config{}
	for i := range 1 + h.rng.IntN(4) {
		h.conf.Programs = append(h.conf.Programs, h.drawProgram(fmt.Sprintf("p%d", i)))
	}
	h.sup = New(Options{
		Loop: h.v.Loop, System: h.kernel, Store: logs.NewStore(h.v.Loop, slog.New(slog.DiscardHandler)),
		Log: slog.New(simLog{h}), Notify: silent{}, Config: h.conf,
		Load: func() (*config.Config, error) { panic("the simulation reloads through apply") },
	})
	h.kernel.notify = h.sup.Children
	return h
}

func (h *history) pick(among ...float64) float64 { return among[h.rng.IntN(len(among))] }

func (h *history) note(format string, args ...any) {
	if h.trace {
		h.lines = append(h.lines, fmt.Sprintf("%12v  ", h.v.Now()-h.sup.startedAt)+fmt.Sprintf(format, args...))
	}
}

func (h *history) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
		h.note("VIOLATION: %v", h.err)
	}
}

func (h *history) drawProgram(name string) *config.Program {
	p := testProgram()
	p.Name = name
	p.Autostart = h.kernel.chance(0.8)
	p.Restart = []config.Restart{config.RestartAlways, config.RestartOnFailure, config.RestartNever}[h.rng.IntN(3)]
	p.Backoff.Jitter = h.pick(0, 0.5)
	p.StopTimeout = time.Duration(h.pick(0, 1, 10) * float64(time.Second))
	p.KillMode = []config.KillMode{config.KillTree, config.KillGroup, config.KillProcess}[h.rng.IntN(3)]
	if h.kernel.chance(0.3) {
		p.StartLimit = config.StartLimit{Failures: 1 + h.rng.IntN(5), Within: time.Minute, RetryAfter: time.Duration(h.pick(0, 10)) * time.Minute}
	}
	return p
}

// run lives through the history.
func (h *history) run() error {
	for _, p := range h.conf.Programs {
		h.want(p.Name, p.Autostart)
	}
	h.sup.Start(func() { h.ended = true })
	h.turns(time.Duration(h.rng.Int64N(int64(10 * time.Minute))))
	for range h.rng.IntN(30) {
		h.command()
		pause := time.Duration(h.rng.ExpFloat64() * h.pick(0.001, 1, 30) * float64(time.Second))
		h.turns(pause)
	}

	h.note("--- no more faults")
	h.kernel.mix = faultMix{}
	shutdown := h.kernel.chance(0.3)
	if shutdown {
		h.note("shutdown")
		h.sup.Shutdown("the simulation")
		for name := range h.wanted {
			h.want(name, false)
		}
	}
	h.turns(3 * time.Hour)
	if h.err == nil {
		h.checkRest(shutdown)
	}
	return h.err
}

func (h *history) want(name string, up bool) {
	h.wanted[name] = up
	h.downAt[name] = h.v.Now()
}

// command draws one command of the operator.
func (h *history) command() {
	if len(h.sup.instances) == 0 {
		h.reload()
		return
	}
	in := h.sup.instances[h.rng.IntN(len(h.sup.instances))]
	name := in.name
	switch draw := h.rng.IntN(10); {
	case draw < 9:
		op := []Op{OpStart, OpStop, OpRestart}[draw%3]
		h.note("%s %s", op, name)
		if op == OpStop || h.sup.refuses(op, in) == "" {
			h.want(name, op != OpStop)
		}
		h.pending++
		if _, err := h.sup.Command(op, []string{name}, true, func(outcomes []Outcome) {
			h.pending--
			h.note("%s %s: %v", op, name, outcomes)
		}); err != nil {
			h.fail("%s %s: %v", op, name, err)
		}
	default:
		h.reload()
	}
}

// reload draws a new configuration.
func (h *history) reload() {
	next := &config.Config{}
	old := map[string]*config.Program{}
	for _, p := range h.sup.config.Programs {
		old[p.Name] = p
	}
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		switch had := old[name]; {
		case h.kernel.chance(0.2): // not there, or removed
			if had != nil {
				h.want(name, false)
			}
		case had != nil && h.kernel.chance(0.7):
			next.Programs = append(next.Programs, had)
		default:
			p := h.drawProgram(name)
			next.Programs = append(next.Programs, p)
			heldDown := had != nil && !h.wanted[name]
			switch in := h.sup.byName[name]; {
			case had != nil && in.removed && in.nextWish == nil:
				h.want(name, p.Autostart) // it is yet to take its place
			case !heldDown:
				h.want(name, h.wanted[name] || p.Autostart)
			case p.Autostart && !had.Autostart && in.wish().by != operator:
				h.want(name, true)
			}
		}
	}
	h.note("reload: %v", names(next))
	h.sup.apply(next)
}

// wish returns what is wanted of the instance or of what will take its place.
func (in *instance) wish() wish {
	if in.nextWish != nil {
		return *in.nextWish
	}
	return in.machine.wanted
}

func names(c *config.Config) (all []string) {
	for _, p := range c.Programs {
		all = append(all, p.Name)
	}
	return all
}

// turns lets d pass, and checks after each turn.
func (h *history) turns(d time.Duration) {
	done := false
	h.v.Root().After(d, func() { done = true })
	for !done && h.err == nil && h.v.Step() {
		h.check()
	}
}

// check holds the invariants of every moment.
func (h *history) check() {
	now := h.v.Now()
	for _, in := range h.sup.instances {
		m := in.machine
		process := in.run != nil && in.run.process != nil
		switch m.state {
		case Running, Stopping, Killing:
			if !process {
				h.fail("%s is %s without a process", in.name, m.state)
			}
		case Spawning:
			if in.run == nil {
				h.fail("%s is starting without a run", in.name)
			}
		default:
			if in.run != nil || h.kernel.living(in.name) > 0 {
				h.fail("%s is %s with a run", in.name, m.state)
			}
		}
		if m.state == Backoff && in.restartTimer == nil {
			h.fail("%s is in back-off without a timer", in.name)
		}
		if m.wanted.up != h.wanted[in.name] && !in.removed {
			h.fail("%s: wanted up = %v, but it should be %v", in.name, m.wanted.up, h.wanted[in.name])
		}
		stopBound := in.program.StopTimeout + 10*time.Second + killPause
		if in.run != nil {
			stopBound = max(stopBound, in.run.program.StopTimeout+killPause) + 5*time.Second
		}
		if !m.wanted.up && !m.state.AtRest() && in.stuck == "" && now-h.downAt[in.name] > stopBound && m.state != Spawning {
			h.fail("%s is to be down since %v and still %s", in.name, now-h.downAt[in.name], m.state)
		}
	}
}

// checkRest holds what must be true when the faults have ceased long ago.
func (h *history) checkRest(shutdown bool) {
	if h.pending > 0 {
		h.fail("%d commands never came to an end", h.pending)
	}
	if shutdown != h.ended {
		h.fail("shutdown: asked for %v, complete %v", shutdown, h.ended)
	}
	live := 0
	for _, in := range h.sup.instances {
		m, p := in.machine, in.program
		n := h.kernel.living(in.name)
		live += n
		switch {
		case in.removed:
			h.fail("%s was removed and is still there: %s", in.name, m.state)
		case !m.wanted.up && (n > 0 || !m.state.AtRest()):
			h.fail("%s is to be down: %s with %d processes", in.name, m.state, n)
		case m.wanted.up && m.state == Running && n == 1:
		case m.wanted.up && m.state == Exited && p.Restart != config.RestartAlways:
		case m.wanted.up && m.state == Failed && (p.Restart == config.RestartNever || p.StartLimit.Failures > 0 && p.StartLimit.RetryAfter == 0):
		case m.wanted.up:
			h.fail("%s is to be up: %s with %d processes, reason %q", in.name, m.state, n, in.reason())
		}
	}
	if zombies := len(h.kernel.zombies); zombies > 0 {
		h.fail("%d zombies are left", zombies)
	}
	if k := h.kernel; k.spawned != k.reaped+live {
		h.fail("%d processes spawned, %d reaped, %d live", k.spawned, k.reaped, live)
	}
	if fds := h.v.OpenFDs(); fds != live {
		h.fail("%d descriptors are open, %d processes live", fds, live)
	}
}

// simLog puts superd's messages into the history.
type simLog struct{ h *history }

func (l simLog) Enabled(context.Context, slog.Level) bool { return l.h.trace }
func (l simLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l simLog) WithGroup(string) slog.Handler            { return l }
func (l simLog) Handle(_ context.Context, r slog.Record) error {
	text := "superd: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.h.note("%s", text)
	return nil
}
