package reaper

import (
	"slices"
	"testing"

	"superd/pidfd"
	"superd/procs/host"
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

// A keeper has the pids whose exits were acknowledged.
type keeper struct {
	host.FDStore
	acknowledged []int
}

func (k *keeper) Acknowledge(pid int, _ uint64) { k.acknowledged = append(k.acknowledged, pid) }

// TestAcknowledgesReplacedProcess: the exit of an adopted process that nobody waits for any more,
// as another one is the main process, is acknowledged.
func TestAcknowledgesReplacedProcess(t *testing.T) {
	var k keeper
	r := New(Options{
		Keeper: &k, AfterRecorded: func(f func()) { f() },
		Exits: []host.StoredExit{{Pid: 7, Start: 1, Exit: pidfd.Exit{Known: true, Code: 3}}},
	})
	p := r.Adopt(nil, pidfd.Identity{Pid: 7, Start: 1})
	r.AcknowledgeUnclaimed()
	r.DropChild(p)
	if !slices.Equal(k.acknowledged, []int{7}) {
		t.Errorf("acknowledged: %d, want 7 once", k.acknowledged)
	}
}

// TestAcknowledges: the exit of an adopted process is acknowledged once, when the journal has it.
func TestAcknowledges(t *testing.T) {
	var k keeper
	var recorded func()
	r := New(Options{
		Keeper: &k, AfterRecorded: func(f func()) { recorded = f },
		Exits: []host.StoredExit{{Pid: 7, Start: 1, Exit: pidfd.Exit{Known: true, Code: 3}}},
	})
	p := r.Adopt(nil, pidfd.Identity{Pid: 7, Start: 1})
	if exit, ended := r.WaitStatus(p); !ended || exit.Code != 3 {
		t.Fatalf("WaitStatus = %v, %t, want exit status 3", exit, ended)
	}
	if len(k.acknowledged) > 0 {
		t.Error("the exit is acknowledged before the journal has it")
	}
	if recorded == nil {
		t.Fatal("the exit is not acknowledged")
	}
	recorded()
	recorded = nil
	r.WaitStatus(p)
	if recorded != nil || !slices.Equal(k.acknowledged, []int{7}) {
		t.Errorf("acknowledged: %d, want 7 once", k.acknowledged)
	}
}
