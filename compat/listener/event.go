package listener

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Event is an event as supervisord has it.
type Event struct {
	Name    string
	Payload string
}

// names are the events that a listener may subscribe to. Those that others begin with are abstract:
// they stand for all of these.
var names = strings.Fields(`EVENT
	PROCESS_STATE PROCESS_STATE_STOPPED PROCESS_STATE_EXITED PROCESS_STATE_STARTING
	PROCESS_STATE_STOPPING PROCESS_STATE_BACKOFF PROCESS_STATE_FATAL PROCESS_STATE_RUNNING
	PROCESS_STATE_UNKNOWN
	PROCESS_COMMUNICATION PROCESS_COMMUNICATION_STDOUT PROCESS_COMMUNICATION_STDERR
	PROCESS_LOG PROCESS_LOG_STDOUT PROCESS_LOG_STDERR
	REMOTE_COMMUNICATION
	SUPERVISOR_STATE_CHANGE SUPERVISOR_STATE_CHANGE_RUNNING SUPERVISOR_STATE_CHANGE_STOPPING
	TICK TICK_5 TICK_60 TICK_3600
	PROCESS_GROUP PROCESS_GROUP_ADDED PROCESS_GROUP_REMOVED`)

// formerNames are the names that events had before supervisor 3.0, and those that replaced them.
var formerNames = map[string]string{
	"PROCESS_STATE_CHANGE":                        "PROCESS_STATE",
	"PROCESS_STATE_CHANGE_STARTING_FROM_STOPPED":  "PROCESS_STATE_STARTING",
	"PROCESS_STATE_CHANGE_STARTING_FROM_BACKOFF":  "PROCESS_STATE_STARTING",
	"PROCESS_STATE_CHANGE_STARTING_FROM_EXITED":   "PROCESS_STATE_STARTING",
	"PROCESS_STATE_CHANGE_STARTING_FROM_FATAL":    "PROCESS_STATE_STARTING",
	"PROCESS_STATE_CHANGE_RUNNING_FROM_STARTING":  "PROCESS_STATE_RUNNING",
	"PROCESS_STATE_CHANGE_RUNNING_FROM_STARTED":   "PROCESS_STATE_RUNNING",
	"PROCESS_STATE_CHANGE_BACKOFF_FROM_STARTING":  "PROCESS_STATE_BACKOFF",
	"PROCESS_STATE_CHANGE_STOPPING_FROM_RUNNING":  "PROCESS_STATE_STOPPING",
	"PROCESS_STATE_CHANGE_STOPPING_FROM_STARTING": "PROCESS_STATE_STOPPING",
	"PROCESS_STATE_CHANGE_EXITED_OR_STOPPED":      "PROCESS_STATE_EXITED PROCESS_STATE_STOPPED",
	"PROCESS_STATE_CHANGE_EXITED_FROM_RUNNING":    "PROCESS_STATE_EXITED",
	"PROCESS_STATE_CHANGE_STOPPED_FROM_STOPPING":  "PROCESS_STATE_STOPPED",
	"PROCESS_STATE_CHANGE_FATAL_FROM_BACKOFF":     "PROCESS_STATE_FATAL",
	"PROCESS_STATE_CHANGE_TO_UNKNOWN":             "PROCESS_STATE_UNKNOWN",
}

// Names returns the events that a listener may subscribe to.
func Names() []string { return slices.Clone(names) }

// A Subscription is a set of events.
type Subscription []string

// Subscribe returns the subscription to the events of these names, in any case.
func Subscribe(events []string) (Subscription, error) {
	var s Subscription
	for _, name := range events {
		name = strings.ToUpper(strings.TrimSpace(name))
		if now, ok := formerNames[name]; ok {
			s = append(s, strings.Fields(now)...)
			continue
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no event %q: the events are %s", name, strings.Join(names, ", "))
		}
		s = append(s, name)
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("no event is named: the events are %s", strings.Join(names, ", "))
	}
	return s, nil
}

// Has reports whether an event of that name is subscribed to.
func (s Subscription) Has(name string) bool {
	return slices.ContainsFunc(s, func(own string) bool {
		return own == "EVENT" || own == name || strings.HasPrefix(name, own+"_")
	})
}

// hasAny reports whether an event is subscribed to whose name begins so.
func (s Subscription) hasAny(prefix string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, prefix) && s.Has(name)
	})
}

// envelope returns an event as a listener reads it. The length is in characters, as supervisord has
// it: a listener in Python reads characters.
func (e *numbered) envelope(server, pool string) []byte {
	return fmt.Appendf(nil, "ver:3.0 server:%s serial:%d pool:%s poolserial:%d eventname:%s len:%d\n%s",
		server, e.serial, pool, e.poolSerial, e.Name, utf8.RuneCountInString(e.Payload), e.Payload)
}
