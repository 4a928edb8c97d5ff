// Package outputevents records what the collectors report of the output of instances.
package outputevents

import (
	"time"

	"superd/internal/words"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/instance"
)

// Options say what the events are recorded with.
type Options struct {
	Scope    *loop.Scope
	Store    *logs.Store
	Events   *eventlog.Log // nil: nothing is recorded
	Recorder *handover.Recorder
	Instance func(name string) *instance.Instance // nil if there is none
	Changed  func()                               // the state of a log has changed
}

type observer struct{ Options }

// Observe has the collectors of a store report.
func Observe(options Options) {
	o := &observer{options}
	o.Store.OnFirstOutput(o.firstOutput)
	o.Store.BeforeFirstOutput(o.saveStart)
	o.Store.OnDropped(o.dropped)
	o.Store.OnOutage(o.outage)
	o.Store.OnUnsavedDrops(func(c *logs.Collector) { o.Scope.Post(func() { o.saveDrops(c) }) })
}

// dropped records that output was dropped. It may be called from any goroutine.
func (o *observer) dropped(l logs.DroppedOutput) {
	if events := o.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Output, Instance: l.Instance, Program: l.Program, Run: l.Run,
		}
		events.Append(eventlog.WithReason(e, fsm.ReasonOutputDropped.With(l.Text)))
	}
}

// outage records the begin or the end of an outage of a log. It may be called from any goroutine.
func (o *observer) outage(l logs.Outage, over bool) {
	now := time.Now()
	if events := o.Events; events != nil {
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
	o.Scope.Post(o.Changed)
}

// firstOutput records where the output of a run begins in its log. It may be called from any
// goroutine.
func (o *observer) firstOutput(start logs.RunStart) {
	if events := o.Events; events != nil {
		e := eventlog.Event{
			At: time.Now(), Kind: eventlog.Print, Instance: start.Instance, Program: start.Program, Run: start.Run, Place: start.At.String(),
		}
		events.Append(eventlog.WithReason(e, fsm.Reason{Kind: fsm.ReasonFirstOutput}))
	}
}

// saveDrops records the output that the collector has dropped, until no more is dropped.
func (o *observer) saveDrops(c *logs.Collector) {
	in := o.Instance(c.Name())
	if in == nil || &in.Output.Collector != c {
		return
	}
	was := c.Drops()
	in.Save()
	o.Recorder.AfterSaving(func(unrecorded error) {
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
func (o *observer) saveStart(at logs.RunStart, saved func()) {
	o.Scope.Post(func() {
		if in := o.Instance(at.Instance); in != nil {
			instance.SetOutputStart(in, at)
		}
		o.Recorder.Flush(func(error) { saved() })
	})
}
