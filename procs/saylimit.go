package procs

import "time"

// The limit of log lines of one kind that a program can cause.
const (
	sayLines  = 10
	sayWindow = time.Minute
)

// A sayLimit bounds the log lines that programs can cause at will. The zero value has logged
// nothing.
type sayLimit struct {
	ends   time.Duration // end of the window
	lines  int           // lines logged in the window
	unsaid int           // lines suppressed since the last logged one
}

// say reports whether a line may be logged now, and how many were suppressed since the last one.
func (l *sayLimit) say(now time.Duration) (unsaid int, ok bool) {
	if now >= l.ends {
		l.ends, l.lines = now+sayWindow, 0
	}
	if l.lines++; l.lines > sayLines {
		l.unsaid++
		return 0, false
	}
	unsaid, l.unsaid = l.unsaid, 0
	return unsaid, true
}
