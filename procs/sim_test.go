package procs

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"superd/config"
	"superd/config/directory"
	"superd/config/places"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/paths"
)

// maxSteps bounds the turns of a history; it is far more than any history needs.
const maxSteps = 200_000

// A history is one simulated life of superd, drawn from a seed.
type history struct {
	v      *loop.Virtual
	rng    *rand.Rand
	kernel *hosttest.Kernel
	sup    *Supervisor
	began  time.Duration
	defect defect

	mixedKillMode bool // whether kill_mode may be "mixed"
	directories   bool // whether programs may have directories
	drawsCommands bool // whether programs have commands beside the main process
	drawsForking  bool // whether programs go into the background
	drawsOutput   bool // whether log options and limits are drawn
	drawsStops    bool // whether kill signals, exit codes and sandboxes are drawn
	drawsRestarts bool // whether programs with a check_command are restarted
	// Checks before restarts that are under way, by instance, the oldest first
	checks map[string][]restartCheck
	// Whether a command is being given; later it is carried out after its checks
	commanding bool
	// Instances by the paths of their FIFOs
	fifos   map[string]string
	journal *simJournal
	events  *eventlog.Log  // event log of the next supervisors; nil: none
	file    *config.Config // configuration file as the operator wrote it
	configs []*config.Config
	crashes float64 // probability that superd is killed
	density float64 // probability that a program names another one

	// Runs that have spawned a process, or whose spawn is delayed by a hung worker
	spawnedRuns map[string]bool
	adopting    bool
	adopted     *config.Config // configuration of the predecessor, which a start may replace

	models      map[string]*model  // by instance
	observed    []observedInstance // in the order of the instances
	scales      map[string]int     // set by the operator, by program
	scaleEdits  int                // changes of scales so far
	lastCommand map[string]int     // number of the operator's last command, by instance
	// Time of the last reload, which may have shortened time-outs
	reloadedAt      time.Duration
	commands        int           // number of commands so far
	clockJumps      float64       // probability of a jump of the wall clock
	checksMayHang   bool          // whether checks may hang
	commandsMayFail bool          // whether exec checks may fail though the program is healthy
	commandsMayHang bool          // whether one may hang, so that later ones are not run
	wokeAt          time.Duration // end of the machine's last sleep, on CLOCK_BOOTTIME
	startedBoot     time.Duration // when the present superd began
	policy          policyModel
	rolling         rollModel
	listens         listenModel
	executes        executeModel
	files           filesModel
	graph           simGraph
	ended           bool
	pending         int        // commands without a result yet
	rules           *fsm.Table // with a planted defect; nil without one
	// Definitions whose place a defective one has in the machine
	altered        map[instanceView]*config.Program
	slicedShutdown bool          // whether a shutdown stops one instance a turn
	now            time.Duration // time of the last check
	slept          time.Duration // CLOCK_BOOTTIME less the loop's clock
	err            error
	steps          int
	trace          bool
	lines          []string
}

// noopNotifier is the Notifier of the simulation.
type noopNotifier struct{}

func (noopNotifier) Ready(string)  {}
func (noopNotifier) Status(string) {}
func (noopNotifier) Reloading()    {}
func (noopNotifier) Stopping()     {}

func newHistory(seed uint64, d defect, trace bool) *history {
	h := &history{
		v:              loop.NewVirtual(seed),
		rng:            rand.New(rand.NewPCG(seed, 7)),
		models:         map[string]*model{},
		spawnedRuns:    map[string]bool{},
		scales:         map[string]int{},
		lastCommand:    map[string]int{},
		defect:         d,
		trace:          trace,
		altered:        map[instanceView]*config.Program{},
		slicedShutdown: seed%2 == 0,
		mixedKillMode:  seed%8 == 1,
		directories:    seed%8 == 5,
		drawsCommands:  seed%8 == 4,
		drawsForking:   seed%8 == 6,
		drawsOutput:    seed%8 == 3,
		drawsStops:     seed%8 == 2,
		drawsRestarts:  seed%16 == 12,
		checks:         map[string][]restartCheck{},
		fifos:          map[string]string{},
	}
	h.listens, h.executes, h.files = newListenModel(seed), newExecuteModel(seed), newFilesModel(seed)
	h.rolling = rollModel{drawn: seed%8 == 0, failed: map[string]bool{}, extras: map[instanceView]bool{}, staged: map[string]time.Duration{}, begun: map[string]bool{}}
	h.kernel = hosttest.New(h.v, h.rng, h.fail)
	h.kernel.Mix = hosttest.FaultMix{
		Crash:       h.pick(0, 0.5, 1),
		IgnoresStop: h.pick(0, 0.2, 1),
		SlowStop:    0.5,
		ProcessScan: 0.5,
		Unkillable:  h.pick(0, 0, 0.2),
		SpawnFails:  h.pick(0, 0.1, 0.7),
		Shortage:    h.pick(0, 0.5, 1),
		SpawnHangs:  h.pick(0, 0, 0.1),
		ExecHangs:   h.pick(0, 0, 0.05),
		LateResult:  time.Duration(h.pick(0, 3) * float64(time.Second)),
		WatchFails:  h.pick(0, 0, 0.2),
		SlowSpawn:   time.Duration(h.pick(0, 0.01, 5) * float64(time.Second)),
		Lifetime:    time.Duration(h.pick(0.001, 1, 60) * float64(time.Second)),
		Orphans:     h.pick(0, 0.3),
		Forks:       h.pick(0, 0.3),
		HookFails:   h.pick(0, 0.3),
		HookHangs:   h.pick(0, 0, 0.1),
		HookTime:    time.Second,
		RunTime:     time.Duration(h.pick(1, 30, 90) * float64(time.Second)),
		ForkTime:    time.Duration(h.pick(0, 0, 0.3) * float64(time.Second)),
		SlowReap:    h.pick(0, 0.5),
		ExitInfo:    h.pick(0, 1),
		NeverReady:  h.pick(0, 0.2, 0.7),
		SlowReady:   time.Duration(h.pick(0, 1, 10) * float64(time.Second)),
		Unhealthy:   h.pick(0, 0, 0.3),
		Reloads:     h.pick(0, 0, 0.3),
		CheckHangs:  h.pick(0, 0, 0.1),
		Handover:    h.pick(0, 0.5),
	}
	if h.drawsForking {
		h.kernel.Mix.NoLaunch, h.kernel.Mix.NoPIDFile = h.pick(0, 0.3), h.pick(0, 0.2)
		h.kernel.Mix.SlowLaunch = time.Duration(h.pick(0, 0.05, 3) * float64(time.Second))
	}
	if trace {
		h.kernel.Logf = h.logf
	}
	h.kernel.LearnsLate = host.UnwatchedPause + 100*time.Millisecond
	h.kernel.Defects = d.kernel
	if seed%16 == 13 {
		// A condition, so that the histories of other seeds stay the same
		h.kernel.Mix.StartLoggedEarly = 0.5
	}
	if seed%8 == 6 {
		h.kernel.Mix.ForkHangs = 0.1
	}
	if h.directories && seed%16 == 13 {
		h.kernel.Mix.DirectoryFails, h.kernel.Mix.DirectoryStays = 0.1, 0.2
	}
	if h.drawsStops {
		h.kernel.Mix.TmpStays, h.kernel.Mix.SandboxLacks = 0.3, 0.3
	}
	if d.mix != nil {
		d.mix(&h.kernel.Mix)
	}
	if d.rules != nil {
		h.rules = fsm.Rules()
		d.rules(h.rules)
	}
	h.began = h.v.Now()
	h.v.RefuseClockWatch(d.missesClockChanges)
	h.startedBoot, h.slept = h.v.Boot(), h.v.Boot()-h.v.Now()
	h.crashes = h.pick(0, 0, 0.1, 0.5)
	h.clockJumps = h.pick(0, 0, 0.2)
	h.kernel.Keeper = h.chance(0.5)
	h.kernel.StoresFDs = h.kernel.Keeper && seed%8 == 7
	if h.listens.drawn {
		h.listens.begin(h)
	}
	h.commandsMayHang = h.kernel.Mix.SpawnHangs+h.kernel.Mix.ExecHangs+h.kernel.Mix.Unkillable > 0
	h.checksMayHang, h.commandsMayFail = h.kernel.Mix.CheckHangs > 0, h.kernel.Mix.AffectsCommands()
	h.kernel.IsRunning = func(instance string) bool {
		in := inspect(h.sup).instance(instance)
		return in.exists() && in.state() == fsm.Running
	}
	h.kernel.IsExtra = h.wasExtra
	h.kernel.ReportExit = func(e host.StoredExit) {
		if !inspect(h.sup).killed() {
			h.sup.OnStoredExit(e)
		}
	}
	if h.drawsOutput {
		h.kernel.OnAdopt = h.checkRecovered
	}
	if h.drawsCommands {
		h.kernel.OnStopSignal = h.checkStopCommand
	}
	h.kernel.OnAcknowledge = h.checkAcknowledged
	h.density = h.pick(0, 0.2, 0.6)
	h.kernel.OnSpawn = func(spec *host.SpawnSpec) {
		run, _ := spec.Own.Get("SUPERD_INVOCATION_ID")
		h.checkStart(run, spec.Name)
		if d.spawn != nil && (h.drawsOutput || h.listens.drawn) {
			d.spawn(spec)
		}
		if h.drawsOutput {
			h.checkSpawn(spec)
		}
	}
	h.journal = newSimJournal(h, time.Duration(h.pick(0, 0.001, 1)*float64(time.Second)))
	if seed%8 == 1 {
		// A generator of its own, so that other histories stay the same
		h.journal.full = rand.New(rand.NewPCG(seed, 8))
	}
	if d.onUnkillable != nil {
		h.kernel.OnWaitsIn = func(instance string) { d.onUnkillable(inspect(h.sup).instance(instance)) }
	}
	conf := &config.Config{}
	conf.Superd.ExitWhen = h.drawExitWhen()
	for i := range 1 + h.rng.IntN(4) {
		conf.Programs = append(conf.Programs, h.drawProgram(fmt.Sprintf("p%d", i)))
	}
	h.drawDependencies(conf, nil)
	separateLogFiles(conf, nil)
	h.drawSockets(conf, nil, nil)
	h.logf("%v", showDependencies(conf))
	h.file = conf
	h.sup = h.newSupervisor(h.options())
	return h
}

// newSupervisor returns a new superd with the planted defect.
func (h *history) newSupervisor(o Options) *Supervisor {
	s := New(o)
	if h.defect.supervisor != nil {
		h.defect.supervisor(s)
	}
	return s
}

// options returns the options of a new superd.
func (h *history) options() Options {
	o := Options{
		Loop: h.v.Loop, Host: h.kernel, Store: logs.NewStore(h.v.Loop, slog.New(slog.DiscardHandler)),
		Log: slog.New(simLog{h}), Notify: noopNotifier{}, Config: h.file, Journal: h.journal, Events: h.events,
		Load: func(*config.Config, func(string)) (*config.Config, error) {
			panic("the simulation reloads through apply")
		},
		Archive: h.archive, Seed: h.seed(),
		Predecessor: Predecessor{StoredFDs: h.kernel.PassFDs()},
		Identity:    Identity{BootID: "boot", Machine: "simulated"},
		Paths:       paths.Paths{FIFODir: "fifo", NotifyDir: "notify", Directories: places.RootsOf(nil, 0)},
		tests:       testSettings{rules: h.rules, onCommand: h.onCommand, onFileChange: h.onFileChange, rollLimits: h.defect.rollLimits},
	}
	if h.kernel.Keeper {
		o.Keeper = h.kernel
	}
	if h.slicedShutdown {
		o.tests.stopBatch = 1 // few instances, so that a shutdown takes several turns
	}
	h.kernel.SIGCHLD = func() { h.sup.ScheduleReap() } // no effect after the end of the supervisor
	return o
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// seed returns a different seed for each superd, so that no two runs have the same invocation ID.
func (h *history) seed() (seed [32]byte) {
	binary.LittleEndian.PutUint64(seed[:], h.v.Turns())
	return seed
}

// chance reports true with probability p.
func (h *history) chance(p float64) bool { return p > 0 && h.rng.Float64() < p }

func (h *history) pick(choices ...float64) float64 { return choices[h.rng.IntN(len(choices))] }

// upTo returns a duration below d, or 0.
func (h *history) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(h.rng.Int64N(int64(d)))
}

func (h *history) logf(format string, args ...any) {
	if h.trace {
		h.lines = append(h.lines, fmt.Sprintf("%12v  ", h.v.Now()-h.began)+fmt.Sprintf(format, args...))
	}
}

func (h *history) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
		h.logf("VIOLATION: %v", h.err)
	}
}

func (h *history) drawExitWhen() config.ExitWhen {
	if h.chance(0.85) {
		return config.ExitNever
	}
	return []config.ExitWhen{config.ExitAllExited, config.ExitAnyFailed}[h.rng.IntN(2)]
}

func (h *history) drawProgram(name string) *config.Program {
	p := testProgram()
	p.Name = name
	p.Autostart = h.chance(0.8)
	if h.chance(0.2) {
		p.Replicas = h.rng.IntN(4)
	}
	p.Restart = []config.Restart{config.RestartAlways, config.RestartOnFailure, config.RestartNever}[h.rng.IntN(3)]
	p.Essential = h.chance(0.05)
	if h.chance(0.2) {
		p.SuccessExitCodes = []int{0, 2}
	}
	p.Backoff.Jitter = h.pick(0, 0.5)
	p.StartTimeout = time.Duration(h.pick(30, 30, 1, 0.1) * float64(time.Second))
	p.StopTimeout = time.Duration(h.pick(0, 1, 10) * float64(time.Second))
	p.KillMode = []config.KillMode{
		config.KillMainFirst, config.KillTree, config.KillGroup, config.KillProcess,
	}[h.rng.IntN(4)]
	// Drawn for some seeds only, so that the histories of others stay the same
	if h.mixedKillMode && p.KillMode == config.KillTree {
		p.KillMode = config.KillMixed
	}
	if h.directories && h.chance(0.5) {
		p.Directories[directory.Runtime].Names = []string{name + "-${SUPERD_REPLICA}"}
		p.RuntimeDirectoryPreserve = h.chance(0.2)
	}
	h.kernel.AllowKillMode(name, p.KillMode)
	if h.chance(0.3) {
		p.StartLimit = config.StartLimit{Failures: 1 + h.rng.IntN(5), Within: time.Minute, RetryAfter: time.Duration(h.pick(0, 10)) * time.Minute}
	}
	if h.chance(0.2) {
		p.PreStart = slices.Repeat([][]string{{hosttest.PreStartCommand}}, 1+h.rng.IntN(2))
	}
	if h.chance(0.2) {
		p.PostStop = slices.Repeat([][]string{{hosttest.PostStopCommand}}, 1+h.rng.IntN(2))
	}
	if p.Restart != config.RestartAlways && h.chance(0.3) {
		p.Type = config.TypeOneshot
		if h.chance(0.6) {
			h.drawSchedule(p)
		}
	}
	h.drawChecks(p)
	if h.drawsForking {
		h.drawForking(p)
	}
	if h.drawsCommands {
		h.drawCommands(p)
	}
	if h.drawsOutput {
		h.drawOutput(p)
	}
	if h.drawsStops {
		h.drawStops(p)
	}
	if h.rolling.drawn {
		h.drawRolling(p)
	}
	if h.files.drawn {
		h.drawWatch(p)
	}
	return p
}

// drawForking lets most services go into the background.
func (h *history) drawForking(p *config.Program) {
	if p.Type == config.TypeOneshot || h.chance(0.3) {
		return
	}
	p.Type = config.TypeForking
	if h.chance(0.6) {
		p.PIDFile = "/run/${SUPERD_INSTANCE}.pid"
	}
	if p.Ready != nil && (p.Ready.Notify || p.Ready.FD != 0) {
		p.Ready = nil
	}
}

// run runs the history to its end. A panic is a violation, too.
func (h *history) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.fail("panic: %v\n%s", p, debug.Stack())
			err = h.err
		}
	}()
	for _, p := range inspect(h.sup).config().Programs {
		for _, name := range p.Instances() {
			h.models[name] = &model{wantUp: p.Autostart}
		}
	}
	if h.defect.beforeStart != nil {
		for in := range inspect(h.sup).instances() {
			h.defect.beforeStart(in)
		}
	}
	h.sup.Start(func() { h.ended = true })
	h.runChecked(time.Duration(h.rng.Int64N(int64(10 * time.Minute))))
	for range h.rng.IntN(30) {
		if h.chance(0.2) {
			h.runUntilHookEnds()
		}
		if h.ended {
			break
		}
		if h.chance(h.clockJumps) {
			if h.chance(0.5) {
				h.runUntilStarting()
			}
			h.changeClock()
		}
		if h.ended {
			break
		}
		if h.listens.drawn && h.listens.rng.IntN(2) == 0 {
			h.connect()
		}
		if h.files.drawn && h.files.rng.IntN(2) == 0 {
			if h.changeFiles(); h.ended {
				break
			}
		}
		h.command()
		h.check()
		if h.chance(h.crashes) {
			h.steps += h.rng.IntN(20)
			for range h.rng.IntN(20) {
				if h.err == nil && !h.ended && h.v.Step() {
					h.check()
				}
			}
			h.crash()
		}
		if h.chance(0.8) {
			h.runChecked(time.Duration(h.rng.ExpFloat64() * h.pick(0.001, 1, 30) * float64(time.Second)))
		}
	}

	h.logf("--- no more faults")
	h.kernel.Mix = hosttest.FaultMix{RunTime: time.Minute}
	if h.chance(0.3) {
		h.logf("shutdown")
		h.policy.shutdownRequested = true
		h.sup.Shutdown("the simulation")
		h.check()
		if h.chance(h.crashes) {
			h.runChecked(h.upTo(20 * time.Second))
			h.crash()
		}
	}
	h.runChecked(75 * time.Minute) // longer than a spawn hangs
	h.kernel.Mix = hosttest.FaultMix{}
	h.runChecked(30 * time.Minute)
	for h.err == nil && h.changePending() && h.v.Step() {
		h.check()
	}
	if h.err == nil {
		h.checkRest()
	}
	h.killSuperd() // ends its tasks, too
	return h.err
}

// killSuperd closes the scope of superd, with which all its descriptors are closed.
func (h *history) killSuperd() {
	inspect(h.sup).kill()
	h.kernel.KillSupervisor()
	if n := h.v.OpenFDs(); n > 0 {
		h.fail("%d descriptors are open after the scope of superd is closed", n)
	}
}

// changePending reports whether a start, a teardown or the report of an exit is under way.
func (h *history) changePending() bool {
	justEnded := func(z *hosttest.Process) bool { return h.v.Now()-h.kernel.EndedAt(z.Pid) < time.Second }
	return inspect(h.sup).inState(fsm.Spawning)+inspect(h.sup).inState(fsm.TearingDown)+h.kernel.Forks() > 0 || slices.ContainsFunc(h.kernel.Zombies(), justEnded)
}

// runUntilHookEnds runs the history until a hook has ended, but at most 10 seconds. superd does not
// know of the end yet.
func (h *history) runUntilHookEnds() {
	ends, late := h.kernel.HookEnds(), false
	h.v.Root().After(10*time.Second, func() { late = true })
	for !late && h.kernel.HookEnds() == ends && h.err == nil && h.v.Step() {
		h.steps++
		h.check()
	}
}

// runUntilStarting runs the history until an instance is starting, but at most a minute.
func (h *history) runUntilStarting() {
	late := false
	h.v.Root().After(time.Minute, func() { late = true })
	for !late && inspect(h.sup).inState(fsm.Starting) == 0 && h.err == nil && h.v.Step() {
		h.steps++
		h.check()
	}
}

// runChecked runs the history for d, and checks the invariants after each turn.
func (h *history) runChecked(d time.Duration) {
	done := false
	h.v.Root().After(d, func() { done = true })
	for !done && h.err == nil && h.v.Step() {
		if h.steps++; h.steps > maxSteps {
			h.fail("no progress after %d turns", h.steps)
		}
		h.check()
	}
}

// A simLog adds superd's log to the history.
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
	l.h.logf("%s", text)
	return nil
}
