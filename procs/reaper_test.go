package procs

import (
	"testing"

	"superd/procs/host/hosttest"
)

// TestNewChildReusesPid: dropping a process that was reaped does not drop a new one with the same
// pid.
func TestNewChildReusesPid(t *testing.T) {
	h := newHistory(1, defect{}, false)
	first := &hosttest.Handle{Process: &hosttest.Process{Pid: 7}}
	second := &hosttest.Handle{Process: &hosttest.Process{Pid: 7}}
	reaped := 0
	h.sup.reaper.byPid[7] = owner{second, func() { reaped++ }}
	h.sup.reaper.DropChild(first)
	h.sup.reaper.reapChild(7)
	if reaped != 1 {
		t.Error("the end of the second process does not reach its owner")
	}
}
