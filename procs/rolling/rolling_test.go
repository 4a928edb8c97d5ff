package rolling

import (
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/snapshot"
)

// abort has the limits of a roll that a failure ends.
var abort = Limits{Abort: true}

// up returns replicas that are up, with a run "old", and as many extra ones.
func up(replicas, extra int) (all []Replica) {
	for i := range replicas + extra {
		name := "web@" + string(rune('1'+i))
		all = append(all, Replica{Name: name, Run: "old", Is: Up, UpFor: time.Hour, Extra: i >= replicas})
	}
	return all
}

// with returns replicas of which one is changed.
func with(all []Replica, at int, change func(p *Replica)) []Replica {
	all = slices.Clone(all)
	change(&all[at])
	return all
}

func TestNext(t *testing.T) {
	is := func(c Condition) func(*Replica) { return func(p *Replica) { p.Is = c } }
	renewed := func(p *Replica) { p.Run, p.UpFor = "new", 0 }
	taken := map[string]snapshot.Turn{"web@1": {Run: "old", Taken: true}, "web@2": {Run: "old"}}
	ended := func(p *Replica) { p.Is, p.Run = Ended, "" }
	roll := func(stage snapshot.RollStage, extra int, turns map[string]snapshot.Turn) snapshot.Roll {
		return snapshot.Roll{Stage: stage, Extra: extra, Turns: turns}
	}
	due := map[string]snapshot.Turn{"web@1": {Run: "old"}, "web@2": {Run: "old"}}
	tests := []struct {
		name    string
		roll    snapshot.Roll
		all     []Replica
		limits  Limits
		stage   snapshot.RollStage
		restart string
		failure string
	}{
		{"an extra one is missing", roll(snapshot.RollStarts, 1, due), up(2, 0), abort, snapshot.RollStarts, "", ""},
		{"an extra one is coming", roll(snapshot.RollStarts, 1, due), with(up(2, 1), 2, is(Coming)), abort, snapshot.RollStarts, "", ""},
		{"the extra one is up", roll(snapshot.RollStarts, 1, due), up(2, 1), abort, snapshot.RollRestarts, "web@1", ""},
		{"two extra ones are up", roll(snapshot.RollStarts, 2, due), up(2, 2), abort, snapshot.RollRestarts, "web@1 web@2", ""},
		{"a canary is up", snapshot.Roll{Stage: snapshot.RollStarts, Extra: 1, Canary: true, Turns: due}, up(2, 1), abort, snapshot.RollAwaits, "", ""},
		{"an extra one fails", roll(snapshot.RollStarts, 1, due), with(up(2, 1), 2, is(Failed)), abort, snapshot.RollEnds, "", "the extra replica web@3 failed: "},
		{"it failed, and the operator has continued", roll(snapshot.RollStarts, 1, map[string]snapshot.Turn{"web@3": {}}), with(up(2, 1), 2, func(p *Replica) { p.Is, p.Run = Failed, "" }), abort, snapshot.RollStarts, "web@3", ""},
		{"and may fail", roll(snapshot.RollStarts, 1, due), with(up(2, 1), 2, is(Failed)), Limits{}, snapshot.RollStarts, "", ""},
		{"the canary fails", roll(snapshot.RollAwaits, 1, due), with(up(2, 1), 2, is(Failed)), abort, snapshot.RollEnds, "", "the extra replica web@3 failed: "},
		{"an extra one is stopped", roll(snapshot.RollAwaits, 1, due), with(up(2, 1), 2, is(Stopped)), Limits{}, snapshot.RollEnds, "", "the extra replica web@3 is down: "},
		{"an extra one ends during the restarts", roll(snapshot.RollRestarts, 1, taken), with(with(up(2, 1), 0, renewed), 2, ended), abort, snapshot.RollEnds, "", "the extra replica web@3 is down: "},
		{"without an extra one", roll(snapshot.RollStarts, 0, due), up(2, 0), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "web@1", ""},
		{"one that is not up costs nothing", roll(snapshot.RollRestarts, 0, due), with(up(2, 0), 1, is(Coming)), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "web@2", ""},
		{"one that has ended is restarted", roll(snapshot.RollRestarts, 0, due), with(up(2, 0), 1, ended), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "web@2", ""},
		{"one that has another run is not", roll(snapshot.RollRestarts, 0, due), with(up(2, 0), 0, renewed), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "web@2", ""},
		{"nor one that is about to", roll(snapshot.RollRestarts, 0, due), with(up(2, 0), 0, func(p *Replica) { p.Is, p.Ends = Coming, true }), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "", ""},
		{"nor one that is stopped", roll(snapshot.RollRestarts, 0, due), with(up(2, 0), 0, is(Stopped)), Limits{MaxUnavailable: 1}, snapshot.RollRestarts, "web@2", ""},
		{"one that a restart has started is awaited", roll(snapshot.RollStarts, 0, map[string]snapshot.Turn{"web@1": {}}), with(up(1, 0), 0, func(p *Replica) { p.Is, p.Run = Coming, "new" }), Limits{Abort: true, MaxUnavailable: 1}, snapshot.RollRestarts, "", ""},
		{"and may fail the roll", roll(snapshot.RollRestarts, 0, map[string]snapshot.Turn{"web@1": {}}), with(up(1, 0), 0, func(p *Replica) { p.Is, p.Run = Failed, "new" }), Limits{Abort: true, MaxUnavailable: 1}, snapshot.RollEnds, "", "the restart of web@1 failed: "},
		{"all were renewed and must be up for long", roll(snapshot.RollRestarts, 1, due), with(with(up(2, 1), 0, renewed), 1, renewed), Limits{Pause: time.Minute}, snapshot.RollRestarts, "", ""},
		{"the first one is down", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, is(Coming)), abort, snapshot.RollRestarts, "web@1", ""},
		{"the first one is restarting", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, func(p *Replica) { p.Is, p.Run = Coming, "new" }), abort, snapshot.RollRestarts, "", ""},
		{"the first one is up again", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, renewed), abort, snapshot.RollRestarts, "web@2", ""},
		{"but not for long", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, renewed), Limits{Pause: time.Minute}, snapshot.RollRestarts, "", ""},
		{"its restart was lost", roll(snapshot.RollRestarts, 1, taken), up(2, 1), abort, snapshot.RollRestarts, "web@1", ""},
		{"it fails", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, func(p *Replica) { p.Is, p.Run = Failed, "" }), abort, snapshot.RollHeld, "", "the restart of web@1 failed: "},
		{"it fails, without extra ones", roll(snapshot.RollRestarts, 0, taken), with(up(2, 0), 0, func(p *Replica) { p.Is, p.Run = Failed, "" }), Limits{Abort: true, MaxUnavailable: 1}, snapshot.RollEnds, "", "the restart of web@1 failed: "},
		{"it may fail, and holds the others up", roll(snapshot.RollRestarts, 1, taken), with(up(2, 1), 0, func(p *Replica) { p.Is, p.Run = Failed, "" }), Limits{}, snapshot.RollRestarts, "", ""},
		{"held while it is down", roll(snapshot.RollHeld, 1, taken), with(up(2, 1), 0, is(Coming)), abort, snapshot.RollHeld, "", ""},
		{"held until it is up", roll(snapshot.RollHeld, 1, taken), up(2, 1), abort, snapshot.RollEnds, "", ""},
		{"held until the extra one is stopped", roll(snapshot.RollHeld, 1, taken), with(with(up(2, 1), 0, is(Coming)), 2, is(Stopped)), abort, snapshot.RollEnds, "", ""},
		{"all are restarted", roll(snapshot.RollRestarts, 1, map[string]snapshot.Turn{"web@1": {Run: "older", Taken: true}}), up(2, 1), abort, snapshot.RollEnds, "", ""},
		{"all are stopped", roll(snapshot.RollRestarts, 0, due), with(with(up(2, 0), 0, is(Stopped)), 1, is(Stopped)), abort, snapshot.RollEnds, "", "all replicas were stopped"},
		{"an extra one with an old run waits", roll(snapshot.RollStarts, 1, map[string]snapshot.Turn{"web@3": {Run: "old"}}), with(up(2, 1), 0, is(Coming)), abort, snapshot.RollStarts, "", ""},
		{"and is restarted when it may", roll(snapshot.RollStarts, 1, map[string]snapshot.Turn{"web@3": {Run: "old"}}), up(2, 1), abort, snapshot.RollStarts, "web@3", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Resume(tt.roll)
			r.Roll = r.Record() // the table shares the turns
			restart, _ := r.Next(tt.all, tt.limits)
			if r.Stage != tt.stage || strings.Join(restart, " ") != tt.restart || r.Failure != tt.failure {
				t.Errorf("%s, restarts %v, %q; want %s, %q, %q", r.Stage, restart, r.Failure, tt.stage, tt.restart, tt.failure)
			}
		})
	}
}

// TestWait: the roll looks again when the pause of the first replica is over.
func TestWait(t *testing.T) {
	r := New(map[string]string{"web@1": "old"}, 2, false)
	all := up(1, 2)
	all[1].UpFor, all[2].UpFor = 2*time.Second, 5*time.Second
	if _, wait := r.Next(all, Limits{Pause: time.Minute}); wait != 55*time.Second || r.Stage != snapshot.RollStarts {
		t.Errorf("it waits %v in stage %s", wait, r.Stage)
	}
}

// TestWaitTimeout: a replica that waits for its start for too long ends the roll, with the reason.
func TestWaitTimeout(t *testing.T) {
	waits := func(d time.Duration) func(*Replica) {
		return func(p *Replica) { p.Is, p.Waits, p.WaitedFor, p.Why = Coming, true, d, "waits for db" }
	}
	due := map[string]snapshot.Turn{"web@1": {Run: "old"}, "web@2": {Run: "old"}}
	taken := map[string]snapshot.Turn{"web@1": {Run: "older", Taken: true}, "web@2": {Run: "old"}}
	limit := Limits{Wait: time.Minute}
	for _, tt := range []struct {
		name           string
		roll           snapshot.Roll
		all            []Replica
		limits         Limits
		stage          snapshot.RollStage
		failure        string
		wait           time.Duration
		waiting        string
		waitingAtLeast time.Duration
	}{
		{"an extra one waits", snapshot.Roll{Stage: snapshot.RollStarts, Extra: 1, Turns: due}, with(up(2, 1), 2, waits(10*time.Second)), limit, snapshot.RollStarts, "", 50 * time.Second, "web@3", 50 * time.Second},
		{"for too long", snapshot.Roll{Stage: snapshot.RollStarts, Extra: 1, Turns: due}, with(up(2, 1), 2, waits(time.Minute)), limit, snapshot.RollEnds, "web@3 has not been started within 1m: waits for db", 0, "web@3", 0},
		{"without a limit", snapshot.Roll{Stage: snapshot.RollStarts, Extra: 1, Turns: due}, with(up(2, 1), 2, waits(time.Hour)), Limits{}, snapshot.RollStarts, "", 0, "web@3", 0},
		{"a restarted one", snapshot.Roll{Stage: snapshot.RollRestarts, Extra: 1, Turns: taken}, with(with(up(2, 1), 0, func(p *Replica) { p.Run = "new" }), 0, waits(time.Hour)), limit, snapshot.RollHeld, "web@1 has not been started within 1m: waits for db", 0, "web@1", 0},
		{"the operator decides", snapshot.Roll{Stage: snapshot.RollAwaits, Extra: 1, Turns: due}, with(up(2, 1), 1, waits(time.Hour)), limit, snapshot.RollAwaits, "", 0, "web@2", 0},
		{"it is held until that is up", snapshot.Roll{Stage: snapshot.RollHeld, Extra: 1, Failure: "x", Turns: taken}, with(up(2, 1), 0, waits(time.Hour)), limit, snapshot.RollHeld, "x", 0, "web@1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Resume(tt.roll)
			r.Roll = r.Record() // the table shares the turns
			_, wait := r.Next(tt.all, tt.limits)
			waiting, limit := r.Waiting()
			if r.Stage != tt.stage || r.Failure != tt.failure || wait != tt.wait || waiting != tt.waiting || limit != tt.waitingAtLeast {
				t.Errorf("%s, %q, looks again after %v, waits for %s, for %v; want %s, %q, %v, %s, %v",
					r.Stage, r.Failure, wait, waiting, limit, tt.stage, tt.failure, tt.wait, tt.waiting, tt.waitingAtLeast)
			}
		})
	}
}

// TestLimits: a program that reports no readiness must be up for a while.
func TestLimits(t *testing.T) {
	extra := func(k config.Rolling) func(*config.Program) { return func(p *config.Program) { p.Rolling = &k } }
	for _, tt := range []struct {
		name  string
		is    func(p *config.Program)
		extra int
		want  Limits
	}{
		{"without readiness", func(*config.Program) {}, 0, Limits{1, time.Second, true, 5 * time.Minute}},
		{"with an extra one", extra(config.Rolling{}), 1, Limits{0, time.Second, false, 0}},
		{"with a longer pause", extra(config.Rolling{Pause: time.Minute}), 1, Limits{0, time.Minute, false, 0}},
		{"with readiness", func(p *config.Program) { p.Ready = &config.Ready{} }, 0, Limits{1, 0, true, 5 * time.Minute}},
		{"with post_start", func(p *config.Program) { p.PostStart = [][]string{{"true"}} }, 0, Limits{1, 0, true, 5 * time.Minute}},
		{"its command reports readiness", func(p *config.Program) { p.Type = config.TypeForking }, 0, Limits{1, 0, true, 5 * time.Minute}},
		{"a one-shot", func(p *config.Program) { p.Type = config.TypeOneshot }, 0, Limits{1, 0, true, 5 * time.Minute}},
	} {
		p := &config.Program{Settings: &config.Settings{}}
		p.Type = config.TypeService
		tt.is(p)
		if got := New(nil, tt.extra, false).Limits(p); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestDecisions: continue and undo in each stage.
func TestDecisions(t *testing.T) {
	for _, tt := range []struct {
		stage        snapshot.RollStage
		continues    bool
		undone       snapshot.RollStage
		undoneAtOnce snapshot.RollStage // without extra replicas
	}{
		{snapshot.RollStarts, false, snapshot.RollEnds, snapshot.RollEnds},
		{snapshot.RollAwaits, true, snapshot.RollEnds, snapshot.RollEnds},
		{snapshot.RollRestarts, false, snapshot.RollHeld, snapshot.RollEnds},
		{snapshot.RollHeld, true, snapshot.RollEnds, snapshot.RollEnds},
	} {
		of := func(extra int) *Roll {
			return Resume(snapshot.Roll{Stage: tt.stage, Extra: extra, Canary: true, Failure: "x", Turns: map[string]snapshot.Turn{"web@1": {Run: "older", Taken: true}}})
		}
		r := of(1)
		failed := with(up(1, 1), 0, func(p *Replica) { p.Is, p.Run = Failed, "" })
		if ok := r.Continue(failed, 2); ok != tt.continues || ok && (r.Stage != snapshot.RollStarts || r.Canary || r.Extra != 2 || r.Failure != "" || r.Turns["web@1"].Taken) {
			t.Errorf("%s: continues %v as %+v", tt.stage, ok, r)
		}
		r, without := of(1), of(0)
		r.Fail("undone")
		without.Fail("undone")
		if r.Stage != tt.undone || without.Stage != tt.undoneAtOnce || r.Failure != "undone" {
			t.Errorf("%s: undone as %+v, %+v", tt.stage, r, without)
		}
	}
}

// TestContinueWithoutTurns: a roll whose replicas were all removed goes on after a crash.
func TestContinueWithoutTurns(t *testing.T) {
	r := Resume(snapshot.Roll{Stage: snapshot.RollAwaits, Extra: 1, Canary: true})
	failed := with(up(1, 1), 1, func(p *Replica) { p.Is, p.Extra = Failed, true })
	if !r.Continue(failed, 1) || len(r.Turns) != 1 {
		t.Errorf("it continues as %+v", r)
	}
}

// TestText: a roll as people read of it, in each stage.
func TestText(t *testing.T) {
	v := snapshot.Roll{Extra: 1, Failure: "x", Turns: map[string]snapshot.Turn{"web@1": {Taken: true}, "web@2": {}}}
	const begin = "a rolling restart of web is under way: 1 of 2 restarted"
	for stage, want := range map[snapshot.RollStage]string{
		snapshot.RollStarts:   ", starting 1 extra replica",
		snapshot.RollAwaits:   ", 1 extra replica up: `superd ctl continue web` or `superd ctl undo web`",
		snapshot.RollRestarts: "",
		snapshot.RollHeld:     ", ended (x); 1 extra replica until the others are up: `superd ctl continue web` or `superd ctl undo web`",
		snapshot.RollEnds:     ", stopping 1 extra replica",
	} {
		v.Stage = stage
		if got := Resume(v).Text("web"); got != begin+want {
			t.Errorf("%s: %q", stage, got)
		}
	}
}

// TestLeft: what is left of a limit gets less, and is never shown as nothing or as for ever.
func TestLeft(t *testing.T) {
	tests := []struct{ limit, ago, want time.Duration }{
		{5 * time.Minute, 0, 5 * time.Minute},
		{5 * time.Minute, 90 * time.Second, 210 * time.Second},
		{time.Minute, time.Hour, time.Second},
	}
	for _, tt := range tests {
		if got := Left(tt.limit, tt.ago); got != tt.want {
			t.Errorf("Left(%v, %v) = %v, want %v", tt.limit, tt.ago, got, tt.want)
		}
	}
}
