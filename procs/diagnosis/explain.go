package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/config/enablement"
	"superd/internal/words"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/probe"
)

// shownRuns is how many of the last runs an explanation lists.
const shownRuns = 5

// Explain returns several lines of text: the state and its reason, the desired state and its actor,
// what the instance waits for and until when, and how the last runs ended. events are in order;
// those of other instances are ignored. Names and output in the text are not escaped.
func (d *Diagnosis) Explain(events []eventlog.Event) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	reason, waitsFor := d.Reason, d.WaitsFor
	// What it waits for has the whole chain
	if reason.Kind == fsm.ReasonWaitsForDependency && len(waitsFor) == 1 {
		reason, waitsFor = fsm.ReasonWaitsForDependency.With(waitsFor[0]), nil
	}
	age := words.Coarse(d.Now.Sub(d.Since))
	printf("%s %s %s (%s): %s.", d.Name, d.verb(), d.clock(d.Since), age, reason)
	d.explainTarget(printf)
	switch d.Desired.Enablement {
	case enablement.Enabled:
		printf("It starts with superd, as the operator has enabled it: `superd ctl disable %s` changes that.", config.ProgramOf(d.Name))
	case enablement.Disabled:
		printf("It does not start with superd, as the operator has disabled it: `superd ctl enable %s` changes that.", config.ProgramOf(d.Name))
	}
	if d.Processes.Unkillable != "" {
		printf("superd cannot end it: %s.", d.Processes.Unkillable)
	}
	for _, what := range waitsFor {
		printf("It waits for %s.", what)
	}
	if d.Stage != "" {
		printf("Now: %s.", d.Stage)
	}
	if d.Roll != "" {
		printf("%s%s.", strings.ToUpper(d.Roll[:1]), d.Roll[1:])
	}
	if d.KillIn != nil {
		printf("It gets SIGKILL in %s unless it ends before.", words.Coarse(*d.KillIn))
	}
	if d.StatusText != "" {
		printf("It reports: %s.", d.StatusText)
	}
	d.explainCheck(printf)
	if d.Output.LoggerOf != "" {
		printf("It is the logger of %s and reads its output.", d.Output.LoggerOf)
	}
	if d.Output.Logger != "" {
		printf("Its output goes to %s.", d.Output.Logger)
	}
	for _, s := range d.Processes.Unattributed {
		printf("Process %d (%s) can't be attributed to a program; it may belong to this one. The shutdown ends it, unless a kill_mode spares processes or superd inherited children.", s.Pid, s.Command)
	}
	if d.Processes.NoCgroup != "" {
		printf("It has no cgroup until its next start: %s. Its leftover processes are found by scanning /proc.", d.Processes.NoCgroup)
	}
	for _, warning := range d.Processes.Sandbox {
		printf("Its sandbox is incomplete: %s.", warning)
	}
	if d.WatchProblem != "" {
		printf("Not all changes of its files are noticed: %s.", d.WatchProblem)
	}
	d.explainLostOutput(printf)
	if d.HangsIn != "" {
		printf("An earlier start still hangs: %s. The next one waits for it.", d.HangsIn)
	}
	d.explainNext(printf)
	d.explainRuns(events, printf)
	return b.String()
}

// explainLostOutput says why output of the instance does not get into its log.
func (d *Diagnosis) explainLostOutput(printf func(string, ...any)) {
	if d.Output.NotCaptured != "" {
		printf("Its output is not captured until its next start: %s.", d.Output.NotCaptured)
	}
	if o := d.Output.Outage; o != nil {
		meanwhile := "The program blocks when its pipe is full"
		if o.Dropping {
			meanwhile = "New output is dropped"
		}
		printf("Its output has not got into its log since %s (%s): %s. %s; superd keeps retrying.", d.clock(o.Since), words.Coarse(d.Now.Sub(o.Since)), o.Reason, meanwhile)
	}
	if d.Output.DroppedBytes > 0 {
		printf("%d bytes of its output in %d lines were dropped since superd started: its log or the events say why.", d.Output.DroppedBytes, d.Output.DroppedLines)
	}
}

// verb returns the state as a verb before a time.
func (d *Diagnosis) verb() string {
	switch d.State {
	case fsm.Running:
		return fmt.Sprintf("is running with pid %d since", d.Pid)
	case fsm.Backoff:
		return "is in backoff since"
	case fsm.Failed, fsm.Exited:
		return d.State.String() + " at"
	}
	return "is " + d.State.String() + " since"
}

func (d *Diagnosis) explainTarget(printf func(string, ...any)) {
	want := &d.Desired
	switch {
	case want.Removed && want.Replaced:
		printf("The configuration has a new definition of this name, which replaces it when it is down.")
	case want.Removed:
		printf("It is no longer in the configuration and is removed when it is down.")
	case want.OnConnect && d.Kind == fsm.ReasonWaitsForSocket:
		printf("A connection starts it when its sockets are open.")
	case want.OnConnect:
		printf("The next connection starts it.")
	case want.By.Kind == fsm.ActorNone:
		printf("It is not wanted up: `superd ctl start %s` starts it.", d.Name)
	case want.Up && want.RestartPending:
		printf("It is wanted up by %s and restarts as soon as it is down.", want.By)
	case want.Up:
		printf("It is wanted up by %s.", want.By)
	case want.By.Is(fsm.ActorOperator):
		printf("It is wanted down by %s and stays so until `superd ctl start %s`.", want.By, d.Name)
	default:
		printf("It is wanted down by %s.", want.By)
	}
}

func (d *Diagnosis) explainCheck(printf func(string, ...any)) {
	c := d.Health.Last
	if c == nil {
		return
	}
	said := "passed"
	switch c.Outcome {
	case probe.Failed:
		said = fmt.Sprintf("failed: %s (%s in a row)", c.Reason, words.Plural(c.Failures, "failure"))
	case probe.Void:
		said = "inconclusive: " + c.Reason
	case probe.Passed:
	}
	printf("Its health was last checked at %s, %s, in %s: %s.", d.clock(c.At), d.Health.Probes, words.Duration(words.Round(c.Took)), said)
}

func (d *Diagnosis) explainNext(printf func(string, ...any)) {
	s, r := &d.Schedule, &d.Restarts
	if s.Skipped > 0 {
		printf("Its schedule %q was due %s during this run: skipped.", s.Spec, words.Times(s.Skipped))
	}
	switch {
	case !s.NextRun.IsZero():
		printf("Its schedule is %q: next run at %s, in %s.", s.Spec, d.clock(s.NextRun.Round(time.Second)), words.Coarse(*d.NextStart))
	case s.Spec != "" && d.State == fsm.Waiting && d.NextStart == nil:
		printf("Its schedule is %q.", s.Spec)
	case d.NextStart != nil && d.State == fsm.Failed:
		printf("Next start in %s, then every %s.", words.Coarse(*d.NextStart), words.Duration(r.Limit.RetryAfter))
	case d.NextStart != nil:
		printf("Next start in %s, after %s in a row; delays grow to at most %s.", words.Coarse(*d.NextStart), words.Plural(r.Attempts, "failure"), maxDelayText(r.Backoff))
	case d.Desired.Up && !d.Desired.OnConnect && (d.State == fsm.Exited || d.State == fsm.Failed):
		printf("No further start is due: `superd ctl start %s` starts it.", d.Name)
	}
	switch {
	case r.Limit.Failures == 0:
	case r.LimitHit:
		printf("It hit its start limit: %s within %s. A run of %s or a start by the operator resets it.",
			words.Plural(r.Limit.Failures, "failure"), words.Duration(r.Limit.Within), words.Duration(r.Backoff.ResetAfter))
	case r.Failures > 0:
		printf("Start limit: %d of %s within %s.", r.Failures, words.Plural(r.Limit.Failures, "failure"), words.Duration(r.Limit.Within))
	}
	if d.Flapping != nil {
		printf("It is flapping since %s: it restarts again and again.", d.clock(*d.Flapping))
	}
	if r.Count > 0 {
		printf("It was restarted automatically %s since the operator last started it, or since superd started.", words.Times(r.Count))
	}
}

// maxDelayText returns the maximum delay: jitter is added to backoff.max.
func maxDelayText(b config.Backoff) string {
	if b.Jitter == 0 {
		return words.Duration(b.Max)
	}
	return fmt.Sprintf("%s, plus a jitter of up to %.3g%%", words.Duration(b.Max), 100*b.Jitter)
}

// explainRuns lists the last runs, series of equal ones in one line, and the last lines of the
// newest one if it failed.
func (d *Diagnosis) explainRuns(events []eventlog.Event, printf func(string, ...any)) {
	var runs []eventlog.Event
	output := map[string][]string{}
	for _, e := range events {
		switch {
		case e.Instance != d.Name:
		case e.Kind == eventlog.Exit || e.Kind == eventlog.NoStart || e.Kind == eventlog.Skip:
			runs = append(runs, e)
		case e.Kind == eventlog.Output && e.Output != nil:
			output[e.Run] = e.Output
		}
	}
	if len(runs) == 0 {
		return
	}
	printf("The last runs:")
	series := seriesOf(runs)
	for _, r := range series[max(0, len(series)-shownRuns):] {
		when := d.clock(r.first)
		if r.count > 1 {
			when = fmt.Sprintf("%s to %s  %d times:", when, d.clock(r.last), r.count)
		} else {
			when += " "
		}
		printf("  %s %s", when, r.text())
	}
	if lines := output[newestRun(runs)]; len(lines) > 0 {
		printf("The last lines of the run that failed:")
		for _, line := range lines {
			printf("  | %s", line)
		}
	}
}

// A runSeries is one run, or several in a row that ended in the same way.
type runSeries struct {
	kind        eventlog.Kind
	reason      string
	count       int
	first, last time.Time
	// of the shortest and the longest run, in seconds; nil: unknown
	shortest, longest *float64
}

// seriesOf returns the series in a list of ends of runs.
func seriesOf(runs []eventlog.Event) (all []runSeries) {
	for _, e := range runs {
		next := runSeries{e.Kind, e.Reason, 1, e.At, e.At, e.Duration, e.Duration}
		if len(all) > 0 && all[len(all)-1].add(next) {
			continue
		}
		all = append(all, next)
	}
	return all
}

// add adds one run. It reports false if that ended in another way.
func (r *runSeries) add(next runSeries) bool {
	if r.kind != next.kind || r.reason != next.reason || (r.longest == nil) != (next.longest == nil) {
		return false
	}
	r.count++
	r.last = next.last
	if r.longest != nil {
		r.shortest, r.longest = new(min(*r.shortest, *next.shortest)), new(max(*r.longest, *next.longest))
	}
	return true
}

// text returns how the runs ended.
func (r *runSeries) text() string {
	switch {
	case r.kind == eventlog.NoStart:
		return "not started: " + r.reason
	case r.kind == eventlog.Skip:
		return "skipped: " + r.reason
	case r.longest == nil:
		return r.reason
	}
	length := func(seconds float64) string { return words.RunLength(time.Duration(seconds * float64(time.Second))) }
	shortest, longest := length(*r.shortest), length(*r.longest)
	if shortest != longest {
		longest = shortest + " to " + longest
	}
	return r.reason + " after " + longest
}

// newestRun returns the id of the newest run among runs, which may contain skipped ones.
func newestRun(runs []eventlog.Event) string {
	for _, e := range slices.Backward(runs) {
		if e.Kind != eventlog.Skip {
			return e.Run
		}
	}
	return ""
}

// clock returns t as text: without the date for a time of today.
func (d *Diagnosis) clock(t time.Time) string {
	t = t.In(d.Now.Location())
	if t.Format(time.DateOnly) == d.Now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
