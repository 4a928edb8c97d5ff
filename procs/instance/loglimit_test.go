package instance

import (
	"testing"
	"time"
)

func TestLogLimit(t *testing.T) {
	var l logLimit
	said := 0
	for range 500 {
		if suppressed, ok := l.allow(time.Second); ok {
			said++
			if suppressed != 0 {
				t.Errorf("line %d: %d were not logged before", said, suppressed)
			}
		}
	}
	if said != logLimitLines {
		t.Errorf("%d lines, want %d", said, logLimitLines)
	}
	if _, ok := l.allow(time.Second + logLimitWindow - 1); ok {
		t.Error("a line within the window")
	}
	if suppressed, ok := l.allow(time.Second + logLimitWindow); !ok || suppressed != 501-logLimitLines {
		t.Errorf("in the next window: %v, %d not logged before, want %d", ok, suppressed, 501-logLimitLines)
	}
	if suppressed, ok := l.allow(time.Second + logLimitWindow); !ok || suppressed != 0 {
		t.Errorf("then: %v, %d not logged before", ok, suppressed)
	}
}
