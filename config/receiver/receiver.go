// Package receiver reads the tables [notify.NAME] of a configuration: who is told what of programs.
//
// [Read] reports mistakes at their position and makes only that receiver invalid. What it returns
// never changes, so any goroutine may read it. [Keys] is the one table of the keys, from which
// decoding, suggestions and the reference are made.
package receiver

import (
	"slices"
	"time"

	"superd/config/document"
)

// A Condition is what an alert is about.
type Condition string

// The conditions, in the order of the reference.
const (
	Failed         Condition = "failed"          // a program has failed and is not restarted soon
	Unhealthy      Condition = "unhealthy"       // its health check fails
	OOM            Condition = "oom"             // the kernel killed it for lack of memory
	Flapping       Condition = "flapping"        // it restarts again and again
	Recovered      Condition = "recovered"       // it is ready or healthy again
	ScheduleMissed Condition = "schedule-missed" // a scheduled run was skipped
	LogLost        Condition = "log-lost"        // output does not get into its log
)

// Conditions are all conditions that a receiver can have in its key on.
func Conditions() []Condition {
	return []Condition{Failed, Unhealthy, OOM, Flapping, Recovered, ScheduleMissed, LogLost}
}

// A Receiver is one [notify.NAME] table. It has a command or a URL, unless it is invalid.
type Receiver struct {
	Name string

	On       []Condition
	Programs []string // programs, instances, groups and globs; nil: all

	Exec       []string // ${X} not yet expanded; nil: it has a URL
	User       string   // that the command runs as; "" for that of superd
	Webhook    string   // URL; "": it has a command
	SecretFile string   // absolute; "": requests are not signed
	Template   string   // of the body; "": JSON

	Batch   time.Duration // how long alerts gather for one delivery
	Rate    int           // deliveries a minute; 0: no limit
	Repeat  time.Duration // between reminders; 0: none
	Timeout time.Duration // of a delivery; more than 0

	Invalid document.Errors `json:"-"` // if not empty, it must not be used
	Dir     string          // directory of its file, in which the command runs
	File    string          // file in which its table begins
	Line    int             // its line when it was read
}

// Wants reports whether the receiver is told of the condition.
func (r *Receiver) Wants(c Condition) bool { return slices.Contains(r.On, c) }

// builtin returns a receiver with the defaults.
func builtin() *Receiver {
	return &Receiver{
		On: Conditions(), Batch: 5 * time.Second, Rate: 30, Timeout: 10 * time.Second,
	}
}
