package instance

import (
	"strings"
	"time"

	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// outputLines is how many of the last lines of a failed run are recorded.
const outputLines = 5

// Record puts an event of the instance into the event log.
func (in *Instance) Record(e eventlog.Event) {
	e.Instance, e.Program = in.Name, in.Program.Name
	if e.Run == "" && in.run != nil {
		e.Run = in.run.invocationID
	}
	in.Env.Records.Record(e)
}

// recordState records a change of the shown state, and the SIGKILL of a stop.
func (in *Instance) recordState(from fsm.State) {
	if to := in.Machine.State(); from.String() == to.String() && to != fsm.Killing {
		return
	}
	e := eventlog.Event{Kind: eventlog.State, From: from.String(), State: in.Machine.State().String()}
	if in.AwaitsSchedule() {
		kind, text := in.shownReason()
		e.Reason, e.ReasonKind = text, kind.String()
	} else {
		e = Because(e, in.Machine.StateReason())
	}
	if in.restartTimer != nil {
		e.RestartIn = new(in.Machine.Delay().Seconds())
	}
	in.Record(e)
}

func (m *mainProcess) recordStart() {
	r := m.run
	if r.recordedBefore.Start {
		return
	}
	why := r.in.Machine.StartReason()
	r.in.Record(eventlog.Event{
		Kind: eventlog.Start, Pid: m.process.Pid(),
		Reason: why.OfStart(), ReasonKind: why.Kind.String(),
	})
}

// recordNoStart records a start that failed, with the output of its hooks.
func (r *run) recordNoStart(reason fsm.Reason) {
	r.in.Record(Because(eventlog.Event{Kind: eventlog.NoStart}, reason))
	if r.hadProcess {
		r.in.Output.recordTail()
	}
}

// recordExit records the end of the main process, before the machine steps.
func (m *mainProcess) recordExit(pid int, exit pidfd.Exit, ran time.Duration) {
	r := m.run
	in := r.in
	if !in.Env.Records.Events() {
		return
	}
	e := Because(eventlog.Event{
		Kind: eventlog.Exit, Pid: pid, Exit: &eventlog.ExitStatus{Known: exit.Known},
		Started: in.Env.WallAt(m.startedAt), Duration: new(ran.Seconds()),
	}, exitOf(exit).Reason())
	switch {
	case !exit.Known:
	case exit.Signal != 0:
		e.Exit.Signal = new(SignalName(exit.Signal))
	default:
		e.Exit.Code = &exit.Code
	}
	if exit.Known {
		e.CPU = new((exit.UserTime + exit.SystemTime).Seconds())
		e.MaxRSS, e.RSSBound = exit.MaxRSSBytes, in.Env.Host.BoundsMaxRSS(exit.MaxRSSBytes)
	}
	if !r.recordedBefore.Exit {
		in.Record(e)
	}
	success := exitOf(exit).Success(r.program.SuccessExitCodes)
	switch m := &in.Machine; {
	case m.State() == fsm.Starting, (m.State() == fsm.Running || m.State() == fsm.StopPending) && !success,
		m.FailureReason().Kind != fsm.ReasonNone:
		in.Output.recordTail()
	}
}

// recordTail records the last lines of the run once they are in its log.
func (o *output) recordTail() {
	in := o.in
	if !in.Env.Records.Events() {
		return
	}
	e := eventlog.Event{At: in.Env.Loop.Wall(), Kind: eventlog.Output, Instance: in.Name, Program: in.Program.Name, Run: in.run.invocationID}
	o.Collector.Tail(func(end []byte, cut bool) {
		if e.Output = LastLines(string(end), cut, outputLines); e.Output != nil {
			in.Env.Records.RecordLater(e)
		}
	})
}

// LastLines returns the last n lines of text as valid UTF-8, without empty lines at the end. cut
// reports that text may begin within a line: that line counts only if it is the only one.
func LastLines(text string, cut bool, n int) []string {
	text = strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	switch {
	case cut && len(lines) == 1:
		lines[0] = "…" + lines[0]
	case cut:
		lines = lines[1:]
	}
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return lines
}

// Because returns e with the reason r.
func Because(e eventlog.Event, r fsm.Reason) eventlog.Event {
	e.Reason, e.ReasonKind = r.String(), r.Kind.String()
	return e
}
