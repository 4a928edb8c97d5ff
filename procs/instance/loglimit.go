package instance

import "time"

// A program can cause logLimitLines log lines of one kind in logLimitWindow.
const (
	LogLimitLines  = 10
	LogLimitWindow = time.Minute
)

// A LogLimit bounds the log lines that a program can cause at will. The zero value is ready for
// use.
type LogLimit struct {
	windowEnd  time.Duration // end of the window
	lines      int           // lines logged in the window
	suppressed int           // lines suppressed since the last logged one
}

// Allow reports whether a line may be logged now, and how many were suppressed since the last one.
func (l *LogLimit) Allow(now time.Duration) (suppressed int, ok bool) {
	if now >= l.windowEnd {
		l.windowEnd, l.lines = now+LogLimitWindow, 0
	}
	if l.lines++; l.lines > LogLimitLines {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
