package loop

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// shiftClock sets the machine's clock forward or back by one nanosecond, which is a change like any
// other.
func shiftClock(t *testing.T, back bool) {
	t.Helper()
	shift := unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO}
	shift.Time.Usec = 1
	if back {
		shift.Time.Sec, shift.Time.Usec = -1, 1e9-1
	}
	_, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &shift)
	if errors.Is(err, unix.EPERM) {
		t.Skip("may not set the clock")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKernelReportsClockChanges sets the clock twice: the second change must be noticed, too.
func TestKernelReportsClockChanges(t *testing.T) {
	l, w := startEpoll(t)
	r := &rig{t, l, w}
	calls := 0
	if _, err := l.Root().OnClockChange(func() {
		switch calls++; calls {
		case 1:
			shiftClock(t, true)
		case 2:
			l.Stop()
		}
	}); err != nil {
		t.Fatal(err)
	}
	shiftClock(t, false)
	r.run()
	if calls != 2 {
		t.Errorf("%d calls for 2 changes of the clock", calls)
	}
}

func TestBootIsNotBehind(t *testing.T) {
	l, _ := startEpoll(t)
	now := l.Now()
	if boot := l.Boot(); boot < now {
		t.Errorf("Boot() = %v, after Now() = %v", boot, now)
	}
	l.Stop()
	_ = l.Run()
}

// TestWallAtStays: a time has the same wall clock in each turn, though the clocks are not read at
// the same instant.
func TestWallAtStays(t *testing.T) {
	l, _ := startEpoll(t)
	at := l.Now()
	first := l.WallAt(at)
	for range 1000 {
		if wall := l.WallAt(at); !wall.Equal(first) {
			t.Fatalf("WallAt() = %v, before %v", wall, first)
		}
	}
	l.Stop()
	_ = l.Run()
}
