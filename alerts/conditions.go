package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"superd/config/receiver"
	"superd/procs/eventlog"
)

// steady is how long a program must be ready until it has recovered from a failure: one that fails
// again at once has not.
const steady = 10 * time.Second

// An Active is a condition that lasts, in the state of a receiver.
type Active struct {
	Instance   string             `json:"instance"`
	Program    string             `json:"program"`
	Condition  receiver.Condition `json:"condition"`
	Number     uint64             `json:"number"` // of the event with which it began
	At         time.Time          `json:"at"`     // of that event
	Reason     string             `json:"reason,omitempty"`
	ReasonKind string             `json:"reason_kind,omitempty"`
	Reminded   time.Time          `json:"reminded"` // when the receiver was told last
	Reminders  int                `json:"reminders,omitempty"`
	// The event by which it is over if the program stays ready; zero without one
	ReadyNumber uint64    `json:"ready_number,omitempty"`
	ReadyAt     time.Time `json:"ready_at,omitzero"`

	readySeen time.Time // when that event was read: the wall clock may be set
}

// An Ended is what is known of the end of a run until the next state of its instance, which decides
// whether it has failed. It is in the state of a receiver.
type Ended struct {
	Instance string `json:"instance"`
	Program  string `json:"program"`
	Run      string `json:"run,omitempty"`
	Exit     *Exit  `json:"exit,omitempty"`    // absent: it could not be started, or has not ended
	Stopped  bool   `json:"stopped,omitempty"` // superd has stopped it, and not for a failure

	output []string // not saved: an alert can do without
}

type activeKey struct {
	instance  string
	condition receiver.Condition
}

// A Scope says which programs a receiver is told of. It never changes.
type Scope struct {
	// Returns whether the receiver is told of the instance
	Includes func(program, instance string) bool
	// Returns a program; nil if the configuration no longer has it
	Program func(name string) *Program
}

// A Program is what alerts need of a program's definition.
type Program struct {
	Groups       []string
	OneShot      bool  // each of its runs is a task of its own
	SuccessCodes []int // exit codes that mean success
}

// conditions derives alerts from events.
type conditions struct {
	receiver *receiver.Receiver
	scope    Scope
	active   map[activeKey]*Active
	last     map[string]Ended // how the last run of an instance ended; only of included ones
}

// failed reports whether the run has failed.
func (e Ended) failed(p *Program) bool {
	return !e.Stopped && (e.Exit == nil || e.Exit.Code == nil || !slices.Contains(p.SuccessCodes, *e.Exit.Code))
}

func newConditions(r *receiver.Receiver, s Scope, from *State, now time.Time) *conditions {
	c := &conditions{receiver: r, scope: s, active: map[activeKey]*Active{}, last: map[string]Ended{}}
	// What is no longer in the configuration has neither failed nor recovered
	exists := func(program, instance string) bool {
		return s.Program(program) != nil && s.Includes(program, instance)
	}
	for _, e := range from.Ended {
		if exists(e.Program, e.Instance) {
			c.last[e.Instance] = e
		}
	}
	for _, a := range from.Active {
		if exists(a.Program, a.Instance) {
			a.readySeen = now
			if a.Reminded.After(now) { // the clock was set back
				a.Reminded = now
			}
			c.active[activeKey{a.Instance, a.Condition}] = &a
		}
	}
	return c
}

// add returns the alerts that follow from an event.
func (c *conditions) add(e *eventlog.Event, now time.Time) []Alert {
	if e.Instance == "" || !c.scope.Includes(e.Program, e.Instance) {
		return nil
	}
	switch e.Kind {
	case eventlog.State:
		return c.addState(e, now)
	case eventlog.NoStart:
		c.last[e.Instance] = Ended{Instance: e.Instance, Program: e.Program, Run: e.Run}
	case eventlog.Exit:
		c.last[e.Instance] = Ended{
			Instance: e.Instance, Program: e.Program, Run: e.Run, Exit: e.Exit, Stopped: c.last[e.Instance].Stopped,
		}
	case eventlog.Output:
		if e.ReasonKind != "" { // output was dropped, or may be lost
			return c.wanted(c.alert(e, receiver.LogLost, "lost output"))
		}
		if last, ok := c.last[e.Instance]; ok {
			last.output = e.Output
			c.last[e.Instance] = last
		}
	case eventlog.Health:
		if e.State == eventlog.Unhealthy {
			return c.begin(e, receiver.Unhealthy, "is unhealthy", now)
		}
		return c.end(e, receiver.Unhealthy)
	case eventlog.Flapping:
		if e.State == eventlog.Begun {
			return c.begin(e, receiver.Flapping, "is flapping", now)
		}
		return c.end(e, receiver.Flapping)
	case eventlog.Outage:
		if e.State == eventlog.Begun {
			return c.begin(e, receiver.LogLost, "can't log its output", now)
		}
		return c.end(e, receiver.LogLost)
	case eventlog.Skip:
		return c.wanted(c.alert(e, receiver.ScheduleMissed, "missed a scheduled run"))
	default: // of no concern
	}
	return nil
}

// addState returns the alerts that follow from a change of state.
func (c *conditions) addState(e *eventlog.Event, now time.Time) (all []Alert) {
	failed := c.active[activeKey{e.Instance, receiver.Failed}]
	if failed != nil {
		failed.ReadyNumber, failed.ReadyAt = 0, time.Time{}
	}
	p := c.program(e.Program)
	if e.ReasonKind == "out-of-memory" && (e.From == "running" || e.From == "starting") {
		alert := c.alert(e, receiver.OOM, "ran out of memory")
		alert.ID += "-" + string(receiver.OOM) // the event may also be that of a failure
		all = c.wanted(alert)
	}
	switch e.State {
	case "failed":
		delete(c.active, activeKey{e.Instance, receiver.Flapping}) // it is down
		all = append(all, c.fail(e, p, now)...)
	case "waiting": // a one-shot perhaps after a run by its schedule
		switch last, ran := c.last[e.Instance]; {
		case !ran || !p.OneShot:
		case last.failed(p):
			all = append(all, c.fail(e, p, now)...)
		case !last.Stopped:
			all = append(all, c.end(e, receiver.Failed)...)
		}
		delete(c.last, e.Instance)
	case "stopping":
		if _, over := c.last[e.Instance]; !over && stopKinds[e.ReasonKind] {
			c.last[e.Instance] = Ended{Instance: e.Instance, Program: e.Program, Run: e.Run, Stopped: true}
		}
	case "running":
		if failed != nil && !p.OneShot {
			failed.ReadyNumber, failed.ReadyAt, failed.readySeen = e.Cursor, e.At, now
		}
	case "exited":
		all = append(all, c.end(e, receiver.Failed)...)
		c.forget(e.Instance)
	case "stopped":
		c.forget(e.Instance)
	case "starting":
		delete(c.last, e.Instance)
	default: // on the way to one of these
	}
	return all
}

// stopKinds are the kinds of reasons for which superd stops a run that has not failed.
var stopKinds = map[string]bool{
	"stopping": true, "stopping-to-start": true, "stopping-to-restart": true, "dependency-lost": true,
}

// fail returns the alert that an instance has failed. Each run of a task counts, while a service
// that has failed is told of once.
func (c *conditions) fail(e *eventlog.Event, p *Program, now time.Time) []Alert {
	if p.OneShot {
		delete(c.active, activeKey{e.Instance, receiver.Failed})
	}
	return c.begin(e, receiver.Failed, "has failed", now)
}

// program returns a program; one without properties if the configuration no longer has it.
func (c *conditions) program(name string) *Program {
	if p := c.scope.Program(name); p != nil {
		return p
	}
	return &Program{}
}

// forget drops the conditions of an instance that is down in order, except one of its log.
func (c *conditions) forget(instance string) {
	for _, condition := range []receiver.Condition{receiver.Failed, receiver.Unhealthy, receiver.Flapping} {
		delete(c.active, activeKey{instance, condition})
	}
	delete(c.last, instance)
}

// begin begins a condition, and returns the alert; none if it lasts already.
func (c *conditions) begin(e *eventlog.Event, condition receiver.Condition, what string, now time.Time) []Alert {
	key := activeKey{e.Instance, condition}
	if c.active[key] != nil {
		return nil
	}
	c.active[key] = &Active{
		Instance: e.Instance, Program: e.Program, Condition: condition, Number: e.Cursor, At: e.At,
		Reason: e.Reason, ReasonKind: e.ReasonKind, Reminded: now,
	}
	return c.wanted(c.alert(e, condition, what))
}

// end ends a condition, and returns the alert that it is over; none if it did not last.
func (c *conditions) end(e *eventlog.Event, condition receiver.Condition) []Alert {
	key := activeKey{e.Instance, condition}
	a := c.active[key]
	if a == nil {
		return nil
	}
	delete(c.active, key)
	return c.wanted(c.recovered(a, e.Cursor, e.At, e))
}

// overTexts say that a condition is over.
var overTexts = map[receiver.Condition]string{
	receiver.Failed:    "has recovered: it is ready again after it had failed",
	receiver.Unhealthy: "has recovered: it is healthy again",
	receiver.Flapping:  "has recovered: it stays up",
	receiver.LogLost:   "has recovered: its output gets into its log again",
}

// recovered returns the alert that a condition is over. e is the event that says so; nil: it is
// known by its number and time only.
func (c *conditions) recovered(a *Active, number uint64, at time.Time, e *eventlog.Event) Alert {
	if e == nil {
		e = &eventlog.Event{Cursor: number, At: at, State: "running"}
	}
	over := *e
	over.Instance, over.Program, over.Exit, over.Reason = a.Instance, a.Program, nil, ""
	text := overTexts[a.Condition]
	if c.program(a.Program).OneShot && a.Condition == receiver.Failed {
		text = "has recovered: it has succeeded after it had failed"
	}
	alert := c.alert(&over, receiver.Recovered, text)
	alert.Reason, alert.Since, alert.Recovers = a.Reason, a.At, []receiver.Condition{a.Condition}
	alert.ID += "-" + string(a.Condition) // one event may end several conditions
	return alert
}

// due returns the alerts that follow from the time: recoveries and reminders.
func (c *conditions) due(now time.Time) (all []Alert) {
	for _, key := range c.keys() {
		a := c.active[key]
		switch at := c.dueOf(a); {
		case at.IsZero() || now.Before(at):
		case !a.ReadyAt.IsZero():
			delete(c.active, key)
			all = append(all, c.wanted(c.recovered(a, a.ReadyNumber, a.ReadyAt, nil))...)
		default:
			a.Reminders++
			a.Reminded = now
			e := &eventlog.Event{
				Cursor: a.Number, At: a.At, Instance: a.Instance, Program: a.Program,
				Reason: a.Reason, ReasonKind: a.ReasonKind,
			}
			alert := c.alert(e, a.Condition, reminderTexts[a.Condition])
			alert.Reminder = a.Reminders
			alert.ID += fmt.Sprintf("-r%d", a.Reminders)
			all = append(all, c.wanted(alert)...)
		}
	}
	return all
}

// reminderTexts say that a condition lasts.
var reminderTexts = map[receiver.Condition]string{
	receiver.Failed:    "is still down",
	receiver.Unhealthy: "is still unhealthy",
	receiver.Flapping:  "is still flapping",
	receiver.LogLost:   "still can't log its output",
}

// dueOf returns when something follows from a condition by the time; zero: never.
func (c *conditions) dueOf(a *Active) time.Time {
	switch {
	case !a.ReadyAt.IsZero():
		return a.readySeen.Add(steady)
	case c.receiver.Repeat > 0 && c.receiver.Wants(a.Condition):
		return a.Reminded.Add(c.receiver.Repeat)
	}
	return time.Time{}
}

// hold lets nothing follow from the time before until.
func (c *conditions) hold(until time.Time) {
	for _, a := range c.active {
		if late := until.Sub(c.dueOf(a)); late > 0 && !a.ReadyAt.IsZero() {
			a.readySeen = a.readySeen.Add(late)
		} else if late > 0 {
			a.Reminded = a.Reminded.Add(late)
		}
	}
}

// next returns when due has something; zero: never.
func (c *conditions) next() (next time.Time) {
	for _, a := range c.active {
		if at := c.dueOf(a); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// keys returns the keys of the conditions that last, in a fixed order.
func (c *conditions) keys() []activeKey {
	return slices.SortedFunc(maps.Keys(c.active), func(a, b activeKey) int {
		return cmp.Or(strings.Compare(a.instance, b.instance), strings.Compare(string(a.condition), string(b.condition)))
	})
}

// drop drops what is known of instances that gone reports as removed.
func (c *conditions) drop(gone func(program, instance string) bool) (dropped bool) {
	for key, a := range c.active {
		if gone(a.Program, key.instance) {
			delete(c.active, key)
			delete(c.last, key.instance)
			dropped = true
		}
	}
	return dropped
}

// reminded returns the instances of which there is a reminder now.
func (c *conditions) reminded(now time.Time) (instances []string) {
	for key, a := range c.active {
		if at := c.dueOf(a); a.ReadyAt.IsZero() && !at.IsZero() && !now.Before(at) {
			instances = append(instances, key.instance)
		}
	}
	return instances
}

// list returns the conditions that last.
func (c *conditions) list() []Active {
	all := make([]Active, 0, len(c.active))
	for _, key := range c.keys() {
		all = append(all, *c.active[key])
	}
	return all
}

// ended returns how runs have ended of which the next state decides.
func (c *conditions) ended() (all []Ended) {
	for _, instance := range slices.Sorted(maps.Keys(c.last)) {
		all = append(all, c.last[instance])
	}
	return all
}

// wanted returns the alert if the receiver is told of its condition.
func (c *conditions) wanted(a Alert) []Alert {
	if !c.receiver.Wants(a.Condition) {
		return nil
	}
	return []Alert{a}
}

// alert returns the alert of an event.
func (c *conditions) alert(e *eventlog.Event, condition receiver.Condition, what string) Alert {
	a := Alert{
		ID: eventID(e.Cursor, e.At), Number: e.Cursor, At: e.At, Condition: condition,
		Instance: e.Instance, Program: e.Program, Groups: append([]string{}, c.program(e.Program).Groups...),
		Text: e.Instance + " " + what, Reason: e.Reason, ReasonKind: e.ReasonKind, State: e.State,
		Run: e.Run, Exit: e.Exit, Output: append([]string{}, e.Output...), Since: e.At,
		Recovers: []receiver.Condition{},
	}
	if e.Reason != "" {
		a.Text += ": " + e.Reason
	}
	if last, ok := c.last[e.Instance]; ok && condition != receiver.Recovered {
		a.Run, a.Exit, a.Output = cmp.Or(a.Run, last.Run), cmp.Or(a.Exit, last.Exit), append(a.Output, last.output...)
	}
	return a
}
