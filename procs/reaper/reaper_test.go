package reaper

import (
	"testing"

	"superd/procs/host/hosttest"
)

// TestNewChildReusesPid: dropping a process that was reaped does not drop a new one with the same
// pid.
func TestNewChildReusesPid(t *testing.T) {
	r := New(Options{})
	first := &hosttest.Handle{Process: &hosttest.Process{Pid: 7}}
	second := &hosttest.Handle{Process: &hosttest.Process{Pid: 7}}
	reaped := 0
	r.byPid[7] = owner{second, func() { reaped++ }}
	r.DropChild(first)
	r.reapChild(7)
	if reaped != 1 {
		t.Error("the end of the second process does not reach its owner")
	}
}
