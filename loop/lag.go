package loop

import "time"

// Lag is the delay with which a loop runs due work.
//
// It is measured once a turn, for turns that ran a timer or posted work: from the instant at which
// the first of it was due or posted to the end of the turn. So it is an upper bound for the delay
// of anything in that turn, and one slow callback counts, be it in this turn or in the previous
// one.
type Lag struct {
	Last   time.Duration // lag of the latest such turn
	Max    time.Duration // largest since the start or ResetLag
	Recent time.Duration // largest of this minute and the one before
}

// A lagMeter measures the lag of a loop.
type lagMeter struct {
	last, max time.Duration
	minute    time.Duration // number of the minute of the latest turn
	largest   time.Duration // in that minute
	before    time.Duration // largest of the minute before that
}

// Lag returns the lag as measured up to the previous turn.
func (l *Loop) Lag() Lag {
	m := l.lag
	m.proceed(l.now)
	return Lag{Last: m.last, Max: m.max, Recent: max(m.before, m.largest)}
}

// ResetLag restarts the measurement.
func (l *Loop) ResetLag() { l.lag = lagMeter{} }

// proceed continues at now, perhaps in another minute.
func (m *lagMeter) proceed(now time.Duration) {
	minute := now / time.Minute
	switch minute - m.minute {
	case 0:
		return
	case 1:
		m.before = m.largest
	default:
		m.before = 0
	}
	m.minute, m.largest = minute, 0
}

func (l *Loop) noteLag(d time.Duration) {
	l.lag.proceed(l.now)
	l.lag.last, l.lag.max, l.lag.largest = d, max(l.lag.max, d), max(l.lag.largest, d)
}
