package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// identified returns a copy of the rules whose cells differ by the address of their effects, and
// what [exploration.uses] needs to know the first use of each.
func identified() (rules *Table, firstUse map[*Effect]int) {
	rules, firstUse = Rules(), map[*Effect]int{}
	for s := range rules {
		for e, r := range rules[s] {
			if r == nil {
				continue
			}
			own := append(make([]Effect, 0, len(r.Effects)+1), r.Effects...)
			rules[s][e] = To(r.Next, own...)
			firstUse[unsafe.SliceData(own)] = -1
		}
	}
	return rules, firstUse
}

// TestPlantedDefects changes each cell of the table: each other next state, and each effect left
// out. The exploration must find each of these defects.
func TestPlantedDefects(t *testing.T) {
	begun := time.Now()
	programs := explorationPrograms()
	rules, firstUse := identified()
	sound := &exploration{rules: rules, programs: programs, firstUse: firstUse, unused: len(firstUse)}
	if text := explore(sound); text != "" {
		t.Fatal(text)
	}
	planted, local := 0, 0
	plant := func(s State, e Event, r *Rule, what string) {
		planted++
		rules := Rules()
		rules[s][e] = r
		// Until the cell is used, the exploration is that of the sound table
		x := &exploration{rules: rules, programs: programs, nodes: sound.nodes, seen: map[key]struct{}{}, rng: sound.rng}
		if at := firstUse[unsafe.SliceData(sound.rules[s][e].Effects)]; x.visit(at) != "" {
			local++
			return
		}
		x = &exploration{rules: rules, programs: programs}
		if explore(x) == "" {
			t.Errorf("%s in %s, %s: not found", e, s.Name(), what)
			return
		}
		t.Logf("%s in %s, %s: found after %d states, %d transitions", e, s.Name(), what, x.at, x.transitions)
	}
	for s := range StateCount {
		for e := range EventCount {
			r := rules[s][e]
			if r == nil {
				continue
			}
			if firstUse[unsafe.SliceData(r.Effects)] < 0 {
				t.Errorf("%s in %s is never used", e, s.Name())
				continue
			}
			for next := range StateCount {
				if next != r.Next {
					plant(s, e, To(next, r.Effects...), fmt.Sprintf("next state %s", next.Name()))
				}
			}
			for i, effect := range r.Effects {
				plant(s, e, To(r.Next, slices.Delete(slices.Clone(r.Effects), i, i+1)...), fmt.Sprintf("without %s", effect))
			}
		}
	}
	t.Logf("%d defects in %d cells, %d of them found at the first use of the cell, after %d states, in %v",
		planted, len(firstUse), local, sound.at, time.Since(begun).Round(time.Millisecond))
}
