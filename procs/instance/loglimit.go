package instance

import "time"

// A program can cause logLimitLines log lines of one kind in logLimitWindow.
const (
	logLimitLines  = 10
	logLimitWindow = time.Minute
)

// A logLimit bounds the log lines that a program can cause at will. The zero value is ready for
// use.
type logLimit struct {
	windowEnd  time.Duration // end of the window
	lines      int           // lines logged in the window
	suppressed int           // lines suppressed since the last logged one
}

// allow reports whether a line may be logged now, and how many were suppressed since the last one.
func (l *logLimit) allow(now time.Duration) (suppressed int, ok bool) {
	if now >= l.windowEnd {
		l.windowEnd, l.lines = now+logLimitWindow, 0
	}
	if l.lines++; l.lines > logLimitLines {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
