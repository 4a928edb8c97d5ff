package alerts

import (
	"maps"
	"slices"
	"strings"
	"time"

	"superd/config/receiver"
	"superd/procs/eventlog"
)

const (
	maxAlerts   = 100 // whole alerts in a delivery
	maxPrograms = 20  // names in a count of further alerts

	firstPause = time.Second     // before the second attempt of a delivery
	maxPause   = 5 * time.Minute // between later ones; each is twice as long as the one before
	pauseParts = 5               // a pause is up to a fifth longer or shorter, at random

	// saveEvery is how many events without an alert are read between two saves of the state. It is
	// a small part of what the event log holds.
	saveEvery = 256
)

// A State is what a receiver has of the event log, for a successor.
type State struct {
	Cursor uint64    `json:"cursor"` // number of the newest event that needs no delivery any more
	At     time.Time `json:"at"`     // of that event; zero: unknown
	Active []Active  `json:"active"`
	Ended  []Ended   `json:"ended,omitempty"`
	Tree   string    `json:"tree,omitempty"` // path of the process tree of its command
}

// A Queue gathers the alerts of one receiver for deliveries.
type Queue struct {
	receiver   *receiver.Receiver
	conditions *conditions

	cursor  uint64 // newest event that was read
	at      time.Time
	saved   uint64 // cursor of the state that was saved last
	changed bool   // the conditions are others than in the saved state

	alerts []Alert
	more   map[receiver.Condition]*More
	lost   *Lost
	since  time.Time   // when the first of these came; zero without any
	sent   []time.Time // attempts of the last minute, the oldest first; at most Rate

	attempts int       // of the delivery under way
	retryAt  time.Time // zero without a failed attempt
	unread   time.Time // since when no events are read; zero: they are
}

// NewQueue returns the queue of a receiver, which continues from a state.
func NewQueue(r *receiver.Receiver, s Scope, from State, now time.Time) *Queue {
	return &Queue{
		receiver: r, conditions: newConditions(r, s, &from, now), cursor: from.Cursor, at: from.At, saved: from.Cursor,
		more: map[receiver.Condition]*More{},
	}
}

// Add adds an event of the event log, the next one by its number.
func (q *Queue) Add(e *eventlog.Event, now time.Time) {
	switch {
	case e.Kind != eventlog.Gap:
	case e.Lost == 0:
		q.Forget(e.Reason, now)
		return
	default:
		q.lose(e, now)
		return
	}
	q.cursor, q.at = e.Cursor, e.At
	if e.Kind == eventlog.Output && e.ReasonKind == "" {
		q.complete(e)
	}
	before := len(q.conditions.active)
	for _, a := range q.conditions.add(e, now) {
		q.put(a, now)
	}
	q.changed = q.changed || len(q.conditions.active) != before
}

// complete puts the last lines of a run into the alert of its failure, which comes before them.
func (q *Queue) complete(e *eventlog.Event) {
	for i := range q.alerts {
		a := &q.alerts[i]
		ofEnd := (a.Condition == receiver.Failed || a.Condition == receiver.OOM) && a.Reminder == 0
		if ofEnd && a.Instance == e.Instance && (a.Run == "" || a.Run == e.Run) && len(a.Output) == 0 {
			a.Output = e.Output
		}
	}
}

// lose records that events are missing.
func (q *Queue) lose(e *eventlog.Event, now time.Time) {
	if q.lost == nil {
		q.lost = &Lost{Events: new(uint64)}
	}
	if q.lost.Reason = e.Reason; e.Lost == 0 {
		q.lost.Events = nil
	} else if q.lost.Events != nil {
		*q.lost.Events += e.Lost
	}
	if q.lost.UpTo = e.Cursor; e.Cursor > 0 {
		q.cursor, q.at = e.Cursor, time.Time{}
	}
	q.begin(now)
}

// Forget records that the event log is another one than that of the state.
func (q *Queue) Forget(reason string, now time.Time) {
	q.cursor, q.at, q.saved = 0, time.Time{}, 0
	q.lose(&eventlog.Event{Kind: eventlog.Gap, Reason: reason}, now)
}

// alert returns the alert that says what is missing. It was noticed at the time at.
func (l *Lost) alert(at time.Time) Alert {
	return Alert{
		ID: "lost-" + eventID(l.UpTo, at), Number: l.UpTo, At: at.UTC(), Since: at.UTC(), Condition: EventsLost,
		Text:   "there may have been alerts that are lost: " + l.Reason,
		Reason: l.Reason, Groups: []string{}, Output: []string{}, Recovers: []receiver.Condition{},
	}
}

// put adds an alert, or counts it if there is no room.
func (q *Queue) put(a Alert, now time.Time) {
	q.begin(now)
	room := maxAlerts
	if q.receiver.Batch == 0 || !now.Before(q.rateAt()) {
		room *= 2 // reading stops at maxAlerts, but several may follow from the last event
	}
	if len(q.alerts) < room {
		q.alerts = append(q.alerts, a)
		return
	}
	m := q.more[a.Condition]
	if m == nil {
		m = &More{Condition: a.Condition, First: a.Number, Programs: []string{}}
		q.more[a.Condition] = m
	}
	m.Count++
	m.Last = a.Number
	if len(m.Programs) < maxPrograms && !slices.Contains(m.Programs, a.Program) {
		m.Programs = append(m.Programs, a.Program)
	}
}

func (q *Queue) begin(now time.Time) {
	if q.since.IsZero() {
		q.since = now
	}
}

// Pending returns how many alerts wait.
func (q *Queue) Pending() int {
	n := len(q.alerts)
	for _, m := range q.more {
		n += m.Count
	}
	if q.lost != nil {
		n++
	}
	return n
}

// Cursor returns the number of the newest event that was read.
func (q *Queue) Cursor() uint64 { return q.cursor }

// Reads reports whether events are to be read now. What is not read stays in the event log: so a
// receiver that does not answer needs no memory. While rate alone prevents a delivery, events are
// read and counted, except where each alert has a delivery of its own.
func (q *Queue) Reads(now time.Time) bool {
	return q.attempts == 0 && (!q.full() || q.receiver.Batch > 0 && now.Before(q.rateAt()))
}

// noteReading notes whether events are read. When they are again, it gives those that came
// meanwhile time to be read, before something follows from the time.
func (q *Queue) noteReading(now time.Time) {
	switch reads := q.Reads(now); {
	case !reads && q.unread.IsZero():
		q.unread = now
	case reads && !q.unread.IsZero():
		q.conditions.hold(now.Add(min(steady, now.Sub(q.unread))))
		q.unread = time.Time{}
	}
}

// full reports whether a delivery need not wait for further alerts.
func (q *Queue) full() bool {
	return len(q.alerts) >= maxAlerts || q.receiver.Batch == 0 && !q.since.IsZero()
}

// rateAt returns when rate allows the next delivery; zero: now.
func (q *Queue) rateAt() time.Time {
	if q.receiver.Rate == 0 || len(q.sent) < q.receiver.Rate {
		return time.Time{}
	}
	return q.sent[0].Add(time.Minute)
}

// Due returns when there is something to do: a delivery, or an alert that follows from the time.
// ok is false if there is nothing before the next event.
func (q *Queue) Due() (at time.Time, ok bool) {
	if q.unread.IsZero() {
		at = q.conditions.next()
	}
	if delivery, ok := q.deliveryAt(); ok && (at.IsZero() || delivery.Before(at)) {
		at = delivery
	}
	return at, !at.IsZero()
}

// deliveryAt returns when the next delivery is due.
func (q *Queue) deliveryAt() (at time.Time, ok bool) {
	switch {
	case q.since.IsZero():
		return time.Time{}, false
	case q.attempts > 0:
		at = q.retryAt
	case q.full():
		at = q.since
	default:
		at = q.since.Add(q.receiver.Batch)
	}
	if allowed := q.rateAt(); allowed.After(at) {
		at = allowed
	}
	return at, true
}

// Take returns the delivery that is due now; nil if there is none. Its alerts stay in the queue
// until Done.
func (q *Queue) Take(host string, now time.Time) *Delivery {
	if q.noteReading(now); q.unread.IsZero() {
		before := len(q.conditions.active)
		due := q.conditions.due(now)
		for _, a := range due {
			q.put(a, now)
		}
		q.changed = q.changed || len(due) > 0 || len(q.conditions.active) != before
		q.noteReading(now)
	}
	if at, ok := q.deliveryAt(); !ok || now.Before(at) {
		return nil
	}
	q.attempts++
	if q.receiver.Rate > 0 {
		q.sent = append(q.sent[max(0, len(q.sent)+1-q.receiver.Rate):], now)
	}
	whole, more := q.share()
	d := &Delivery{
		Version: version, Receiver: q.receiver.Name, Host: host, SentAt: now.UTC(), Attempt: q.attempts,
		Alerts: append([]Alert{}, q.alerts[:whole]...), More: []More{}, Lost: q.lost,
	}
	if more {
		for _, condition := range slices.Sorted(maps.Keys(q.more)) {
			d.More = append(d.More, *q.more[condition])
		}
	}
	if q.lost != nil {
		d.Alerts = slices.Insert(d.Alerts, 0, q.lost.alert(q.since))
	}
	d.ID = d.Alerts[0].ID
	return d
}

// share returns how many of the alerts the next delivery has, and whether it has the counts of
// further ones. Without batch it has one alert: what is lost comes first, then one after the other.
func (q *Queue) share() (whole int, more bool) {
	switch {
	case q.receiver.Batch > 0:
		return len(q.alerts), true
	case q.lost != nil:
		return 0, len(q.alerts) == 0
	}
	return min(1, len(q.alerts)), len(q.alerts) <= 1
}

// Done records that the delivery has arrived. If nothing else waits, the state must be saved then.
func (q *Queue) Done(now time.Time) {
	whole, more := q.share()
	if q.alerts, q.lost = q.alerts[whole:], nil; more {
		clear(q.more)
	}
	if q.Pending() == 0 {
		q.alerts, q.since = nil, time.Time{}
	}
	q.attempts, q.retryAt, q.changed = 0, time.Time{}, true
	q.noteReading(now)
}

// Failed records that the delivery has failed, and returns when it is tried again. random is drawn
// from 0 to 1.
func (q *Queue) Failed(now time.Time, random float64) time.Time {
	pause := min(firstPause<<min(q.attempts-1, 16), maxPause)
	pause += time.Duration((2*random - 1) * float64(pause) / pauseParts)
	q.retryAt = now.Add(pause)
	at, _ := q.deliveryAt()
	return at
}

// Postpone lets the next attempt wait until that time, and returns when it is made.
func (q *Queue) Postpone(until time.Time) time.Time {
	if until.After(q.retryAt) {
		q.retryAt = until
	}
	at, _ := q.deliveryAt()
	return at
}

// MustSave reports whether the state is to be saved now.
func (q *Queue) MustSave() bool {
	return q.Pending() == 0 && (q.changed || q.cursor >= q.saved+saveEvery)
}

// CanSave reports whether the state is another one than the saved one and may be saved: nothing
// waits for a delivery.
func (q *Queue) CanSave() bool { return q.Pending() == 0 && (q.changed || q.cursor != q.saved) }

// State returns the state to save.
func (q *Queue) State() State {
	return State{Cursor: q.cursor, At: q.at, Active: q.conditions.list(), Ended: q.conditions.ended()}
}

// Saved records that the state is saved.
func (q *Queue) Saved() { q.saved, q.changed = q.cursor, false }

// Drop drops the conditions of instances that gone reports as removed. They need no reminder.
func (q *Queue) Drop(gone func(program, instance string) bool) {
	q.changed = q.conditions.drop(gone) || q.changed
}

// Reminded returns the instances of which there is a reminder now.
func (q *Queue) Reminded(now time.Time) (instances []string) {
	if q.noteReading(now); !q.unread.IsZero() {
		return nil
	}
	return q.conditions.reminded(now)
}

// Selects reports whether the key programs of a receiver selects the instance of a program that is
// in these groups.
func Selects(names []string, program, instance string, groups []string) bool {
	if len(names) == 0 {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		if receiver.IsGlob(name) {
			return receiver.Matches(name, program) || receiver.Matches(name, instance)
		}
		return name == program || name == instance || slices.Contains(groups, name)
	})
}

// Summary returns the texts of a delivery on one line, for a log.
func (d *Delivery) Summary() string {
	texts := make([]string, 0, 3)
	for _, a := range d.Alerts[:min(len(d.Alerts), cap(texts))] {
		texts = append(texts, a.Text)
	}
	return strings.Join(texts, "; ")
}
