package procs

import (
	"slices"
	"strings"
	"time"

	"superd/pidfd"
	"superd/procs/eventlog"
)

// outputLines is how many of the last lines of a run that failed are recorded.
const outputLines = 5

// record puts e into the event log, if there is one.
func (s *Supervisor) record(e eventlog.Event) {
	if s.options.Events == nil {
		return
	}
	if e.At.IsZero() {
		e.At = s.loop.Wall()
	}
	s.options.Events.Queue(e)
	s.WriteSoon()
}

// record puts an event of the instance into the event log.
func (in *instance) record(e eventlog.Event) {
	e.Instance, e.Program = in.name, in.program.Name
	if e.Run == "" && in.run != nil {
		e.Run = in.run.invocationID
	}
	in.sup.record(e)
}

// recordState records a change of state that is shown, or a stop that goes on to SIGKILL.
func (in *instance) recordState(from State) {
	if to := in.machine.state; from.String() == to.String() && to != Killing {
		return
	}
	e := eventlog.Event{Kind: eventlog.State, From: from.String(), State: in.machine.state.String(), Reason: in.machine.cause}
	if in.awaitsSchedule() {
		e.Reason = in.reason()
	}
	if in.restartTimer != nil {
		e.RestartIn = new(in.machine.delay.Seconds())
	}
	in.record(e)
}

func (in *instance) recordStart() {
	if in.run.told.Start {
		return
	}
	in.record(eventlog.Event{Kind: eventlog.Start, Pid: in.run.process.Pid(), Reason: in.machine.why})
}

// recordNoStart records a start that failed, with the output of a hook that did.
func (in *instance) recordNoStart(r *run, err error) {
	in.record(eventlog.Event{Kind: eventlog.NoStart, Reason: err.Error()})
	if r.touched {
		in.recordOutput()
	}
}

// recordExit records the end of the main process, before the machine is told.
func (in *instance) recordExit(r *run, pid int, exit pidfd.Exit, ran time.Duration) {
	if in.sup.options.Events == nil {
		return
	}
	e := eventlog.Event{
		Kind: eventlog.Exit, Pid: pid, Reason: exit.String(), Exit: &eventlog.ExitStatus{Known: exit.Known},
		Started: in.sup.wallAt(r.startedAt), Duration: new(ran.Seconds()),
	}
	switch {
	case !exit.Known:
	case exit.Signal != 0:
		e.Exit.Signal = new(signalName(exit.Signal))
	default:
		e.Exit.Code = &exit.Code
	}
	if exit.Known {
		e.CPU = new((exit.UserTime + exit.SystemTime).Seconds())
		e.MaxRSS, e.RSSBound = exit.MaxRSSBytes, in.sup.maxRSS.bounds(exit.MaxRSSBytes)
	}
	if !r.told.Exit {
		in.record(e)
	}
	success := exit.Known && exit.Signal == 0 && slices.Contains(r.program.SuccessExitCodes, exit.Code)
	switch m := &in.machine; {
	case m.state == Starting, (m.state == Running || m.state == Lingering) && !success, m.blame != "":
		in.recordOutput()
	}
}

// recordOutput records the last lines of the run, as soon as they are in its log.
func (in *instance) recordOutput() {
	events := in.sup.options.Events
	if events == nil {
		return
	}
	e := eventlog.Event{At: in.sup.loop.Wall(), Kind: eventlog.Output, Instance: in.name, Program: in.program.Name, Run: in.run.invocationID}
	in.capture.Tail(func(end []byte, cut bool) {
		if e.Output = lastLines(string(end), cut, outputLines); e.Output != nil {
			events.Queue(e)
			in.sup.scope.Post(in.sup.WriteSoon)
		}
	})
}

// lastLines returns the last n lines of text as valid UTF-8, less empty ones at its end. cut tells that text may begin
// within a line; that one counts only if there is no other.
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
