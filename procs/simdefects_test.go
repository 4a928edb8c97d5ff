package procs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"superd/config"
)

// A defect is planted to see that the simulation catches it.
type defect struct {
	name                                       string
	rules                                      func(*table)
	ungated                                    bool                                // the sweep doesn't wait for forks
	program                                    func(p *config.Program)             // what the machines go by, unlike the observer
	turn                                       func(in *instance)                  // is done to each instance after each turn
	begin                                      func(in *instance)                  // is done to each instance before superd begins
	reload                                     func(h *history, diff *config.Diff) // is done to what a reload goes by
	unwatched                                  bool                                // nobody tells that the clock was set
	hasty                                      bool                                // the operator is answered before his wish is written
	unsought, unidentified, unwritten, invents bool                                // the kernel's side of adoption
	recovery                                   func(h *history, r *Recovery)       // is done to what superd finds of the one before
	asked                                      func(h *history, instance string)   // is done when superd is about to name a process of it as stuck
	mix                                        func(*faultMix)                     // has what matters happen more often
	unheeding, unasked                         bool                                // the kernel's side of MAINPID=
	unheld                                     bool                                // messages are taken before what follows from them is saved
}

type table = [stateCount][eventCount]*rule

var defects = []defect{
	{name: "a start during a stop is not refused", rules: func(r *table) { r[Stopping][WantUp] = to(Spawning, Spawn) }},
	{name: "a start in back-off forgets the pending restart", rules: func(r *table) { r[Backoff][WantUp] = to(Spawning, Spawn) }},
	{name: "a stop in back-off forgets the pending restart", rules: func(r *table) { r[Backoff][WantDown] = to(Stopped) }},
	{name: "a stop during a spawn is forgotten", rules: func(r *table) { r[Spawning][SpawnedStale] = to(Running) }},
	{name: "a spawn that hangs is not called off", rules: func(r *table) { r[Spawning][WantDown] = to(Spawning) }},
	{name: "the stop time-out is not armed", rules: func(r *table) { r[Running][WantDown] = to(Stopping, SignalStop) }},
	{name: "SIGKILL is not sent", rules: func(r *table) { r[Stopping][StopDue] = to(Killing, ArmKill) }},
	{name: "the stop signal is not sent", rules: func(r *table) { r[Running][Again] = to(Stopping) }},
	{name: "a stuck process is not named", rules: func(r *table) { r[Killing][KillDue] = to(Killing) }},
	{name: "the restart timer is not armed", rules: func(r *table) { r[Running][EndRetry] = to(Backoff, EndRun) }},
	{name: "the slow retry is not armed", rules: func(r *table) { r[Running][EndGaveUp] = to(Failed, EndRun) }},
	{name: "the end of a run does not close its scope", rules: func(r *table) { r[Stopping][EndAgain] = to(Spawning, Spawn) }},
	{name: "what a crash leaves is not cleared", rules: func(r *table) { r[Running][Left] = to(Backoff, EndRun, ArmRestart) }},
	{name: "a restart of what is being cleared is forgotten", rules: func(r *table) { r[Clearing][EndAgain] = to(Stopped, EndRun) }},
	{name: "a restart of a running program is ignored", rules: func(r *table) { r[Running][Again] = to(Running) }},
	{name: "the sweep does not wait for forks", ungated: true},
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
	{name: "a record waits for ever", turn: func(in *instance) { in.sup.writing.Stop() }},
	{name: "a start is not written down", unwritten: true},
	{name: "starts that are not recorded are not looked for", unsought: true},
	{name: "a process is taken up by its pid alone", unidentified: true},
	{name: "an exit that nobody tells is made up", invents: true},
	{name: "a wish is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Wanted.Up = true })},
	{name: "the counters are not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Attempts, v.Failures = 0, nil })},
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
		if v.State == stateNames[Clearing] {
			v.State, v.Run = stateNames[Stopped], nil
		}
	})},
	{name: "a hook in flight is forgotten", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.Run != nil {
			v.Run.Hook = nil
		}
	})},
	{name: "a run that is due is not started", rules: func(r *table) { r[Waiting][WantUp] = to(Waiting) }},
	{name: "a scheduled program that has ended stays down", rules: func(r *table) { r[Running][EndWait] = to(Exited, EndRun) }},
	{name: "a clock that is set and a machine that sleeps go unnoticed", unwatched: true},
	{name: "what a schedule has done is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Schedule = nil })},
	{name: "a run that is owed is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) { v.Owed = false })},
	{name: "a start does not tell for which time it is", recovery: func(_ *history, r *Recovery) {
		for _, name := range sortedKeys(r.births) {
			r.births[name].Schedule = nil
		}
	}},
	{name: "a program is started before what it requires is ready", rules: func(r *table) { r[Stopped][Wait] = to(Spawning, Spawn) }},
	{name: "who comes after another does not wait where both are asked for at once", begin: needing(func(n *needs) { n.follows = 0 })},
	{name: "a program that is stopped for what it requires starts again at once", rules: func(r *table) { r[Stopping][EndWait] = to(Spawning, EndRun, Spawn) }},
	{name: "a stop does not wait for those who require the program", rules: func(r *table) { r[Running][Linger] = to(Stopping, SignalStop, ArmStop) }},
	{name: "a program that lingers is not stopped when its turn has come", rules: func(r *table) { r[Lingering][Again] = to(Lingering) }},
	{name: "a wait after back-off keeps the timer", rules: func(r *table) { r[Backoff][Wait] = to(Waiting) }},
	{name: "a change is not passed on", turn: func(in *instance) { in.sup.unsettled, in.touched = nil, false }},
	{name: "what requires a program that is down is not counted", turn: needing(func(n *needs) { n.required[down] = 0 })},
	{name: "a wait is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[Waiting] {
			v.State = stateNames[Stopped]
		}
	})},
	{name: "a stop that waits for its turn is not taken over", recovery: everySaved(func(_ *history, v *savedInstance) {
		if v.State == stateNames[Lingering] {
			v.State = stateNames[Running]
		}
	})},
	{name: "a program counts as ready when it is started", rules: func(r *table) { r[Spawning][SpawnedUnready] = to(Running, Attend) }},
	{name: "who is not ready in time is left alone", rules: func(r *table) { r[Starting][StartDue] = to(Starting) }},
	{name: "readiness that comes is not noticed", turn: func(in *instance) {
		if r := in.run; r != nil && r.readiness != nil {
			r.readiness.scope.Close()
		}
	}},
	{name: "who requires a program starts while that is starting", turn: needing(func(n *needs) { n.required[coming] = 0 })},
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
	{name: "a process of another program is taken as the main one", unasked: true},
	{name: "an unhealthy program is left alone", rules: func(r *table) { r[Running][Unfit] = to(Running) }},
	{name: "a program is checked while it stops", turn: func(in *instance) {
		if r := in.run; in.machine.state == Stopping && r.process != nil && r.monitor == nil && r.program.Health != nil {
			in.attend()
		}
	}},
	{name: "a program is not looked after once superd was killed", turn: func(in *instance) {
		if r := in.run; in.inherited && r != nil && r.monitor != nil {
			r.monitor.end()
		}
	}},
	{name: "a watchdog that is not fed does not bite", rules: func(r *table) { r[Running][WatchdogDue] = to(Running) }},
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
	{name: "an operator's scale is not taken over", recovery: func(_ *history, r *Recovery) { clear(r.scales) }},
	{name: "on-failure restarts after success", program: func(p *config.Program) { p.Restart = config.RestartAlways }},
}

// everyChange has f change what a reload goes by, of each program with a change of that kind.
func everyChange(kind config.ChangeKind, f func(*history, *config.Change)) func(*history, *config.Diff) {
	return func(h *history, diff *config.Diff) {
		for i := range diff.Programs {
			if c := &diff.Programs[i]; c.Kind == kind {
				f(h, c)
			}
		}
	}
}

// altered returns a table that is another one.
func altered(p *config.Program, alter func(*config.Program)) *config.Program {
	other := p.Clone()
	alter(other)
	return other
}

// needing returns what changes what an instance knows of the programs that its own names, if it names any.
func needing(change func(*needs)) func(*instance) {
	return func(in *instance) {
		if n := in.machine.needs; n != &noNeeds {
			change(n)
		}
	}
}

// everySaved has f change what is saved of each instance.
func everySaved(f func(*history, *savedInstance)) func(*history, *Recovery) {
	return func(h *history, r *Recovery) {
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

// TestPlantedDefects shows that the net holds water: each defect must be caught. The table in docs/testing.md says after
// how many histories.
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
		_, seed, err := simulate(1, 20_000, d)
		rules = whole
		if err == nil {
			t.Errorf("%s: not caught", d.name)
			continue
		}
		t.Logf("%-50s caught after %5d: %v", d.name, seed, err)
		as, _, _ := strings.Cut(err.Error(), "\n") // less the stack of a panic
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
