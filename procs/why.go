package procs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/probe"
)

// Facts are what superd knows of why an instance is in its state. With the instance's events they make the explanation.
type Facts struct {
	Name     string
	State    State
	Now      time.Time // in whose zone times are shown
	Since    time.Time
	Cause    string // why the state is what it is
	Pid      int    // 0 without a main process
	Uptime   time.Duration
	WantedUp bool
	WantedBy string
	Again    bool // it is to start again as soon as it is down
	Removed  bool // it is not in the configuration any more
	Replaced bool // a new table of the same name waits for it to go

	WaitsFor  []string       // what keeps it from being started, and what that waits for, down to the cause
	Stage     string         // what goes on at the moment: a hook, a file that is opened, processes that are left
	Stuck     string         // what superd can do no more about; empty if nothing
	KillIn    *time.Duration // until SIGKILL; nil: none is due
	Says      string         // what it says of itself; empty if nothing
	Check     *Check         // the last check of its health; nil before one
	Checked   string         // what is checked: "http http://127.0.0.1/healthz"
	NoOutput  string         // why its output is not captured; empty where it is
	Reads     string         // the program whose logger it is; empty: it is none
	Logger    string         // the program that is its logger; empty: it has none
	Outage    *logs.Outage   // its output does not get into its log; nil: it does
	Dropped   [2]int64       // bytes and lines of its output that were dropped
	HangsIn   string         // what an earlier start has not come back from; empty if nothing
	NextStart *time.Duration // until the next start that happens by itself; nil: none is due
	Attempts  int            // starts in a row that failed
	Restarts  int            // automatic ones since the operator's last start
	Failures  int            // within the window of the start limit
	GaveUp    bool           // the start limit was reached
	Backoff   config.Backoff
	Limit     config.StartLimit

	Schedule string    // in force; empty: none is
	NextRun  time.Time // by the schedule, where the instance waits for that alone; zero: there is none
	Skipped  int       // due times since the run began that is not over
}

// Why returns the facts about the instances that names select, by name. Its errors are those of [Supervisor.Status].
func (s *Supervisor) Why(names []string) ([]Facts, error) {
	selected, err := s.selectInstances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Facts, 0, len(selected))
	for _, in := range selected {
		all = append(all, in.facts())
	}
	return all, nil
}

func (in *instance) facts() Facts {
	m, st := &in.machine, in.status()
	now := in.sup.loop.Now()
	f := Facts{
		Name: in.name, State: m.state, Now: in.sup.loop.Wall(), Since: st.Since, Cause: m.cause, Pid: st.Pid, Uptime: st.Uptime,
		WantedUp: m.wanted.up, WantedBy: m.wanted.by, Again: in.comesAgain(), Removed: in.removed, Replaced: in.next != nil,
		WaitsFor: in.waitsFor(), Stage: in.stage(), Says: st.StatusText, Stuck: in.stuck, NoOutput: in.noOutput,
		NextStart: st.NextStart, Attempts: m.attempts, Restarts: m.restarts, GaveUp: m.gaveUp,
		Backoff: in.program.Backoff, Limit: in.program.StartLimit,
	}
	if sc := in.sched; sc != nil && sc.entry != nil {
		f.Schedule, f.Skipped = in.program.Schedule, sc.skipped
		f.NextRun, _, _ = in.nextRun()
	}
	if r := in.run; r != nil && r.monitor != nil {
		f.Check, f.Checked = st.Check, r.monitor.what
	}
	f.Outage = in.capture.Outage()
	f.Dropped[0], f.Dropped[1] = in.capture.Dropped()
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

// comesAgain reports whether the instance is started again as soon as it is down.
func (in *instance) comesAgain() bool {
	m := &in.machine
	switch m.state {
	case Stopping, Killing:
		return m.wanted.up && m.blame == "" && !m.lacking()
	case Clearing:
		return m.wanted.up && m.verdict == EndAgain && !m.lacking()
	}
	return m.again && !m.lacking()
}

// shownRuns is how many of the last runs an explanation lists.
const shownRuns = 5

// Explain tells in plain words why the instance is in its state: what is wanted and by whom, what it waits for and until
// when, and how the last runs ended. events are those of the instance, in order; others are passed over. The text has
// several lines, each with its end; names and output in it are as they came.
func (f *Facts) Explain(events []eventlog.Event) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	say("%s %s %s (%s): %s.", f.Name, f.verb(), f.clock(f.Since), span(f.Now.Sub(f.Since)), f.Cause)
	f.explainWish(say)
	if f.Stuck != "" {
		say("superd can do no more about it: %s.", f.Stuck)
	}
	for _, what := range f.WaitsFor {
		say("It waits for %s.", what)
	}
	if f.Stage != "" {
		say("At the moment: %s.", f.Stage)
	}
	if f.KillIn != nil {
		say("If it has not ended in %s, it gets SIGKILL.", span(*f.KillIn))
	}
	if f.Says != "" {
		say("It says of itself: %s.", f.Says)
	}
	f.explainCheck(say)
	if f.Reads != "" {
		say("It is the logger of %s, whose output it reads.", f.Reads)
	}
	if f.Logger != "" {
		say("Its output goes to %s.", f.Logger)
	}
	if f.NoOutput != "" {
		say("Its output is not captured until it is started again: %s.", f.NoOutput)
	}
	if o := f.Outage; o != nil {
		meanwhile := "The program has to wait when its pipe is full"
		if o.Drops {
			meanwhile = "What it prints is dropped"
		}
		say("Its output does not get into its log since %s (%s): %s. %s; superd tries again and again.", f.clock(o.Since), span(f.Now.Sub(o.Since)), o.Reason, meanwhile)
	}
	if f.Dropped[0] > 0 {
		say("Of its output, %d bytes in %d lines were dropped since superd started, rather than have it wait: its log or the events say why.", f.Dropped[0], f.Dropped[1])
	}
	if f.HangsIn != "" {
		say("An earlier start of it still hangs: %s. No further one is sent there until it comes back.", f.HangsIn)
	}
	f.explainNext(say)
	f.explainRuns(events, say)
	return b.String()
}

// verb tells the state such that a time can follow.
func (f *Facts) verb() string {
	switch f.State {
	case Running:
		return fmt.Sprintf("is running with pid %d since", f.Pid)
	case Backoff:
		return "is in back-off since"
	case Failed, Exited:
		return f.State.String() + " at"
	}
	return "is " + f.State.String() + " since"
}

func (f *Facts) explainWish(say func(string, ...any)) {
	switch {
	case f.Removed && f.Replaced:
		say("It is not in the configuration any more in this form; the new one of this name takes its place when it is down.")
	case f.Removed:
		say("It is not in the configuration any more and goes when it is down.")
	case f.WantedBy == "":
		say("Nobody has asked for it to be up: `superd ctl start %s` starts it.", f.Name)
	case f.WantedUp && f.Again:
		say("It is wanted up by %s, in a new run: it starts again as soon as it is down.", f.WantedBy)
	case f.WantedUp:
		say("It is wanted up by %s.", f.WantedBy)
	case f.WantedBy == operator:
		say("It is wanted down by %s and stays so until `superd ctl start %s`.", f.WantedBy, f.Name)
	default:
		say("It is wanted down by %s.", f.WantedBy)
	}
}

func (f *Facts) explainCheck(say func(string, ...any)) {
	c := f.Check
	if c == nil {
		return
	}
	said := "it passed"
	switch c.Outcome {
	case probe.Failed:
		said = fmt.Sprintf("it failed: %s (%s in a row)", c.Reason, plural(c.Failures, "failure"))
	case probe.Void:
		said = "that tells nothing: " + c.Reason
	}
	say("Its health was last checked at %s, %s, in %s: %s.", f.clock(c.At), f.Checked, roundDuration(c.Took), said)
}

func (f *Facts) explainNext(say func(string, ...any)) {
	if f.Skipped > 0 {
		say("Its schedule %q was due %s since this run began: nothing was run for that.", f.Schedule, times(f.Skipped))
	}
	switch {
	case !f.NextRun.IsZero():
		say("Its schedule is %q: next run at %s, in %s.", f.Schedule, f.clock(f.NextRun.Round(time.Second)), span(*f.NextStart))
	case f.Schedule != "" && f.State == Waiting && f.NextStart == nil:
		say("Its schedule is %q.", f.Schedule)
	case f.NextStart != nil && f.State == Failed:
		say("Next start in %s: it has given up, and is tried again every %s.", span(*f.NextStart), plain(f.Limit.RetryAfter))
	case f.NextStart != nil:
		say("Next start in %s, after %s in a row; delays grow to at most %s.", span(*f.NextStart), plural(f.Attempts, "failure"), longest(f.Backoff))
	case f.WantedUp && (f.State == Exited || f.State == Failed):
		say("No further start is due: `superd ctl start %s` starts it.", f.Name)
	}
	switch {
	case f.Limit.Failures == 0:
	case f.GaveUp:
		say("Its start limit was reached: %s within %s. A run of %s or a start by the operator clears that.",
			plural(f.Limit.Failures, "failure"), plain(f.Limit.Within), plain(f.Backoff.ResetAfter))
	case f.Failures > 0:
		say("Start limit: %d of %s within %s.", f.Failures, plural(f.Limit.Failures, "failure"), plain(f.Limit.Within))
	}
	if f.Restarts > 0 {
		say("It was started again by itself %s since the operator last started it, or since superd runs.", times(f.Restarts))
	}
}

// longest shows how long a delay may get: jitter goes on top of backoff.max.
func longest(b config.Backoff) string {
	if b.Jitter == 0 {
		return plain(b.Max)
	}
	return fmt.Sprintf("%s, to which jitter adds up to %.3g%%", plain(b.Max), 100*b.Jitter)
}

// explainRuns lists the last runs, and the last lines of the newest one if it failed.
func (f *Facts) explainRuns(events []eventlog.Event, say func(string, ...any)) {
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
			say("  %s  %s after %s", f.clock(e.At), e.Reason, span(time.Duration(*e.Duration*float64(time.Second))))
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

// newestRun returns the id of the newest run among events of which some are of what was not run.
func newestRun(runs []eventlog.Event) string {
	for _, e := range slices.Backward(runs) {
		if e.Kind != eventlog.Skip {
			return e.Run
		}
	}
	return ""
}

// clock shows a time of today by the clock alone.
func (f *Facts) clock(t time.Time) string {
	t = t.In(f.Now.Location())
	if t.Format(time.DateOnly) == f.Now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// span shows about how long d is.
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
