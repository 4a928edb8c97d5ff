package procs

import (
	"time"

	"superd/internal/words"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/fsm"
)

// Record adds e to the event log, if there is one.
func (r *recorder) Record(e eventlog.Event) {
	if r.options.Events == nil {
		return
	}
	if e.At.IsZero() {
		e.At = r.Loop.Wall()
	}
	r.options.Events.Queue(e)
	r.WriteSoon()
}

// RecordLater implements [instance.Records].
func (r *recorder) RecordLater(e eventlog.Event) {
	if events := r.options.Events; events != nil {
		events.Queue(e)
		r.Scope.Post(r.WriteSoon)
	}
}

// recordDropped records that output was dropped. It may be called from any goroutine.
func (r *recorder) recordDropped(l logs.DroppedOutput) {
	if events := r.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Output, Instance: l.Instance, Program: l.Program, Run: l.Run,
		}
		events.Append(eventlog.WithReason(e, fsm.ReasonOutputDropped.With(l.Text)))
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
		events.Append(eventlog.WithReason(e, why))
	}
}

// recordFirstOutput records where the output of a run begins in its log. It may be called from any
// goroutine.
func (r *recorder) recordFirstOutput(start logs.RunStart) {
	if events := r.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Print, Instance: start.Instance, Program: start.Program, Run: start.Run, Place: start.At.String(),
		}
		events.Append(eventlog.WithReason(e, fsm.Reason{Kind: fsm.ReasonFirstOutput}))
	}
}

// byOperator returns e with the operator as its actor.
func byOperator(e eventlog.Event) eventlog.Event {
	by := fsm.By(fsm.ActorOperator)
	e.By, e.ByKind = by.String(), by.Kind.String()
	return e
}

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (r *recorder) saveDrops(c *logs.Collector) {
	in := r.registry.byName[c.Name()]
	if in == nil || &in.Output.Collector != c {
		return
	}
	was := c.Drops()
	in.Save()
	r.AfterSaving(func(unrecorded error) {
		switch {
		case unrecorded != nil: // one retry serves all drops
			r.Scope.After(recordPause, func() { r.saveDrops(c) })
		case c.DropsSaved(was):
			r.saveDrops(c)
		}
	})
}

// saveOutputStart saves where the output of a run begins in its log, then calls saved. The output
// is written only after that. So a successor finds the line that reports readiness even if this
// superd was killed after it wrote the line and before it read it. It may be called from any
// goroutine.
func (r *recorder) saveOutputStart(at logs.RunStart, saved func()) {
	r.Scope.Post(func() {
		if in := r.registry.byName[at.Instance]; in != nil {
			in.Output.SetStart(at)
		}
		r.writeEvents()
		r.journal.Flush(func(error) { saved() })
	})
}
