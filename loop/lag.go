package loop

import "time"

// Lag is the delay with which a loop runs due work.
//
// It is measured once a turn, for turns that ran a timer or posted work: from the instant at which
// the first of it was due or posted to the end of the turn. So it is an upper bound for the delay
// of anything in that turn, and one slow callback counts, be it in this turn or in the previous
// one.
type Lag struct {
	Last time.Duration // lag of the latest such turn
	Max  time.Duration // largest since the start or ResetLag
}

// Lag returns the lag as measured up to the previous turn.
func (l *Loop) Lag() Lag { return l.lag }

// ResetLag restarts the measurement.
func (l *Loop) ResetLag() { l.lag = Lag{} }

func (l *Loop) noteLag(d time.Duration) {
	l.lag.Last = d
	l.lag.Max = max(l.lag.Max, d)
}
