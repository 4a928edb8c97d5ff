package procs

import (
	"testing"
	"time"

	"superd/procs/instance"
)

func TestLogLimit(t *testing.T) {
	var l instance.LogLimit
	said := 0
	for range 500 {
		if suppressed, ok := l.Allow(time.Second); ok {
			said++
			if suppressed != 0 {
				t.Errorf("line %d: %d were not logged before", said, suppressed)
			}
		}
	}
	if said != instance.LogLimitLines {
		t.Errorf("%d lines, want %d", said, instance.LogLimitLines)
	}
	if _, ok := l.Allow(time.Second + instance.LogLimitWindow - 1); ok {
		t.Error("a line within the window")
	}
	if suppressed, ok := l.Allow(time.Second + instance.LogLimitWindow); !ok || suppressed != 501-instance.LogLimitLines {
		t.Errorf("in the next window: %v, %d not logged before, want %d", ok, suppressed, 501-instance.LogLimitLines)
	}
	if suppressed, ok := l.Allow(time.Second + instance.LogLimitWindow); !ok || suppressed != 0 {
		t.Errorf("then: %v, %d not logged before", ok, suppressed)
	}
}
