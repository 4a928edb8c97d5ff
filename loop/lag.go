package loop

import "time"

// Lag tells how late a loop runs what is due.
//
// It is measured once a turn, for turns that ran a timer or posted work: from the instant at which the
// first of it was due, or was posted, to the end of the turn. So it bounds from above how long
// anything in that turn had to wait to be run, and one slow callback counts, be it in this turn or in
// the one before.
type Lag struct {
	Last time.Duration // of the latest such turn
	Max  time.Duration // the largest since the start or ResetLag
}

// Lag returns the lag as measured until the turn before this one.
func (l *Loop) Lag() Lag { return l.lag }

// ResetLag starts the measurement anew.
func (l *Loop) ResetLag() { l.lag = Lag{} }

func (l *Loop) noteLag(d time.Duration) {
	l.lag.Last = d
	l.lag.Max = max(l.lag.Max, d)
}
