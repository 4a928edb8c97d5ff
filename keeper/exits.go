package keeper

import (
	"slices"
	"strings"
)

const (
	maxExits        = 4096 // stored until acknowledged; beyond that the oldest are dropped
	exitsPerMessage = 200  // per message
)

// An exitList holds the exits of processes that no supervisor has acknowledged, oldest first.
type exitList struct {
	exits []Exit
	sent  int // how many were sent to this supervisor
}

func (l *exitList) add(e Exit) {
	if len(l.exits) == maxExits {
		l.remove(0)
	}
	l.exits = append(l.exits, e)
}

func (l *exitList) acknowledge(value string) {
	e, ok := parseExit(value)
	if !ok {
		return
	}
	if i := slices.IndexFunc(l.exits, func(x Exit) bool { return x.Pid == e.Pid && x.Start == e.Start }); i >= 0 {
		l.remove(i)
	}
}

func (l *exitList) remove(i int) {
	l.exits = slices.Delete(l.exits, i, i+1)
	if i < l.sent {
		l.sent--
	}
}

// unsent returns the next message with exits not yet sent; sent must be called when it is sent, and
// is nil if there are none.
func (l *exitList) unsent() (lines string, sent func()) {
	if l.sent == len(l.exits) {
		return "", nil
	}
	next := l.exits[l.sent:min(l.sent+exitsPerMessage, len(l.exits))]
	text := make([]string, len(next))
	for i, e := range next {
		text[i] = e.line()
	}
	return strings.Join(text, "\n"), func() { l.sent += len(next) }
}
