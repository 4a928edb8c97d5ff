package fdstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTable: a table behaves like a map, for any names in any order.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var tab table[int32]
		want := map[string]int32{}
		next := 0
		for step := range 300 {
			name := fmt.Sprint(rng.IntN(40))
			switch rng.IntN(6) {
			case 0:
				name = []string{"control", "keeper", "", "007", "-1", "+1", "2147483647", "2147483648", "99999999999999999999", "1a"}[rng.IntN(10)]
			case 1, 2:
				name = fmt.Sprint(100 + next) // as superd's own
				next++
			}
			if rng.IntN(3) == 0 {
				tab.remove(name)
				delete(want, name)
			} else {
				tab.set(name, int32(step))
				want[name] = int32(step)
			}
			value, ok := tab.get(name)
			if wanted, there := want[name]; value != wanted || ok != there {
				t.Fatalf("%q stands for %d, %v; want %d, %v", name, value, ok, wanted, there)
			}
			if got := maps.Collect(tab.all()); tab.len() != len(want) || !maps.Equal(got, want) {
				t.Fatalf("%d names: %v; want %v", tab.len(), got, want)
			}
			if dead := len(tab.numbered) - (tab.len() - len(tab.named)); dead > len(tab.numbered)/2+1 {
				t.Fatalf("%d places, %d of them of nothing", len(tab.numbered), dead)
			}
		}
	}
}

// TestNumbersComeInTurn: numbers are sorted by value.
func TestNumbersComeInTurn(t *testing.T) {
	got := SortedNames(map[string]int{"10": 3, "9": 4, "control": 5, "100": 6, "2147483647": 7, "0": 8})
	numbers := slices.DeleteFunc(got, func(name string) bool { _, ok := numberOf(name); return !ok })
	if want := []string{"0", "9", "10", "100", "2147483647"}; !slices.Equal(numbers, want) {
		t.Errorf("numbers come as %q, want %q", numbers, want)
	}
}

func TestTableGrowsWithoutGarbage(t *testing.T) {
	var tab table[int32]
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprint(i)
		tab.set(names[i], int32(i))
	}
	if n := testing.AllocsPerRun(10, func() {
		for _, name := range names[:500] {
			tab.remove(name)
		}
		for i, name := range names[:500] {
			tab.set(name, int32(i))
		}
	}); n != 0 {
		t.Errorf("%v allocations to remove and set 500 names again", n)
	}
}
