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
)

// A defect is planted to see that the simulation finds it.
type defect struct {
	name  string
	rules func(*table)
	// In the kernel's starts and sweep
	ungated, gated, unkilled bool
	// Changes the definition that the machines use; the observer keeps the original
	program func(p *config.Program)
	// Called for each instance after each turn
	turn func(in *instance)
	// Called for each instance before superd begins
	begin func(in *instance)
	// Changes the comparison that a reload applies
	reload func(h *history, diff *config.Diff)
	// A change of the wall clock goes unnoticed
	unwatched bool
	// The operator is answered before the desired state is written
	hasty bool
	// A failure to write a desired state goes unnoticed
	deaf bool
	// In the kernel's adoption of processes
	unsought, unidentified, unwritten, invents bool
	// Changes the snapshot that superd reads of its predecessor
	recovery func(h *history, r *Snapshot)
	// Called when superd is about to report a process of the instance as unkillable
	asked func(h *history, instance string)
	// Raises the probabilities of relevant faults
	mix func(*faultMix)
	// In the kernel's treatment of MAINPID=
	unheeding, anyMain bool
	// Messages are read before their effects are saved
	unheld bool
}

type table = [stateCount][eventCount]*rule

var defects = []defect{
	{name: "a start during a stop is not refused", rules: func(r *table) { r[Stopping][WantUp] = to(Spawning, Spawn) }},
	{name: "a start in back-off forgets the pending restart", rules: func(r *table) { r[Backoff][WantUp] = to(Spawning, Spawn) }},
	{name: "a stop in back-off forgets the pending restart", rules: func(r *table) { r[Backoff][WantDown] = to(Stopped) }},
	{name: "a stop during a spawn is forgotten", rules: func(r *table) { r[Spawning][SpawnedOutdated] = to(Running) }},
	{name: "a spawn that hangs is not called off", rules: func(r *table) { r[Spawning][WantDown] = to(Spawning) }},
	{name: "the stop time-out is not armed", rules: func(r *table) { r[Running][WantDown] = to(Stopping, SignalStop) }},
	{name: "SIGKILL is not sent", rules: func(r *table) { r[Stopping][StopTimeout] = to(Killing, ArmKill) }},
	{name: "the stop signal is not sent", rules: func(r *table) { r[Running][Restart] = to(Stopping) }},
	{name: "the stop signal reaches others than the main process", turn: inMode(config.KillTree, config.KillMainFirst, config.KillMixed)},
	{name: "what kill_mode spares is ended", turn: inMode(config.KillMainFirst, config.KillProcess)},
	{name: "a stuck process is not named", rules: func(r *table) { r[Killing][KillTimeout] = to(Killing) }},
	{name: "the restart timer is not armed", rules: func(r *table) { r[Running][RunEndedRetry] = to(Backoff, EndRun) }},
	{name: "the slow retry is not armed", rules: func(r *table) { r[Running][RunEndedStartLimit] = to(Failed, EndRun) }},
	{name: "the end of a run does not close its scope", rules: func(r *table) { r[Stopping][RunEndedRestart] = to(Spawning, Spawn) }},
	{name: "what a crash leaves is not cleared", rules: func(r *table) { r[Running][MainExited] = to(Backoff, EndRun, ArmRestart) }},
	{name: "a restart of what is being cleared is forgotten", rules: func(r *table) { r[TearingDown][RunEndedRestart] = to(Stopped, EndRun) }},
	{name: "a restart of a running program is ignored", rules: func(r *table) { r[Running][Restart] = to(Running) }},
	{name: "the sweep takes a child that the loop does not know yet for a stranger", ungated: true},
	{name: "the sweep waits for a start that hangs, and later starts for the sweep", gated: true},
	{name: "a child that hangs before its exec is left alone", unkilled: true},
	{name: "the back-off never resets", program: func(p *config.Program) { p.Backoff.ResetAfter = 1000 * time.Hour }},
	{name: "the back-off does not grow", program: func(p *config.Program) { p.Backoff.Factor = 1 }},
	{name: "the back-off has no cap", program: func(p *config.Program) { p.Backoff.Max = 1000 * time.Hour }},
	{name: "the start limit is not counted", program: func(p *config.Program) { p.StartLimit.Failures = 0 }},
	{name: "a hook's time-out is lost while its fork is under way", mix: func(m *faultMix) {
		m.hookHangs, m.forkTime = 0.5, 300*time.Millisecond
	}, turn: func(in *instance) {
		if r := in.run; r != nil && r.hook != nil && r.hook.process == nil {
			r.hook.doomed = false
		}
	}},
	{name: "the status of an essential program that failed is lost", turn: func(in *instance) {
		if in.sup.endDecided {
			in.sup.exitStatus = 0
		}
	}},
	{name: "who waits for a program is not told that it is stuck", asked: func(h *history, instance string) {
		in := h.sup.byName[instance]
		waiters := in.waiters
		in.waiters = nil
		h.v.Post(func() { in.waiters = append(waiters, in.waiters...) })
	}},
	{name: "the operator is answered before his wish is written", hasty: true},
	{name: "an operator is not told that his wish could not be written", deaf: true},
	{name: "a record waits for ever", turn: func(in *instance) { in.sup.writing.Stop() }},
	{name: "a start is not written down", unwritten: true},
	{name: "starts that are not recorded are not looked for", unsought: true},
	{name: "a process is taken up by its pid alone", unidentified: true},
	{name: "an exit that nobody tells is made up", invents: true},
	{name: "a wish is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Desired.Up = true })},
	{name: "the counters are not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.RestartAttempts, v.Failures = 0, nil })},
	{name: "a stop time-out begins anew", recovery: everySaved(func(h *history, v *savedInstance) {
		if v.Run != nil && v.Run.StopDeadline > h.v.Now() {
			v.Run.StopDeadline = h.v.Now() + 10*time.Second
		}
	})},
	{name: "a delay begins anew", recovery: everySaved(func(h *history, v *savedInstance) {
		if v.Due != nil && *v.Due > h.v.Now() {
			v.Due = new(h.v.Now() + v.Delay)
		}
	})},
	{name: "what a run has left is forgotten", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[TearingDown] {
			v.State, v.Run = stateNames[Stopped], nil
		}
	})},
	{name: "a hook in flight is forgotten", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.Run != nil {
			v.Run.Hook = nil
		}
	})},
	{name: "a run that is due is not started", rules: func(r *table) { r[Waiting][WantUp] = to(Waiting) }},
	{name: "a scheduled program that has ended stays down", rules: func(r *table) { r[Running][RunEndedWait] = to(Exited, EndRun) }},
	{name: "a clock that is set and a machine that sleeps go unnoticed", unwatched: true},
	{name: "what a schedule has done is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Schedule = nil })},
	{name: "a run that is owed is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.RunPending = false })},
	{name: "a start does not tell for which time it is", mix: func(m *faultMix) {
		m.early, m.forkTime = 1, 300*time.Millisecond
	}, recovery: func(_ *history, r *Snapshot) {
		for _, b := range r.starts {
			b.Schedule = nil
		}
	}},
	{name: "a program is started before what it requires is ready", rules: func(r *table) { r[Stopped][Wait] = to(Spawning, Spawn) }},
	{name: "who comes after another does not wait where both are asked for at once", begin: needing(func(n *requirements) { n.follows = 0 })},
	{name: "a program that is stopped for what it requires starts again at once", rules: func(r *table) { r[Stopping][RunEndedWait] = to(Spawning, EndRun, Spawn) }},
	{name: "a stop does not wait for those who require the program", rules: func(r *table) { r[Running][DeferStop] = to(Stopping, SignalStop, ArmStop) }},
	{name: "a program that lingers is not stopped when its turn has come", rules: func(r *table) { r[StopPending][Restart] = to(StopPending) }},
	{name: "a wait after back-off keeps the timer", rules: func(r *table) { r[Backoff][Wait] = to(Waiting) }},
	{name: "a change is not passed on", turn: func(in *instance) { in.sup.reconcileQueue, in.enqueued = nil, false }},
	{name: "what requires a program that is down is not counted", turn: needing(func(n *requirements) { n.required[down] = 0 })},
	{name: "a wait is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[Waiting] {
			v.State = stateNames[Stopped]
		}
	})},
	{name: "a stop that waits for its turn is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[StopPending] {
			v.State = stateNames[Running]
		}
	})},
	{name: "a program counts as ready when it is started", rules: func(r *table) { r[Spawning][SpawnedUnready] = to(Running, StartMonitoring) }},
	{name: "who is not ready in time is left alone", rules: func(r *table) { r[Starting][StartTimeout] = to(Starting) }},
	{name: "readiness that comes is not noticed", turn: func(in *instance) {
		if r := in.run; r != nil && r.readiness != nil {
			r.readiness.scope.Close()
		}
	}},
	{name: "who requires a program starts while that is starting", turn: needing(func(n *requirements) { n.required[coming] = 0 })},
	{name: "a wait for readiness is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[Starting] {
			v.State = stateNames[Running]
		}
	})},
	{name: "a start time-out begins anew", recovery: everySaved(func(h *history, v *savedInstance) {
		if r := v.Run; r != nil && r.StartDeadline > h.v.Now() {
			r.StartDeadline = h.v.Now() + time.Minute
		}
	})},
	{name: "a message is taken before what follows from it is saved", unheld: true},
	{name: "another main process goes unnoticed", unheeding: true},
	{name: "a process of another program is taken as the main one", anyMain: true},
	{name: "an unhealthy program is left alone", rules: func(r *table) { r[Running][HealthFailed] = to(Running) }},
	{name: "a program is checked while it stops", turn: func(in *instance) {
		if r := in.run; in.machine.state == Stopping && r.process != nil && r.monitor == nil && r.program.Health != nil {
			in.startMonitoring()
		}
	}},
	{name: "a program is not looked after once superd was killed", turn: func(in *instance) {
		if r := in.run; in.treeRecovered && r != nil && r.monitor != nil {
			r.monitor.end()
		}
	}},
	{name: "a watchdog that is not fed does not bite", rules: func(r *table) { r[Running][WatchdogTimeout] = to(Running) }},
	{name: "a failed check counts while the program reads its configuration", turn: func(in *instance) {
		if r := in.run; r != nil && r.monitor != nil && r.reloading != nil {
			r.reloading.Stop()
			r.reloading = nil
		}
	}},
	{name: "a change that takes a restart is not applied to what runs", reload: everyChange(config.RestartNeeded, func(h *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Environment = h.sup.config.Program(c.Name).Environment })
	})},
	{name: "a change that can be applied live restarts what runs", reload: everyChange(config.AppliedLive, func(_ *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Environment = map[string]string{"N": "another"} })
	})},
	{name: "a program that was removed stays", reload: everyChange(config.ProgramRemoved, func(_ *history, c *config.Change) { c.Kind = config.Unchanged })},
	{name: "a program that was added does not come", reload: everyChange(config.ProgramAdded, func(_ *history, c *config.Change) { c.Kind = config.Unchanged })},
	{name: "another restart policy is not looked at", reload: everyChange(config.AppliedLive, func(h *history, c *config.Change) {
		c.Program = altered(c.Program, func(p *config.Program) { p.Restart = h.sup.config.Program(c.Name).Restart })
	})},
	{name: "an operator's scale is not taken over", recovery: func(_ *history, r *Snapshot) { clear(r.scales) }},
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

// inMode returns a hook that makes superd end runs of these modes by another one.
func inMode(other config.KillMode, these ...config.KillMode) func(*instance) {
	return func(in *instance) {
		if r := in.run; r != nil && slices.Contains(these, r.program.KillMode) {
			r.program = altered(r.program, func(p *config.Program) { p.KillMode = other })
		}
	}
}

// needing returns a hook that changes the requirements of an instance that has any.
func needing(change func(*requirements)) func(*instance) {
	return func(in *instance) {
		if n := in.machine.requirements; n != &noRequirements {
			change(n)
		}
	}
}

// everySaved returns a recovery hook that applies f to each saved instance.
func everySaved(f func(*history, *savedInstance)) func(*history, *Snapshot) {
	return func(h *history, r *Snapshot) {
		for _, name := range sortedKeys(r.instances) {
			f(h, r.instances[name])
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
// docs/testing.md has the number of histories that it takes.
func TestPlantedDefects(t *testing.T) {
	if !plantDefects {
		t.Skip("one goroutine has no races")
	}
	whole := rules
	var page strings.Builder
	page.WriteString("| planted defect | caught after | as |\n| --- | --- | --- |\n")
	for _, d := range defects {
		if !strings.Contains(d.name, *onlyDefect) {
			continue
		}
		if d.rules != nil {
			d.rules(&rules)
		}
		found := simulate(1, 20_000, d, true)
		rules = whole
		if found.count == 0 {
			t.Errorf("%s: not caught", d.name)
			continue
		}
		seed, err := found.seed, found.err
		t.Logf("%-50s caught after %5d: %v", d.name, seed, err)
		as, _, _ := strings.Cut(err.Error(), "\n") // without the stack of a panic
		fmt.Fprintf(&page, "| %s | %d | %s |\n", d.name, seed, as)
	}
	if !*update || t.Failed() || *onlyDefect != "" {
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
