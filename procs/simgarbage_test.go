package procs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// TestGarbageInTheJournal: superd neither crashes nor hangs, whatever a record says.
func TestGarbageInTheJournal(t *testing.T) {
	for seed := range uint64(4000) {
		if err := garble(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// garble starts a superd from the journal of another one, in which some values were changed.
func garble(seed uint64) (err error) {
	var state *journal.State
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s\n%s", r, state.Values, debug.Stack())
		}
	}()
	h := newHistory(seed, defect{}, false)
	h.kernel.OnSpawn = func(*host.SpawnSpec) {}
	h.sup.Start(func() {})
	h.v.RunFor(h.upTo(3 * time.Second))
	state, _ = h.journal.end()
	inspect(h.sup).kill()
	h.kernel.KillSupervisor()
	rng := rand.New(rand.NewPCG(seed, 1))
	keys := slices.Sorted(maps.Keys(state.Values))
	for range min(len(keys), 1+rng.IntN(3)) {
		key := keys[rng.IntN(len(keys))]
		var value any
		if err := json.Unmarshal(state.Values[key], &value); err != nil {
			return err
		}
		text, err := json.Marshal(garbage(rng, value))
		if err != nil {
			return err
		}
		state.Values[key] = text
	}
	restore := func(archive []byte) (*config.Config, error) {
		var i int
		if json.Unmarshal(archive, &i) != nil || i < 0 || i >= len(h.configs) {
			return nil, errors.New("garbage")
		}
		return h.configs[i], nil
	}
	h.journal = newSimJournal(h, h.journal.writeDelay)
	o := h.options()
	o.Predecessor.Snapshot, o.Predecessor.Resumed = snapshot.Read(state, restore), rng.IntN(2) == 0
	h.sup = New(o)
	if h.sup.Adopt() == nil {
		h.sup.Start(func() {})
		h.v.RunFor(time.Minute)
	}
	return nil
}

// garbage returns value with one change.
func garbage(rng *rand.Rand, value any) any {
	if rng.IntN(3) > 0 {
		switch v := value.(type) {
		case map[string]any:
			if len(v) > 0 {
				key := slices.Sorted(maps.Keys(v))[rng.IntN(len(v))]
				if rng.IntN(4) == 0 {
					delete(v, key)
				} else {
					v[key] = garbage(rng, v[key])
				}
				return v
			}
		case []any:
			if len(v) > 0 {
				i := rng.IntN(len(v))
				v[i] = garbage(rng, v[i])
				return v
			}
		}
	}
	texts := append(allNames(), "", "x", "p1", "fifo/1", "2026-01-01T00:00:00Z")
	all := []any{nil, true, -1, 0, 1, 7, int64(math.MinInt64), int64(math.MaxInt64), uint64(math.MaxUint64), 1e300, texts[rng.IntN(len(texts))], []any{}, map[string]any{}, []any{1, "x"}}
	return all[rng.IntN(len(all))]
}

// allNames returns the names of states, outcomes, actors and reasons in the journal.
func allNames() (names []string) {
	for s := range fsm.StateCount {
		names = append(names, s.Name())
	}
	for e := range fsm.EventCount {
		names = append(names, e.OutcomeName())
	}
	for k := fsm.ActorNone; k <= fsm.ActorOther; k++ {
		names = append(names, k.String())
	}
	for k := fsm.ReasonNone; k <= fsm.ReasonLogOutageOver; k++ {
		names = append(names, k.String())
	}
	return names
}
