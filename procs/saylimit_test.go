package procs

import (
	"testing"
	"time"
)

func TestSayLimit(t *testing.T) {
	var l sayLimit
	said := 0
	for range 500 {
		if unsaid, ok := l.say(time.Second); ok {
			said++
			if unsaid != 0 {
				t.Errorf("line %d: %d were not logged before", said, unsaid)
			}
		}
	}
	if said != sayLines {
		t.Errorf("%d lines, want %d", said, sayLines)
	}
	if _, ok := l.say(time.Second + sayWindow - 1); ok {
		t.Error("a line within the window")
	}
	if unsaid, ok := l.say(time.Second + sayWindow); !ok || unsaid != 501-sayLines {
		t.Errorf("in the next window: %v, %d not logged before, want %d", ok, unsaid, 501-sayLines)
	}
	if unsaid, ok := l.say(time.Second + sayWindow); !ok || unsaid != 0 {
		t.Errorf("then: %v, %d not logged before", ok, unsaid)
	}
}
