package eventlog

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A follower collects the events from Follow.
type follower struct {
	t      *testing.T
	events chan Event
	ended  chan struct{}
	stop   context.CancelFunc
}

func follow(t *testing.T, l *Log, cursor uint64) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, events: make(chan Event), ended: make(chan struct{}), stop: cancel}
	go func() {
		defer close(f.ended)
		for e, err := range l.Follow(ctx, cursor) {
			if err != nil {
				t.Errorf("Follow: %v", err)
			}
			select {
			case f.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		f.end()
	})
	return f
}

func (f *follower) end() {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Fatal("Follow does not end")
	}
}

func (f *follower) next() Event {
	f.t.Helper()
	select {
	case e := <-f.events:
		return e
	case <-time.After(patience):
		f.t.Fatal("no further event")
		panic("unreachable")
	}
}

func (f *follower) expect(want string) {
	f.t.Helper()
	var got []Event
	for range strings.Fields(want) {
		got = append(got, f.next())
	}
	if brief(got) != want {
		f.t.Errorf("Follow gives %q, want %q", brief(got), want)
	}
}

func TestFollow(t *testing.T) {
	l, _ := open(t, t.TempDir(), MaxSize)
	early := follow(t, l, 0)
	appendN(t, l, 2)
	early.expect("1 2")
	late := follow(t, l, 1)
	late.expect("2")
	appendN(t, l, 1)
	early.expect("3")
	late.expect("3")
	late.stop()
	late.end()
	l.Append(event(4))
	go l.Close(patience)
	early.expect("4")
	early.end()
}

func TestFollowThroughRotation(t *testing.T) {
	l, _ := open(t, t.TempDir(), 1000)
	f := follow(t, l, 0)
	for i := range 100 {
		l.Append(event(i))
		if e := f.next(); e.Cursor != uint64(i+1) || e.Kind == Gap {
			t.Fatalf("event %d: Follow gives %+v", i+1, e)
		}
	}
}

func TestSlowFollowerSeesTheGap(t *testing.T) {
	l, _ := open(t, t.TempDir(), 1000)
	f := follow(t, l, 0)
	appendN(t, l, 1)
	f.expect("1")
	for i := range 100 { // the follower is blocked with event 2
		l.Append(event(i))
		flush(t, l)
	}
	seen, lost := uint64(1), uint64(0)
	for seen+lost < 101 {
		if e := f.next(); e.Kind == Gap {
			lost += e.Lost
		} else {
			seen++
		}
	}
	if lost == 0 {
		t.Error("no gap was given")
	}
}
