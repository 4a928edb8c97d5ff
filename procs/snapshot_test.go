package procs

import (
	"testing"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
	"superd/procs/snapshot/snapshottest"
)

// TestRestoreIsInverseOfSnapshot: a supervisor snapshots what it was restored from, in each field
// of its record. The same holds for instances, see procs/instance.
func TestRestoreIsInverseOfSnapshot(t *testing.T) {
	h := newHistory(1, defect{}, false)
	h.kernel.Mix = hosttest.FaultMix{}
	o := h.options()
	o.Predecessor.Resumed = true
	o.Config = &config.Config{Programs: []*config.Program{programNamed("web", nil)}}
	h.sup = New(o)

	var self snapshot.Superd
	snapshottest.Fill(&self)
	self.Shutdown.Why = fsm.ReasonShutdownRequested.With("SIGTERM").Snapshot()
	h.sup.self.restore(&snapshot.Snapshot{Superd: self})
	// Only the last record has that superd has ended
	snapshottest.Compare(t, self, *h.sup.self.snapshot(), []string{"Superd.Ended"})
}
