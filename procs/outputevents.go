package procs

import (
	"time"

	"superd/internal/words"
	"superd/logs"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/instance"
)

// outputEvents records what the collectors report of the output of instances.
type outputEvents struct {
	*platform
	registry      *registry
	recorder      *handover.Recorder
	subscriptions *subscriptions
}

// observe has the collectors report to o.
func (o *outputEvents) observe() {
	o.Store.OnFirstOutput(o.firstOutput)
	o.Store.BeforeFirstOutput(o.saveStart)
	o.Store.OnDropped(o.dropped)
	o.Store.OnOutage(o.outage)
	o.Store.OnUnsavedDrops(func(c *logs.Collector) { o.Scope.Post(func() { o.saveDrops(c) }) })
}

// dropped records that output was dropped. It may be called from any goroutine.
func (o *outputEvents) dropped(l logs.DroppedOutput) {
	if events := o.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Output, Instance: l.Instance, Program: l.Program, Run: l.Run,
		}
		events.Append(eventlog.WithReason(e, fsm.ReasonOutputDropped.With(l.Text)))
	}
}

// outage records the begin or the end of an outage of a log. It may be called from any goroutine.
func (o *outputEvents) outage(l logs.Outage, over bool) {
	now := time.Now()
	if events := o.options.Events; events != nil {
		e := eventlog.Event{
			At: now, Kind: eventlog.Outage, Instance: l.Instance, Program: l.Program, Run: l.Run, State: eventlog.Begun,
		}
		why := fsm.ReasonLogOutage.With("output does not get into " + l.Log + ": " + l.Reason)
		if over {
			e.State = eventlog.Over
			why = fsm.ReasonLogOutageOver.With(words.Coarse(now.Sub(l.Since)))
		}
		events.Append(eventlog.WithReason(e, why))
	}
	o.Scope.Post(o.subscriptions.changed)
}

// firstOutput records where the output of a run begins in its log. It may be called from any
// goroutine.
func (o *outputEvents) firstOutput(start logs.RunStart) {
	if events := o.options.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Print, Instance: start.Instance, Program: start.Program, Run: start.Run, Place: start.At.String(),
		}
		events.Append(eventlog.WithReason(e, fsm.Reason{Kind: fsm.ReasonFirstOutput}))
	}
}

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (o *outputEvents) saveDrops(c *logs.Collector) {
	in := o.registry.named(c.Name())
	if in == nil || &in.Output.Collector != c {
		return
	}
	was := c.Drops()
	in.Save()
	o.recorder.AfterSaving(func(unrecorded error) {
		switch {
		case unrecorded != nil: // one retry serves all drops
			o.Scope.After(handover.RetryPause, func() { o.saveDrops(c) })
		case c.DropsSaved(was):
			o.saveDrops(c)
		}
	})
}

// saveStart saves where the output of a run begins in its log, then calls saved. The output is
// written only after that. So a successor finds the line that reports readiness even if this superd
// was killed after it wrote the line and before it read it. It may be called from any goroutine.
func (o *outputEvents) saveStart(at logs.RunStart, saved func()) {
	o.Scope.Post(func() {
		if in := o.registry.named(at.Instance); in != nil {
			instance.SetOutputStart(in, at)
		}
		o.recorder.Flush(func(error) { saved() })
	})
}
