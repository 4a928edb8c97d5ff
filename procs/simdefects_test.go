package procs

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/deps"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/rolling"
	"superd/procs/snapshot"
	"superd/tests/golden"
)

// A defect is planted to check that the simulation finds it.
type defect struct {
	from     uint64 // first seed, if it is found late; 0: 1
	name     string
	rules    func(*fsm.Table)
	kernel   hosttest.Defects // in the host
	logFiles bool             // no defect: reloads move log files from one program to another
	// Changes the definition that the machines use; the observer keeps the original
	program       func(p *config.Program)
	keepsFailures bool // reset-failed has no effect
	// Changes a new superd
	supervisor func(*Supervisor)
	// Changes what superd requests of the host at a spawn
	spawn func(spec *host.SpawnSpec)
	// Called for each instance after each turn
	eachTurn func(in instanceView)
	// Called for each instance before superd begins
	beforeStart func(in instanceView)
	// Changes the limits that rolls keep
	rollLimits func(*rolling.Limits)
	// Changes the comparison that a reload applies
	reload             func(h *history, diff *config.Diff)
	missesClockChanges bool // changes of the wall clock go unnoticed
	// The operator is answered before the desired state is written
	answersUnsaved     bool
	neverWrites        bool // The journal writes only what superd waits for
	ignoresWriteErrors bool // A failure to write a desired state goes unnoticed
	// Changes the snapshot that superd reads of its predecessor
	recovery func(h *history, r *snapshot.Snapshot)
	// Called when superd is about to report a process of the instance as unkillable
	onUnkillable func(in instanceView)
	// Raises the probabilities of relevant faults
	mix func(*hosttest.FaultMix)
}

var defects = []defect{
	{name: "a start during a stop is not refused", rules: func(r *fsm.Table) { r[fsm.Stopping][fsm.WantUp] = fsm.To(fsm.Spawning, fsm.Spawn) }},
	{name: "a start in backoff forgets the pending restart", rules: func(r *fsm.Table) { r[fsm.Backoff][fsm.WantUp] = fsm.To(fsm.Spawning, fsm.Spawn) }},
	{name: "a stop in backoff forgets the pending restart", rules: func(r *fsm.Table) { r[fsm.Backoff][fsm.WantDown] = fsm.To(fsm.Stopped) }},
	{name: "a stop during a spawn is forgotten", rules: func(r *fsm.Table) { r[fsm.Spawning][fsm.SpawnedOutdated] = fsm.To(fsm.Running) }},
	{name: "a hanging spawn is not cancelled", rules: func(r *fsm.Table) { r[fsm.Spawning][fsm.WantDown] = fsm.To(fsm.Spawning) }},
	{name: "the stop time-out is not armed", rules: func(r *fsm.Table) { r[fsm.Running][fsm.WantDown] = fsm.To(fsm.Stopping, fsm.SignalStop) }},
	{name: "SIGKILL is not sent", rules: func(r *fsm.Table) { r[fsm.Stopping][fsm.StopTimeout] = fsm.To(fsm.Killing, fsm.ArmKill) }},
	{name: "the stop signal is not sent", rules: func(r *fsm.Table) { r[fsm.Running][fsm.Restart] = fsm.To(fsm.Stopping) }},
	{name: "the stop signal reaches processes besides the main one", eachTurn: inMode(config.KillTree, config.KillMainFirst, config.KillMixed)},
	{name: "processes that kill_mode spares are ended", eachTurn: inMode(config.KillMainFirst, config.KillProcess)},
	{name: "an unkillable process is not reported", rules: func(r *fsm.Table) { r[fsm.Killing][fsm.KillTimeout] = fsm.To(fsm.Killing) }},
	{name: "the restart timer is not armed", rules: func(r *fsm.Table) { r[fsm.Running][fsm.RunEndedRetry] = fsm.To(fsm.Backoff, fsm.EndRun) }},
	{name: "the slow retry is not armed", rules: func(r *fsm.Table) { r[fsm.Running][fsm.RunEndedStartLimit] = fsm.To(fsm.Failed, fsm.EndRun) }},
	{name: "the end of a run does not close its scope", rules: func(r *fsm.Table) { r[fsm.Stopping][fsm.RunEndedRestart] = fsm.To(fsm.Spawning, fsm.Spawn) }},
	{name: "a crash is not followed by a teardown", rules: func(r *fsm.Table) { r[fsm.Running][fsm.MainExited] = fsm.To(fsm.Backoff, fsm.EndRun, fsm.ArmRestart) }},
	{name: "a restart during the teardown is forgotten", rules: func(r *fsm.Table) { r[fsm.TearingDown][fsm.RunEndedRestart] = fsm.To(fsm.Stopped, fsm.EndRun) }},
	{name: "a restart of a running program is ignored", rules: func(r *fsm.Table) { r[fsm.Running][fsm.Restart] = fsm.To(fsm.Running) }},
	{name: "reaping takes a new child for an orphan", kernel: hosttest.Defects{NoReapGate: true}},
	{name: "reaping waits for a hanging start, and later starts wait for reaping", kernel: hosttest.Defects{ReapWaitsForForks: true}},
	{name: "a child that hangs before its exec is not killed", kernel: hosttest.Defects{NoKillBeforeExec: true}},
	{name: "the backoff never resets", program: func(p *config.Program) { p.Backoff.ResetAfter = 1000 * time.Hour }},
	{name: "the backoff does not grow", program: func(p *config.Program) { p.Backoff.Factor = 1 }},
	{name: "the backoff has no maximum", program: func(p *config.Program) { p.Backoff.Max = 1000 * time.Hour }},
	{name: "the start limit is not counted", program: func(p *config.Program) { p.StartLimit.Failures = 0 }},
	{name: "a hook's time-out during its fork is lost", mix: func(m *hosttest.FaultMix) {
		m.HookHangs, m.ForkTime = 0.5, 300*time.Millisecond
	}, eachTurn: instanceView.SpareHook},
	{name: "the exit status of a failed essential program is lost", eachTurn: instanceView.forgetExitStatus},
	{name: "the final end of an essential program is ignored", eachTurn: instanceView.ignoreFinalExits},
	{name: "exit_when all-exited is ignored", eachTurn: instanceView.ignoreAllEnded},
	{name: "a command is not answered when the program is unkillable", onUnkillable: instanceView.delayWaiters},
	{name: "a command is answered before it is in the journal", answersUnsaved: true},
	{name: "a command that can't be recorded is answered as if it were", ignoresWriteErrors: true},
	{name: "a record is never written", neverWrites: true},
	{name: "a start is not recorded", kernel: hosttest.Defects{NoStartRecords: true}},
	{name: "unrecorded starts are not searched for", kernel: hosttest.Defects{NoSearch: true}},
	{name: "a process is adopted by its pid alone", kernel: hosttest.Defects{AdoptsByPid: true}},
	{name: "an unknown exit status is invented", kernel: hosttest.Defects{InventsExits: true}},
	{name: "the desired state is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) { v.Desired.Up = true })},
	{name: "the counters are not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) { v.RestartAttempts, v.Failures = 0, nil })},
	{name: "recovery begins a stop time-out anew", recovery: everyInstance(func(h *history, v *snapshot.Instance) {
		if v.Run != nil && v.Run.StopDeadline > h.v.Now() {
			v.Run.StopDeadline = h.v.Now() + 10*time.Second
		}
	})},
	{name: "recovery begins a restart delay anew", recovery: everyInstance(func(h *history, v *snapshot.Instance) {
		if v.Due != nil && *v.Due > h.v.Now() {
			v.Due = new(h.v.Now() + v.Delay)
		}
	})},
	{name: "recovery forgets leftover processes", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.State == fsm.TearingDown.Name() {
			v.State, v.Run = fsm.Stopped.Name(), nil
		}
	})},
	{name: "recovery forgets a running hook", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.Run != nil {
			v.Run.Hook = nil
		}
	})},
	{name: "a scheduled run is not started", rules: func(r *fsm.Table) { r[fsm.Waiting][fsm.WantUp] = fsm.To(fsm.Waiting) }},
	{name: "a scheduled program stays down after its first run", rules: func(r *fsm.Table) { r[fsm.Running][fsm.RunEndedWait] = fsm.To(fsm.Exited, fsm.EndRun) }},
	{name: "changes of the clock and sleeps of the machine go unnoticed", missesClockChanges: true},
	{name: "the state of a schedule is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) { v.Schedule = nil })},
	{name: "a pending run is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) { v.RunPending = false })},
	{name: "a rolling restart takes down more replicas than it may", rollLimits: func(l *rolling.Limits) { l.MaxUnavailable += 2 }},
	{name: "a rolling restart goes on after a failure", from: 7000, rollLimits: func(l *rolling.Limits) { l.Abort = false }},
	{name: "a rolling restart is not recovered", recovery: func(_ *history, r *snapshot.Snapshot) { clear(r.Rolls) }},
	{name: "the turns of a rolling restart are not recovered", recovery: func(_ *history, r *snapshot.Snapshot) {
		for name, roll := range r.Rolls {
			roll.Turns = nil
			r.Rolls[name] = roll
		}
	}},
	{name: "a start record lacks the time of the schedule", mix: func(m *hosttest.FaultMix) {
		m.StartLoggedEarly, m.ForkTime = 1, 300*time.Millisecond
	}, recovery: func(_ *history, r *snapshot.Snapshot) {
		for _, b := range r.Starts {
			b.Schedule = nil
		}
	}},
	{name: "a program starts before its requirements are ready", rules: func(r *fsm.Table) { r[fsm.Stopped][fsm.Wait] = fsm.To(fsm.Spawning, fsm.Spawn) }},
	{name: "an ordering is ignored when both are started at once", beforeStart: withRequirements(func(_, _ []int32, orderings *int32) { *orderings = 0 })},
	{name: "a program stopped for a lost requirement restarts at once", rules: func(r *fsm.Table) { r[fsm.Stopping][fsm.RunEndedWait] = fsm.To(fsm.Spawning, fsm.EndRun, fsm.Spawn) }},
	{name: "a stop does not wait for dependents", rules: func(r *fsm.Table) { r[fsm.Running][fsm.DeferStop] = fsm.To(fsm.Stopping, fsm.SignalStop, fsm.ArmStop) }},
	{name: "a pending stop is never carried out", rules: func(r *fsm.Table) { r[fsm.StopPending][fsm.Restart] = fsm.To(fsm.StopPending) }},
	{name: "a wait after backoff keeps the timer", rules: func(r *fsm.Table) { r[fsm.Backoff][fsm.Wait] = fsm.To(fsm.Waiting) }},
	{name: "a change is not propagated to dependents", eachTurn: instanceView.dropReconciliation},
	{name: "requirements that are down are not counted", eachTurn: withRequirements(func(required, _ []int32, _ *int32) { required[deps.Down] = 0 })},
	{name: "a wait is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.State == fsm.Waiting.Name() {
			v.State = fsm.Stopped.Name()
		}
	})},
	{name: "a pending stop is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.State == fsm.StopPending.Name() {
			v.State = fsm.Running.Name()
		}
	})},
	{name: "a program counts as ready once started", rules: func(r *fsm.Table) { r[fsm.Spawning][fsm.SpawnedUnready] = fsm.To(fsm.Running, fsm.StartMonitoring) }},
	{name: "a program that is not ready in time is not stopped", rules: func(r *fsm.Table) { r[fsm.Starting][fsm.StartTimeout] = fsm.To(fsm.Starting) }},
	{name: "the command of a forking program is taken for its main process", eachTurn: instanceView.TakeCommandForMain},
	{name: "readiness is not noticed", eachTurn: instanceView.IgnoreReadiness},
	{name: "a dependent starts while its requirement is starting", eachTurn: withRequirements(func(required, _ []int32, _ *int32) { required[deps.Coming] = 0 })},
	{name: "a wait for readiness is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.State == fsm.Starting.Name() {
			v.State = fsm.Running.Name()
		}
	})},
	{name: "recovery begins a start time-out anew", recovery: everyInstance(func(h *history, v *snapshot.Instance) {
		if r := v.Run; r != nil && r.StartDeadline > h.v.Now() {
			r.StartDeadline = h.v.Now() + time.Minute
		}
	})},
	{name: "what the operator executes outlives the program", kernel: hosttest.Defects{SparesExecuted: true}},
	{name: "a message is read before its consequences are saved", kernel: hosttest.Defects{DropsUnsaved: true}},
	{name: "a change of the main process goes unnoticed", kernel: hosttest.Defects{IgnoresMainPID: true}},
	{name: "a process of another program is taken as the main one", kernel: hosttest.Defects{AnyMain: true}},
	{name: "an unhealthy program is not restarted", rules: func(r *fsm.Table) { r[fsm.Running][fsm.HealthFailed] = fsm.To(fsm.Running) }},
	{name: "a program is checked while it stops", eachTurn: instanceView.MonitorDuringStop},
	{name: "monitoring does not resume after superd was killed", eachTurn: instanceView.EndMonitoring},
	{name: "a watchdog time-out is ignored", rules: func(r *fsm.Table) { r[fsm.Running][fsm.WatchdogTimeout] = fsm.To(fsm.Running) }},
	{name: "a failed check counts during a reload of the program", eachTurn: instanceView.EndReload},
	{name: "a change that needs a restart is not applied", reload: everyChange(config.RestartNeeded, func(h *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Environment = inspect(h.sup).config().Program(c.Name).Environment })
	})},
	{name: "a change that applies live restarts the program", reload: everyChange(config.AppliedLive, func(_ *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Environment = map[string]string{"N": "another"} })
	})},
	{name: "a removed program stays", reload: everyChange(config.ProgramRemoved, func(_ *history, c *config.Change) { c.Kind = config.Unchanged })},
	{name: "an added program is not created", reload: everyChange(config.ProgramAdded, func(_ *history, c *config.Change) { c.Kind = config.Unchanged })},
	{name: "a changed restart policy is ignored", reload: everyChange(config.AppliedLive, func(h *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Restart = inspect(h.sup).config().Program(c.Name).Restart })
	})},
	{name: "the operator's scale is not recovered", recovery: func(_ *history, r *snapshot.Snapshot) { clear(r.Scales) }},
	{name: "standard error goes where standard output goes", spawn: func(spec *host.SpawnSpec) {
		if len(spec.Outputs) == 2 {
			spec.Outputs[1].FIFO = spec.Outputs[0].FIFO
		}
	}},
	{name: "a process writes to the FIFO of another instance", spawn: func(spec *host.SpawnSpec) {
		for i := range spec.Outputs {
			spec.Outputs[i].FIFO = fmt.Sprint("fifo/", i)
		}
	}},
	{name: "a process starts without its limits", spawn: func(spec *host.SpawnSpec) {
		spec.Program = altered(spec.Program, func(p *config.Program) { p.Limits = config.Limits{} })
	}},
	{name: "a program with format direct writes to a FIFO", spawn: func(spec *host.SpawnSpec) {
		for i := range spec.Outputs {
			spec.Outputs[i].Direct = nil
		}
	}},
	{name: "a recovered run has the limits of the newest definition", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.Run != nil {
			v.Run.Definition = nil
		}
	})},
	{name: "the output of a run moves with a reload", eachTurn: instanceView.followLogOptions},
	{name: "a start that hangs before its fork is not reported", eachTurn: instanceView.HideHungStart},
	{name: "the end of a process that can't be watched goes unnoticed", kernel: hosttest.Defects{NoPolling: true}},
	{name: "a stored descriptor is never released", kernel: hosttest.Defects{NoDiscard: true}},
	{name: "the name of a stored descriptor is reused", eachTurn: instanceView.reuseNames},
	{name: "a program is ready before its post_start hooks", eachTurn: withoutKey(func(p *config.Program) { p.PostStart = nil })},
	{name: "a reload does not check the configuration", eachTurn: withoutKey(func(p *config.Program) {
		if len(p.ReloadCommand) > 0 || p.ReloadSignal != 0 {
			p.CheckCommand = nil
		}
	})},
	{name: "a reload is answered before its command has ended", eachTurn: func(in instanceView) { in.AnswerReload() }},
	{name: "a failed check does not prevent a restart", eachTurn: func(in instanceView) { in.PassChecks() }},
	{name: "stop_command is not run", eachTurn: withoutKey(func(p *config.Program) { p.StopCommand = nil })},
	{name: "the stop signal does not wait for stop_command", eachTurn: func(in instanceView) { in.SignalBesideCommand() }},
	{name: "SIGKILL is sent instead of kill_signal", eachTurn: withoutKey(func(p *config.Program) { p.KillSignal = 0 })},
	{name: "final_kill = false is ignored", eachTurn: withoutKey(func(p *config.Program) { p.NoFinalKill = false })},
	{name: "no_restart_exit_codes is ignored", program: func(p *config.Program) { p.NoRestartExitCodes = nil }},
	{name: "a private_tmp is not removed", eachTurn: func(in instanceView) {
		if in.Run().HasProcess() {
			withoutKey(func(p *config.Program) { p.Sandbox = nil })(in)
		}
	}},
	{name: "what a sandbox lacks is not recovered", recovery: everyInstance(func(_ *history, v *snapshot.Instance) {
		if v.Run != nil {
			v.Run.SandboxWarnings = nil
		}
	})},
	{name: "an exit is never acknowledged", kernel: hosttest.Defects{NoAcknowledgement: true}},
	{name: "a change of files is forgotten", supervisor: func(s *Supervisor) {
		s.applier.watches.Instances = func(string) []*instance.Instance { return nil }
	}},
	{name: "a change of files does not start what has failed", supervisor: func(s *Supervisor) {
		s.applier.watches.Instances = func(program string) []*instance.Instance {
			return slices.DeleteFunc(slices.Clone(s.registry.of(program)), func(in *instance.Instance) bool {
				return in.Machine.State() == fsm.Failed
			})
		}
	}},
	{name: "a roll waits for ever for a start", rollLimits: func(l *rolling.Limits) { l.Wait = 0 }},
	{name: "a roll does not start what is stopped", eachTurn: instanceView.stopAgain},
	{name: "reset-failed has no effect", keepsFailures: true},
	{name: "a socket is not stored", kernel: hosttest.Defects{SocketNotStored: true}},
	{name: "sockets are not recovered", recovery: func(_ *history, r *snapshot.Snapshot) { clear(r.Sockets) }},
	{name: "open sockets keep their settings", kernel: hosttest.Defects{IgnoresSettings: true}},
	{name: "a run gets one socket less", spawn: dropSocket},
	{name: "a connection starts nothing", kernel: hosttest.Defects{HidesConnections: true}},
	{name: "idle_timeout stops a program with connections", kernel: hosttest.Defects{HidesFromBusy: true}},
	{name: "a program is started without a connection", eachTurn: instanceView.startWithoutConnection},
	{name: "a socket that leaves is never closed", supervisor: func(s *Supervisor) {
		s.connectors.Sockets.Users = func(listen.Address) []string { return []string{"all"} }
	}},
	{name: "a socket is closed while a run has it", supervisor: func(s *Supervisor) {
		s.connectors.Sockets.Users = func(listen.Address) []string { return nil }
	}},
	{name: "on-failure restarts after success", program: func(p *config.Program) { p.Restart = config.RestartAlways }},
}

// everyChange returns a reload hook that applies f to each change of that kind.
func everyChange(kind config.ChangeKind, f func(*history, *config.Change)) func(*history, *config.Diff) {
	return func(h *history, diff *config.Diff) {
		for i := range diff.Programs {
			if c := &diff.Programs[i]; c.Kind == kind {
				f(h, c)
			}
		}
	}
}

// altered returns an altered copy of a definition.
func altered(p *config.Program, alter func(*config.Program)) *config.Program {
	other := p.Clone()
	alter(other)
	return other
}

// inMode returns a hook that ends runs of these kill modes by another mode.
func inMode(other config.KillMode, these ...config.KillMode) func(instanceView) {
	return func(in instanceView) {
		in.ChangeRunProgram(func(p *config.Program) *config.Program {
			if !slices.Contains(these, p.KillMode) {
				return p
			}
			return altered(p, func(p *config.Program) { p.KillMode = other })
		})
	}
}

// withoutKey returns a hook that takes a key from the definition of each run.
func withoutKey(take func(*config.Program)) func(instanceView) {
	return func(in instanceView) {
		in.ChangeRunProgram(func(p *config.Program) *config.Program {
			without := altered(p, take)
			if c := config.CompareProgram(p, without); c.Kind == config.Unchanged {
				return p
			}
			return without
		})
	}
}

// withRequirements returns a hook that changes the requirement counts of each instance that has
// any.
func withRequirements(change func(required, ordered []int32, orderings *int32)) func(instanceView) {
	return func(in instanceView) { in.In.Node.Miscount(change) }
}

// everyInstance returns a recovery hook that applies f to each saved instance.
func everyInstance(f func(*history, *snapshot.Instance)) func(*history, *snapshot.Snapshot) {
	return func(h *history, r *snapshot.Snapshot) {
		for _, name := range sortedKeys(r.Instances) {
			f(h, r.Instances[name])
		}
	}
}

const (
	testingPage  = "../docs/testing.md"
	defectsBegin = "<!-- defects:begin -->\n"
	defectsEnd   = "<!-- defects:end -->\n"
)

var onlyDefect = flag.String("sim.defect", "", "plant only the defects whose names contain this")

// TestPlantedDefects checks the simulation itself: it must find each planted defect. The table in
// docs/testing.md has the number of histories that it needs.
func TestPlantedDefects(t *testing.T) {
	if !plantDefects {
		t.Skip("skipped under the race detector: the simulation has one goroutine")
	}
	var page strings.Builder
	page.WriteString("| planted defect | caught after | as |\n| --- | --- | --- |\n")
	for _, d := range defects {
		if !strings.Contains(d.name, *onlyDefect) {
			continue
		}
		from := max(d.from, 1)
		found := simulate(from, 20_000, d, true)
		if found.count == 0 {
			t.Errorf("%s: not caught", d.name)
			continue
		}
		after, err := found.seed-from+1, found.err
		// A history that fails without the defect, too, shows nothing of it
		if base := newHistory(found.seed, defect{logFiles: d.logFiles}, false).run(); base != nil {
			t.Errorf("%s: seed %d fails without it: %v", d.name, found.seed, base)
		}
		t.Logf("%-50s caught after %5d: %v", d.name, after, err)
		as, _, _ := strings.Cut(err.Error(), "\n") // without the stack of a panic
		fmt.Fprintf(&page, "| %s | %d | %s |\n", d.name, after, as)
	}
	if !golden.Update() || t.Failed() || *onlyDefect != "" {
		return
	}
	text, err := os.ReadFile(testingPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), defectsBegin)
	_, after, ok2 := strings.Cut(rest, defectsEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no marks %q and %q", testingPage, defectsBegin, defectsEnd)
	}
	if err := os.WriteFile(testingPage, []byte(before+defectsBegin+page.String()+defectsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
