package instance

import (
	"time"

	"superd/internal/words"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// outputLines is how many of the last lines of a failed run are recorded.
const outputLines = 5

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
	r.in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.NoStart}, reason))
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
	e := eventlog.WithReason(eventlog.Event{
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
		if e.Output = eventlog.LastLines(string(end), cut, outputLines); e.Output != nil {
			in.Env.Records.RecordLater(e)
		}
	})
}

// logEnd logs the end of a run, or of its start, and what follows it.
func (r *run) logEnd(message string, attrs ...any) {
	in := r.in
	attrs = append([]any{"instance", in.Name}, attrs...)
	switch m := &in.Machine; {
	case m.State() == fsm.Backoff:
		in.Env.Log.Warn(message, append(attrs, "restart_in", words.Round(m.Delay()))...)
	case m.Outcome() == fsm.RunEndedRetry:
		in.Env.Log.Warn(message, attrs...)
	case m.Outcome() == fsm.RunEndedFinal || m.Outcome() == fsm.RunEndedStartLimit:
		in.Env.Log.Error(message, append(attrs, "reason", m.StateReason().String())...)
	default:
		in.Env.Log.Info(message, attrs...)
	}
}
