package procs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"superd/config"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// TestLostRecords: no program is started twice, whatever the journal has lost: its end, or the
// newest records of some keys, so that older ones count. Without the search for unrecorded
// processes the test fails.
func TestLostRecords(t *testing.T) {
	for seed := range uint64(1500) {
		if err := runWithLostRecords(seed, defect{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for seed := range uint64(1500) {
		if err := runWithLostRecords(seed, defect{kernel: hosttest.Defects{NoSearch: true}}); err != nil {
			t.Logf("without a search for processes: seed %d: %v", seed, err)
			return
		}
	}
	t.Error("a missing search for processes is not found")
}

// runWithLostRecords starts a superd from the journal of another one that lacks some records.
func runWithLostRecords(seed uint64, d defect) (err error) {
	h := newHistory(seed, d, false)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	h.commanding = true // nobody observes what the commands do
	h.kernel.OnSpawn, h.kernel.ReportsLeftovers = func(*host.SpawnSpec) {}, true
	var written []simEntry
	h.journal.onWrite = func(key string, value any) { written = append(written, simEntry{key: key, value: value}) }
	h.sup.Start(func() {})
	rng := rand.New(rand.NewPCG(seed, 9))
	for range 1 + rng.IntN(6) {
		h.v.RunFor(h.upTo(20 * time.Second))
		if inspect(h.sup).count() > 0 {
			in := inspect(h.sup).at(rng.IntN(inspect(h.sup).count()))
			op := []Op{OpStart, OpStop, OpRestart}[rng.IntN(3)]
			if _, err := h.sup.Command(op, []string{in.name()}, false, func([]CommandResult) {}); err != nil {
				return err
			}
		}
	}
	h.v.RunFor(h.upTo(3 * time.Second))
	if h.err != nil {
		return nil // a failure before the loss
	}
	for in := range inspect(h.sup).instances() {
		if p := in.In.Program; p.Type == config.TypeForking {
			h.kernel.AllowKillMode(p.Name, config.KillTree) // its main process may be lost
		}
	}
	h.journal.end()
	inspect(h.sup).kill()
	h.kernel.KillSupervisor()
	clear(h.listens.kept) // the records of sockets may be lost

	lost, key := min(1+rng.IntN(10), len(written)), ""
	if rng.IntN(2) == 0 {
		key = written[len(written)-lost].key // damaged: all newer records of this key
	}
	state := &journal.State{Existed: true, Values: map[string]json.RawMessage{}, MissingBytes: 1}
	for i, e := range written {
		if i >= len(written)-lost && (key == "" || e.key == key) {
			continue
		}
		if e.value == nil {
			delete(state.Values, e.key)
			continue
		}
		if state.Values[e.key], err = encoded(e.value); err != nil {
			return err
		}
	}
	h.journal = newSimJournal(h, h.journal.writeDelay)
	o := h.options()
	o.Predecessor.Snapshot, o.Predecessor.Resumed = snapshot.Read(state, h.restore), rng.IntN(2) == 0
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		return err
	}
	for in := range inspect(h.sup).instances() {
		h.checkIdentity(in)
	}
	h.sup.Start(func() {})
	h.v.RunFor(2 * time.Minute)
	return h.err
}
