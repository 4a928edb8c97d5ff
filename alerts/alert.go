// Package alerts decides what receivers are told of programs: it makes alerts from the events of
// the event log, and gathers them for deliveries.
//
// A [Queue] belongs to one receiver and to one goroutine. It reads no clock, no file and no
// network: who has it passes events and times, and delivers what it takes. The order is that of the
// event log:
//
//	for each event: Add; when Due: Take, deliver, then Done and save State, or Failed
//
// The state that is saved after a delivery has the number of the newest event that was read. So a
// successor delivers again what was not acknowledged, and nothing is missed.
package alerts

import (
	"fmt"
	"time"

	"superd/config/receiver"
	"superd/procs/eventlog"
)

// Test is the condition of an alert that an operator requests.
const Test receiver.Condition = "test"

// EventsLost is the condition of an alert that says that events are missing. Each receiver is told
// of it.
const EventsLost receiver.Condition = "events-lost"

// An Alert is one thing that a receiver is told, as JSON.
type Alert struct {
	// Identifies the event, and the reminder of it: "17-1795677707350123", "17-1795677707350123-r2"
	ID         string             `json:"id"`
	Number     uint64             `json:"number"` // of the event in the event log
	At         time.Time          `json:"at"`     // of the event
	Condition  receiver.Condition `json:"condition"`
	Instance   string             `json:"instance"`
	Program    string             `json:"program"`
	Groups     []string           `json:"groups"`
	Text       string             `json:"text"` // for people, on one line
	Reason     string             `json:"reason"`
	ReasonKind string             `json:"reason_kind"`
	State      string             `json:"state"` // of the event
	Run        string             `json:"run"`
	Exit       *Exit              `json:"exit"`     // how the last run ended; null: unknown
	Output     []string           `json:"output"`   // last lines of that run
	Since      time.Time          `json:"since"`    // begin of the condition
	Reminder   int                `json:"reminder"` // number of the reminder; 0: it is none
	// Conditions that are over, of a recovery
	Recovers []receiver.Condition `json:"recovers"`
}

// An Exit is how a run ended.
type Exit = eventlog.ExitStatus

// More counts the alerts of a condition that a delivery has no room for.
type More struct {
	Condition receiver.Condition `json:"condition"`
	Count     int                `json:"count"`
	Programs  []string           `json:"programs"` // at most maxPrograms
	First     uint64             `json:"first"`    // number of the first event
	Last      uint64             `json:"last"`
}

// Lost says which events are missing in the event log: there may have been alerts among them.
type Lost struct {
	Events *uint64 `json:"events"` // null: unknown
	Reason string  `json:"reason"`
	UpTo   uint64  `json:"up_to"` // number of the last missing event; 0: unknown
}

// A Delivery is what a receiver gets at a time, as JSON.
type Delivery struct {
	Version  int       `json:"version"` // of this form
	ID       string    `json:"id"`      // of its first alert
	Receiver string    `json:"receiver"`
	Host     string    `json:"host"`
	SentAt   time.Time `json:"sent_at"`
	Attempt  int       `json:"attempt"` // counted from 1
	Test     bool      `json:"test"`
	Alerts   []Alert   `json:"alerts"`
	More     []More    `json:"more"`
	Lost     *Lost     `json:"lost"` // null: nothing is missing
}

// Key returns the idempotency key of the delivery: the id of its only alert, or those of the first
// and the last one. The number of the last event that is only counted follows.
func (d *Delivery) Key() string {
	key, last := d.ID, uint64(0)
	if n := len(d.Alerts); n > 1 {
		key += ".." + d.Alerts[n-1].ID
	}
	for _, m := range d.More {
		last = max(last, m.Last)
	}
	if last > 0 {
		key += fmt.Sprintf("+%d", last)
	}
	return key
}

// version is that of the form of a delivery.
const version = 1

// TestDelivery returns a delivery that an operator requests.
func TestDelivery(r *receiver.Receiver, host string, now time.Time) *Delivery {
	a := Alert{
		ID: fmt.Sprintf("test-%d", now.UnixMicro()), At: now.UTC(), Since: now.UTC(), Condition: Test,
		Text: fmt.Sprintf("test of the receiver %s of superd on %s", r.Name, host), Groups: []string{},
		Output: []string{}, Recovers: []receiver.Condition{},
	}
	return &Delivery{
		Version: version, ID: a.ID, Receiver: r.Name, Host: host, SentAt: now.UTC(), Attempt: 1, Test: true,
		Alerts: []Alert{a}, More: []More{},
	}
}

// eventID returns the id of an event. Numbers begin anew with a new event log, times do not.
func eventID(number uint64, at time.Time) string {
	return fmt.Sprintf("%d-%d", number, at.UnixMicro())
}
