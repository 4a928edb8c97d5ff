package procs

import (
	"strings"
	"time"

	"superd/internal/words"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// outputLines is how many of the last lines of a failed run are recorded.
const outputLines = 5

// record adds e to the event log, if there is one.
func (r *recorder) record(e eventlog.Event) {
	if r.options.Events == nil {
		return
	}
	if e.At.IsZero() {
		e.At = r.loop.Wall()
	}
	r.options.Events.Queue(e)
	r.writeSoon()
}

// recordDropped records that output was dropped. It may be called from any goroutine.
func (r *recorder) recordDropped(l logs.DroppedOutput) {
	if events := r.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Output, Instance: l.Instance, Program: l.Program, Run: l.Run,
		}
		events.Append(because(e, fsm.ReasonOutputDropped.With(l.Text)))
	}
}

// recordOutage records the begin or the end of an outage of a log. It may be called from any
// goroutine.
func (r *recorder) recordOutage(o logs.Outage, over bool) {
	now := time.Now()
	if events := r.options.Events; events != nil {
		e := eventlog.Event{
			At: now, Kind: eventlog.Outage, Instance: o.Instance, Program: o.Program, Run: o.Run, State: eventlog.Begun,
		}
		why := fsm.ReasonLogOutage.With("output does not get into " + o.Log + ": " + o.Reason)
		if over {
			e.State = eventlog.Over
			why = fsm.ReasonLogOutageOver.With(words.Coarse(now.Sub(o.Since)))
		}
		events.Append(because(e, why))
	}
}

// recordFirstOutput records where the output of a run begins in its log. It may be called from any
// goroutine.
func (r *recorder) recordFirstOutput(start logs.RunStart) {
	if events := r.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Print, Instance: start.Instance, Program: start.Program, Run: start.Run, Place: start.At.String(),
		}
		events.Append(because(e, fsm.Reason{Kind: fsm.ReasonFirstOutput}))
	}
}

// because returns e with the reason r.
func because(e eventlog.Event, r fsm.Reason) eventlog.Event {
	e.Reason, e.ReasonKind = r.String(), r.Kind.String()
	return e
}

// byOperator returns e with the operator as its actor.
func byOperator(e eventlog.Event) eventlog.Event {
	by := fsm.By(fsm.ActorOperator)
	e.By, e.ByKind = by.String(), by.Kind.String()
	return e
}

// record puts an event of the instance into the event log.
func (in *instance) record(e eventlog.Event) {
	e.Instance, e.Program = in.name, in.program.Name
	if e.Run == "" && in.run != nil {
		e.Run = in.run.invocationID
	}
	in.sup.recorder.record(e)
}

// recordState records a change of the shown state, and the SIGKILL of a stop.
func (in *instance) recordState(from fsm.State) {
	if to := in.machine.State(); from.String() == to.String() && to != fsm.Killing {
		return
	}
	e := eventlog.Event{Kind: eventlog.State, From: from.String(), State: in.machine.State().String()}
	if in.awaitsSchedule() {
		kind, text := in.shownReason()
		e.Reason, e.ReasonKind = text, kind.String()
	} else {
		e = because(e, in.machine.StateReason())
	}
	if in.restartTimer != nil {
		e.RestartIn = new(in.machine.Delay().Seconds())
	}
	in.record(e)
}

func (in *instance) recordStart() {
	if in.run.recordedBefore.Start {
		return
	}
	why := in.machine.StartReason()
	in.record(eventlog.Event{
		Kind: eventlog.Start, Pid: in.run.process.Pid(),
		Reason: why.OfStart(), ReasonKind: why.Kind.String(),
	})
}

// recordNoStart records a start that failed, with the output of its hooks.
func (in *instance) recordNoStart(r *run, reason fsm.Reason) {
	in.record(because(eventlog.Event{Kind: eventlog.NoStart}, reason))
	if r.hadProcess {
		in.recordOutput()
	}
}

// recordExit records the end of the main process, before the machine steps.
func (in *instance) recordExit(r *run, pid int, exit pidfd.Exit, ran time.Duration) {
	if in.sup.options.Events == nil {
		return
	}
	e := because(eventlog.Event{
		Kind: eventlog.Exit, Pid: pid, Exit: &eventlog.ExitStatus{Known: exit.Known},
		Started: in.sup.wallAt(r.startedAt), Duration: new(ran.Seconds()),
	}, exitOf(exit).Reason())
	switch {
	case !exit.Known:
	case exit.Signal != 0:
		e.Exit.Signal = new(signalName(exit.Signal))
	default:
		e.Exit.Code = &exit.Code
	}
	if exit.Known {
		e.CPU = new((exit.UserTime + exit.SystemTime).Seconds())
		e.MaxRSS, e.RSSBound = exit.MaxRSSBytes, in.sup.host.BoundsMaxRSS(exit.MaxRSSBytes)
	}
	if !r.recordedBefore.Exit {
		in.record(e)
	}
	success := exitOf(exit).Success(r.program.SuccessExitCodes)
	switch m := &in.machine; {
	case m.State() == fsm.Starting, (m.State() == fsm.Running || m.State() == fsm.StopPending) && !success,
		m.FailureReason().Kind != fsm.ReasonNone:
		in.recordOutput()
	}
}

// recordOutput records the last lines of the run once they are in its log.
func (in *instance) recordOutput() {
	events := in.sup.options.Events
	if events == nil {
		return
	}
	e := eventlog.Event{At: in.sup.loop.Wall(), Kind: eventlog.Output, Instance: in.name, Program: in.program.Name, Run: in.run.invocationID}
	in.collector.Tail(func(end []byte, cut bool) {
		if e.Output = lastLines(string(end), cut, outputLines); e.Output != nil {
			events.Queue(e)
			in.sup.scope.Post(in.sup.recorder.writeSoon)
		}
	})
}

// lastLines returns the last n lines of text as valid UTF-8, without empty lines at the end. cut
// reports that text may begin within a line: that line counts only if it is the only one.
func lastLines(text string, cut bool, n int) []string {
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
