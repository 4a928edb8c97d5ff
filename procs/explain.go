package procs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/host"
	"superd/procs/probe"
)

// A Diagnosis is what superd knows about the state of an instance. With the instance's events it
// yields the explanation.
type Diagnosis struct {
	Name           string
	State          State
	Now            time.Time // in the time zone of shown times
	Since          time.Time
	Reason         Reason     // why the state is what it is
	Kind           ReasonKind // kind of the reason in a [Status]
	Pid            int        // 0 without a main process
	Uptime         time.Duration
	WantedUp       bool
	WantedBy       Actor
	RestartPending bool // it starts again once it is down
	Removed        bool // the configuration no longer has it
	Replaced       bool // a new definition of the same name waits for it to go

	// What it waits for and what that waits for, down to the cause
	WaitsFor []string
	// What happens at the moment: a hook, a file that is opened, leftover processes
	Stage      string
	Unkillable string                     // describes an unkillable process; empty without one
	KillIn     *time.Duration             // until SIGKILL; nil: none is due
	Says       string                     // what it reports of itself; empty without
	Check      *Check                     // last health check; nil before the first
	Checked    string                     // what is checked: "http http://127.0.0.1/healthz"
	Unowned    []host.UnattributedProcess // processes that may belong to it and can't be attributed
	// Why it has no cgroup though others have; empty if it has one
	NoCgroup        string
	NoOutput        string         // why its output is not captured; empty where it is
	Reads           string         // the program whose logger it is; empty without one
	Logger          string         // the program that is its logger; empty without one
	Outage          *logs.Outage   // why its output does not reach its log; nil where it does
	Dropped         [2]int64       // bytes and lines of dropped output
	HangsIn         string         // what an earlier start still hangs in; empty without one
	NextStart       *time.Duration // until the next automatic start; nil: none is due
	RestartAttempts int            // consecutive restarts without a stable run
	Restarts        int            // automatic restarts since the operator's last start
	Failures        int            // failures within the window of the start limit
	StartLimitHit   bool           // the start limit was reached
	Backoff         config.Backoff
	Limit           config.StartLimit

	Schedule string    // in force; empty without one
	NextRun  time.Time // by the schedule, where the instance waits only for that; else zero
	Skipped  int       // due times since the begin of the run that is not over
}

// Why returns a [Diagnosis] of each instance that names select, by name. Its errors are those of
// [Supervisor.Status].
func (s *Supervisor) Why(names []string) ([]Diagnosis, error) {
	selected, err := s.selectInstances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Diagnosis, 0, len(selected))
	for _, in := range selected {
		all = append(all, in.diagnosis())
	}
	return all, nil
}

func (in *instance) diagnosis() Diagnosis {
	m, st := &in.machine, in.status()
	now := in.sup.loop.Now()
	f := Diagnosis{
		Name: in.name, State: m.state, Now: in.sup.loop.Wall(), Since: st.Since,
		Reason: m.stateReason, Kind: st.ReasonKind, Pid: st.Pid, Uptime: st.Uptime,
		WantedUp: m.desired.up, WantedBy: m.desired.by, RestartPending: in.comesAgain(), Removed: in.removed, Replaced: in.replacement != nil,
		WaitsFor: in.waitsFor(), Stage: in.stage(), Says: st.StatusText, Unkillable: in.unkillable, NoOutput: in.noOutput, NoCgroup: in.tree.Lack(), Unowned: in.unowned(),
		NextStart: st.NextStart, RestartAttempts: m.restartAttempts, Restarts: m.restarts, StartLimitHit: m.startLimitHit,
		Backoff: in.program.Backoff, Limit: in.program.StartLimit,
	}
	if sc := in.sched; sc != nil && sc.entry != nil {
		f.Schedule, f.Skipped = in.program.Schedule, sc.skipped
		f.NextRun, _, _ = in.nextRun()
	}
	if r := in.run; r != nil && r.monitor != nil {
		f.Check, f.Checked = st.Check, r.monitor.what
	}
	f.Outage = in.collector.Outage()
	f.Dropped[0], f.Dropped[1] = in.collector.Dropped()
	if f.Reads = in.program.LoggerOf; in.program.Log.Sink == config.SinkCommand {
		f.Logger = config.LoggerName(in.program.Name)
	}
	if in.hanging > 0 {
		f.HangsIn = in.hangsIn
	}
	for _, at := range m.failures {
		if now-at <= f.Limit.Within {
			f.Failures++
		}
	}
	if r := in.run; r != nil && r.stopDeadline > now && m.state == Stopping {
		f.KillIn = new(r.stopDeadline - now)
	}
	return f
}

// comesAgain reports whether the instance starts again once it is down.
func (in *instance) comesAgain() bool {
	m := &in.machine
	switch m.state {
	case Stopping, Killing:
		return m.desired.up && m.failureReason.Kind == ReasonNone && !m.requirementsLost()
	case TearingDown:
		return m.desired.up && m.outcome == RunEndedRestart && !m.requirementsLost()
	}
	return m.restartPending && !m.requirementsLost()
}

// shownRuns is how many of the last runs an explanation lists.
const shownRuns = 5

// Explain returns why the instance is in its state: the desired state and its actor, what it waits
// for and until when, and how the last runs ended. events are in order; those of other instances
// are ignored. The text has several lines, each with its newline. Names and output in it are not
// escaped.
func (f *Diagnosis) Explain(events []eventlog.Event) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	say("%s %s %s (%s): %s.", f.Name, f.verb(), f.clock(f.Since), span(f.Now.Sub(f.Since)), f.Reason)
	f.explainTarget(say)
	if f.Unkillable != "" {
		say("superd cannot end it: %s.", f.Unkillable)
	}
	for _, what := range f.WaitsFor {
		say("It waits for %s.", what)
	}
	if f.Stage != "" {
		say("Now: %s.", f.Stage)
	}
	if f.KillIn != nil {
		say("It gets SIGKILL in %s unless it ends before.", span(*f.KillIn))
	}
	if f.Says != "" {
		say("It reports: %s.", f.Says)
	}
	f.explainCheck(say)
	if f.Reads != "" {
		say("It is the logger of %s and reads its output.", f.Reads)
	}
	if f.Logger != "" {
		say("Its output goes to %s.", f.Logger)
	}
	for _, s := range f.Unowned {
		say("Process %d (%s) can't be attributed to a program; it may belong to this one. The shutdown ends it, unless a kill_mode spares processes or superd inherited children.", s.Pid, s.Command)
	}
	if f.NoCgroup != "" {
		say("It has no cgroup until its next start: %s. Its leftover processes are found by scanning /proc.", f.NoCgroup)
	}
	if f.NoOutput != "" {
		say("Its output is not captured until its next start: %s.", f.NoOutput)
	}
	if o := f.Outage; o != nil {
		meanwhile := "The program blocks when its pipe is full"
		if o.Dropping {
			meanwhile = "New output is dropped"
		}
		say("Its output has not got into its log since %s (%s): %s. %s; superd keeps retrying.", f.clock(o.Since), span(f.Now.Sub(o.Since)), o.Reason, meanwhile)
	}
	if f.Dropped[0] > 0 {
		say("%d bytes of its output in %d lines were dropped since superd started: its log or the events say why.", f.Dropped[0], f.Dropped[1])
	}
	if f.HangsIn != "" {
		say("An earlier start still hangs: %s. The next one waits for it.", f.HangsIn)
	}
	f.explainNext(say)
	f.explainRuns(events, say)
	return b.String()
}

// verb returns the state as a verb before a time.
func (f *Diagnosis) verb() string {
	switch f.State {
	case Running:
		return fmt.Sprintf("is running with pid %d since", f.Pid)
	case Backoff:
		return "is in backoff since"
	case Failed, Exited:
		return f.State.String() + " at"
	}
	return "is " + f.State.String() + " since"
}

func (f *Diagnosis) explainTarget(say func(string, ...any)) {
	switch {
	case f.Removed && f.Replaced:
		say("The configuration has a new definition of this name, which replaces it when it is down.")
	case f.Removed:
		say("It is no longer in the configuration and is removed when it is down.")
	case f.WantedBy.Kind == ActorNone:
		say("It is not wanted up: `superd ctl start %s` starts it.", f.Name)
	case f.WantedUp && f.RestartPending:
		say("It is wanted up by %s and restarts as soon as it is down.", f.WantedBy)
	case f.WantedUp:
		say("It is wanted up by %s.", f.WantedBy)
	case f.WantedBy.is(ActorOperator):
		say("It is wanted down by %s and stays so until `superd ctl start %s`.", f.WantedBy, f.Name)
	default:
		say("It is wanted down by %s.", f.WantedBy)
	}
}

func (f *Diagnosis) explainCheck(say func(string, ...any)) {
	c := f.Check
	if c == nil {
		return
	}
	said := "passed"
	switch c.Outcome {
	case probe.Failed:
		said = fmt.Sprintf("failed: %s (%s in a row)", c.Reason, plural(c.Failures, "failure"))
	case probe.Void:
		said = "inconclusive: " + c.Reason
	case probe.Passed:
	}
	say("Its health was last checked at %s, %s, in %s: %s.", f.clock(c.At), f.Checked, plain(roundDuration(c.Took)), said)
}

func (f *Diagnosis) explainNext(say func(string, ...any)) {
	if f.Skipped > 0 {
		say("Its schedule %q was due %s during this run: skipped.", f.Schedule, times(f.Skipped))
	}
	switch {
	case !f.NextRun.IsZero():
		say("Its schedule is %q: next run at %s, in %s.", f.Schedule, f.clock(f.NextRun.Round(time.Second)), span(*f.NextStart))
	case f.Schedule != "" && f.State == Waiting && f.NextStart == nil:
		say("Its schedule is %q.", f.Schedule)
	case f.NextStart != nil && f.State == Failed:
		say("Next start in %s, then every %s.", span(*f.NextStart), plain(f.Limit.RetryAfter))
	case f.NextStart != nil:
		say("Next start in %s, after %s in a row; delays grow to at most %s.", span(*f.NextStart), plural(f.RestartAttempts, "failure"), longest(f.Backoff))
	case f.WantedUp && (f.State == Exited || f.State == Failed):
		say("No further start is due: `superd ctl start %s` starts it.", f.Name)
	}
	switch {
	case f.Limit.Failures == 0:
	case f.StartLimitHit:
		say("It hit its start limit: %s within %s. A run of %s or a start by the operator resets it.",
			plural(f.Limit.Failures, "failure"), plain(f.Limit.Within), plain(f.Backoff.ResetAfter))
	case f.Failures > 0:
		say("Start limit: %d of %s within %s.", f.Failures, plural(f.Limit.Failures, "failure"), plain(f.Limit.Within))
	}
	if f.Restarts > 0 {
		say("It was restarted automatically %s since the operator last started it, or since superd started.", times(f.Restarts))
	}
}

// longest returns the maximum delay: jitter is added to backoff.max.
func longest(b config.Backoff) string {
	if b.Jitter == 0 {
		return plain(b.Max)
	}
	return fmt.Sprintf("%s, plus a jitter of up to %.3g%%", plain(b.Max), 100*b.Jitter)
}

// explainRuns lists the last runs, and the last lines of the newest one if it failed.
func (f *Diagnosis) explainRuns(events []eventlog.Event, say func(string, ...any)) {
	var runs []eventlog.Event
	output := map[string][]string{}
	for _, e := range events {
		switch {
		case e.Instance != f.Name:
		case e.Kind == eventlog.Exit || e.Kind == eventlog.NoStart || e.Kind == eventlog.Skip:
			runs = append(runs, e)
		case e.Kind == eventlog.Output && e.Output != nil:
			output[e.Run] = e.Output
		}
	}
	if len(runs) == 0 {
		return
	}
	say("The last runs:")
	for _, e := range runs[max(0, len(runs)-shownRuns):] {
		switch {
		case e.Kind == eventlog.NoStart:
			say("  %s  not started: %s", f.clock(e.At), e.Reason)
		case e.Kind == eventlog.Skip:
			say("  %s  skipped: %s", f.clock(e.At), e.Reason)
		case e.Duration != nil:
			say("  %s  %s after %s", f.clock(e.At), e.Reason, lasted(time.Duration(*e.Duration*float64(time.Second))))
		default:
			say("  %s  %s", f.clock(e.At), e.Reason)
		}
	}
	if lines := output[newestRun(runs)]; len(lines) > 0 {
		say("The last lines of the run that failed:")
		for _, line := range lines {
			say("  | %s", line)
		}
	}
}

// newestRun returns the id of the newest run among events, some of which are skipped runs.
func newestRun(runs []eventlog.Event) string {
	for _, e := range slices.Backward(runs) {
		if e.Kind != eventlog.Skip {
			return e.Run
		}
	}
	return ""
}

// clock returns t as text: without the date for a time of today.
func (f *Diagnosis) clock(t time.Time) string {
	t = t.In(f.Now.Location())
	if t.Format(time.DateOnly) == f.Now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// span returns d as text, in a coarse unit.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); { // the wall clock may have been set back
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return plain(d.Truncate(time.Minute))
	case d >= 10*time.Second:
		return plain(d.Truncate(time.Second))
	case d >= time.Second:
		return plain(d.Truncate(100 * time.Millisecond))
	case d >= time.Millisecond:
		return plain(d.Truncate(time.Millisecond))
	}
	return d.Truncate(time.Microsecond).String()
}

// lasted returns the length of a run as text: below a minute, as in the reason of its end.
func lasted(d time.Duration) string {
	if d < time.Minute {
		return plain(roundDuration(d))
	}
	return span(d)
}

// plain returns d without the zeros that its String method appends: 1m, not 1m0s.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// plural returns "1 failure", "2 failures".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
