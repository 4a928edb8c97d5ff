package procs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/probe"
)

// A Diagnosis is what superd knows about the state of an instance. [Diagnosis.Explain] makes text
// of it.
type Diagnosis struct {
	Name           string
	State          fsm.State
	Now            time.Time // in the time zone of shown times
	Since          time.Time
	Reason         fsm.Reason     // why the state is what it is
	Kind           fsm.ReasonKind // kind of the reason in a [Status]
	Pid            int            // 0 without a main process
	Uptime         time.Duration
	WantedUp       bool
	WantedBy       fsm.Actor
	RestartPending bool // it restarts when it is down
	Removed        bool // it is no longer configured
	Replaced       bool // it is replaced by a new definition of its name when it is down

	// What blocks its start, one line for each program it waits for
	WaitsFor []string
	// What happens at the moment: a hook, a file that is being opened, leftover processes
	Stage      string
	Unkillable string         // describes an unkillable process; empty without one
	KillIn     *time.Duration // until SIGKILL; nil: none is due
	StatusText string         // what the program reports of itself (STATUS=)
	Check      *Check         // last health check; nil before the first
	Checked    string         // what the health check probes: "http http://127.0.0.1/healthz"
	// Unattributed processes that may belong to it
	Unattributed []host.UnattributedProcess
	// Why it has no cgroup though others have one; empty if it has one
	NoCgroup        string
	NoOutput        string         // why its output is not captured; empty if it is
	LoggerOf        string         // program whose output it reads; empty if it is no logger
	Logger          string         // program that reads its output; empty without one
	Outage          *logs.Outage   // why its output does not reach its log; nil if it does
	Dropped         [2]int64       // bytes and lines of dropped output
	HangsIn         string         // stage in which an earlier start hangs; empty without one
	NextStart       *time.Duration // until the next automatic start; nil: none is due
	RestartAttempts int            // consecutive restarts without a stable run
	Restarts        int            // automatic restarts since the operator's last start
	Failures        int            // failures within the window of the start limit
	StartLimitHit   bool           // the start limit was reached
	Backoff         config.Backoff
	Limit           config.StartLimit

	Schedule string // in force; empty without one
	// Next time of the schedule, if the instance waits only for that; else zero
	NextRun time.Time
	Skipped int // due times that were skipped during the current run
}

// Why returns a [Diagnosis] of each instance that names select, by name. Its errors are those of
// [Supervisor.Status].
func (s *Supervisor) Why(names []string) ([]Diagnosis, error) {
	selected, err := s.selector.instances(names)
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
	d := Diagnosis{
		Name: in.name, State: m.State(), Now: in.sup.loop.Wall(), Since: st.Since,
		Reason: m.StateReason(), Kind: st.ReasonKind, Pid: st.Pid, Uptime: st.Uptime,
		WantedUp: m.Desired().Up, WantedBy: m.Desired().By, RestartPending: in.restartsWhenDown(), Removed: in.membership.Leaves(), Replaced: in.membership.HasReplacement(),
		WaitsFor: in.waitsFor(), Stage: in.stage(), StatusText: st.StatusText, Unkillable: in.unkillable, NoOutput: in.noOutput, NoCgroup: in.tree.Lack(), Unattributed: in.unattributed(),
		NextStart: st.NextStart, RestartAttempts: m.RestartAttempts(), Restarts: m.Restarts(), StartLimitHit: m.StartLimitHit(),
		Backoff: in.program.Backoff, Limit: in.program.StartLimit,
	}
	if sc := in.schedule; sc != nil && sc.entry != nil {
		d.Schedule, d.Skipped = in.program.Schedule, sc.skipped
		d.NextRun, _, _ = in.nextRun()
	}
	if r := in.run; r != nil && r.monitor != nil {
		d.Check, d.Checked = st.Check, r.monitor.what
	}
	d.Outage = in.collector.Outage()
	d.Dropped[0], d.Dropped[1] = in.collector.Dropped()
	if d.LoggerOf = in.program.LoggerOf; in.program.Log.Sink == config.SinkCommand {
		d.Logger = config.LoggerName(in.program.Name)
	}
	if in.hungWorkers > 0 {
		d.HangsIn = in.hangsIn
	}
	for _, at := range m.Failures() {
		if now-at <= d.Limit.Within {
			d.Failures++
		}
	}
	if r := in.run; r != nil && r.stopDeadline > now && m.State() == fsm.Stopping {
		d.KillIn = new(r.stopDeadline - now)
	}
	return d
}

// restartsWhenDown reports whether the instance restarts as soon as it is down.
func (in *instance) restartsWhenDown() bool {
	m := &in.machine
	switch m.State() {
	case fsm.Stopping, fsm.Killing:
		return m.Desired().Up && m.FailureReason().Kind == fsm.ReasonNone && !in.node.Lost()
	case fsm.TearingDown:
		return m.Desired().Up && m.Outcome() == fsm.RunEndedRestart && !in.node.Lost()
	}
	return m.RestartPending() && !in.node.Lost()
}

// shownRuns is how many of the last runs an explanation lists.
const shownRuns = 5

// Explain returns several lines of text: the state and its reason, the desired state and its actor,
// what the instance waits for and until when, and how the last runs ended. events are in order;
// those of other instances are ignored. Names and output in the text are not escaped.
func (d *Diagnosis) Explain(events []eventlog.Event) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	printf("%s %s %s (%s): %s.", d.Name, d.verb(), d.clock(d.Since), coarseDuration(d.Now.Sub(d.Since)), d.Reason)
	d.explainTarget(printf)
	if d.Unkillable != "" {
		printf("superd cannot end it: %s.", d.Unkillable)
	}
	for _, what := range d.WaitsFor {
		printf("It waits for %s.", what)
	}
	if d.Stage != "" {
		printf("Now: %s.", d.Stage)
	}
	if d.KillIn != nil {
		printf("It gets SIGKILL in %s unless it ends before.", coarseDuration(*d.KillIn))
	}
	if d.StatusText != "" {
		printf("It reports: %s.", d.StatusText)
	}
	d.explainCheck(printf)
	if d.LoggerOf != "" {
		printf("It is the logger of %s and reads its output.", d.LoggerOf)
	}
	if d.Logger != "" {
		printf("Its output goes to %s.", d.Logger)
	}
	for _, s := range d.Unattributed {
		printf("Process %d (%s) can't be attributed to a program; it may belong to this one. The shutdown ends it, unless a kill_mode spares processes or superd inherited children.", s.Pid, s.Command)
	}
	if d.NoCgroup != "" {
		printf("It has no cgroup until its next start: %s. Its leftover processes are found by scanning /proc.", d.NoCgroup)
	}
	if d.NoOutput != "" {
		printf("Its output is not captured until its next start: %s.", d.NoOutput)
	}
	if o := d.Outage; o != nil {
		meanwhile := "The program blocks when its pipe is full"
		if o.Dropping {
			meanwhile = "New output is dropped"
		}
		printf("Its output has not got into its log since %s (%s): %s. %s; superd keeps retrying.", d.clock(o.Since), coarseDuration(d.Now.Sub(o.Since)), o.Reason, meanwhile)
	}
	if d.Dropped[0] > 0 {
		printf("%d bytes of its output in %d lines were dropped since superd started: its log or the events say why.", d.Dropped[0], d.Dropped[1])
	}
	if d.HangsIn != "" {
		printf("An earlier start still hangs: %s. The next one waits for it.", d.HangsIn)
	}
	d.explainNext(printf)
	d.explainRuns(events, printf)
	return b.String()
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
	switch {
	case d.Removed && d.Replaced:
		printf("The configuration has a new definition of this name, which replaces it when it is down.")
	case d.Removed:
		printf("It is no longer in the configuration and is removed when it is down.")
	case d.WantedBy.Kind == fsm.ActorNone:
		printf("It is not wanted up: `superd ctl start %s` starts it.", d.Name)
	case d.WantedUp && d.RestartPending:
		printf("It is wanted up by %s and restarts as soon as it is down.", d.WantedBy)
	case d.WantedUp:
		printf("It is wanted up by %s.", d.WantedBy)
	case d.WantedBy.Is(fsm.ActorOperator):
		printf("It is wanted down by %s and stays so until `superd ctl start %s`.", d.WantedBy, d.Name)
	default:
		printf("It is wanted down by %s.", d.WantedBy)
	}
}

func (d *Diagnosis) explainCheck(printf func(string, ...any)) {
	c := d.Check
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
	printf("Its health was last checked at %s, %s, in %s: %s.", d.clock(c.At), d.Checked, words.Duration(words.Round(c.Took)), said)
}

func (d *Diagnosis) explainNext(printf func(string, ...any)) {
	if d.Skipped > 0 {
		printf("Its schedule %q was due %s during this run: skipped.", d.Schedule, times(d.Skipped))
	}
	switch {
	case !d.NextRun.IsZero():
		printf("Its schedule is %q: next run at %s, in %s.", d.Schedule, d.clock(d.NextRun.Round(time.Second)), coarseDuration(*d.NextStart))
	case d.Schedule != "" && d.State == fsm.Waiting && d.NextStart == nil:
		printf("Its schedule is %q.", d.Schedule)
	case d.NextStart != nil && d.State == fsm.Failed:
		printf("Next start in %s, then every %s.", coarseDuration(*d.NextStart), words.Duration(d.Limit.RetryAfter))
	case d.NextStart != nil:
		printf("Next start in %s, after %s in a row; delays grow to at most %s.", coarseDuration(*d.NextStart), words.Plural(d.RestartAttempts, "failure"), maxDelayText(d.Backoff))
	case d.WantedUp && (d.State == fsm.Exited || d.State == fsm.Failed):
		printf("No further start is due: `superd ctl start %s` starts it.", d.Name)
	}
	switch {
	case d.Limit.Failures == 0:
	case d.StartLimitHit:
		printf("It hit its start limit: %s within %s. A run of %s or a start by the operator resets it.",
			words.Plural(d.Limit.Failures, "failure"), words.Duration(d.Limit.Within), words.Duration(d.Backoff.ResetAfter))
	case d.Failures > 0:
		printf("Start limit: %d of %s within %s.", d.Failures, words.Plural(d.Limit.Failures, "failure"), words.Duration(d.Limit.Within))
	}
	if d.Restarts > 0 {
		printf("It was restarted automatically %s since the operator last started it, or since superd started.", times(d.Restarts))
	}
}

// maxDelayText returns the maximum delay: jitter is added to backoff.max.
func maxDelayText(b config.Backoff) string {
	if b.Jitter == 0 {
		return words.Duration(b.Max)
	}
	return fmt.Sprintf("%s, plus a jitter of up to %.3g%%", words.Duration(b.Max), 100*b.Jitter)
}

// explainRuns lists the last runs, and the last lines of the newest one if it failed.
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
	for _, e := range runs[max(0, len(runs)-shownRuns):] {
		switch {
		case e.Kind == eventlog.NoStart:
			printf("  %s  not started: %s", d.clock(e.At), e.Reason)
		case e.Kind == eventlog.Skip:
			printf("  %s  skipped: %s", d.clock(e.At), e.Reason)
		case e.Duration != nil:
			printf("  %s  %s after %s", d.clock(e.At), e.Reason, runLength(time.Duration(*e.Duration*float64(time.Second))))
		default:
			printf("  %s  %s", d.clock(e.At), e.Reason)
		}
	}
	if lines := output[newestRun(runs)]; len(lines) > 0 {
		printf("The last lines of the run that failed:")
		for _, line := range lines {
			printf("  | %s", line)
		}
	}
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

// coarseDuration returns d as text, without its smaller units.
func coarseDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); { // the wall clock may have been set back
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return words.Duration(d.Truncate(time.Minute))
	case d >= 10*time.Second:
		return words.Duration(d.Truncate(time.Second))
	case d >= time.Second:
		return words.Duration(d.Truncate(100 * time.Millisecond))
	case d >= time.Millisecond:
		return words.Duration(d.Truncate(time.Millisecond))
	}
	return d.Truncate(time.Microsecond).String()
}

// runLength returns the duration of a run as text: below a minute as in exit reasons, else
// coarsely.
func runLength(d time.Duration) string {
	if d < time.Minute {
		return words.Duration(words.Round(d))
	}
	return coarseDuration(d)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
