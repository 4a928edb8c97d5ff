package main

import (
	"math/rand/v2"
	"testing"
)

// graphOf returns a graph of n files with the uses given as pairs.
func graphOf(n int, uses ...[2]int) *graph {
	g := &graph{files: make([]string, n)}
	for range n {
		g.objects = append(g.objects, make([]string, n))
	}
	for _, u := range uses {
		g.objects[u[0]][u[1]] = "x"
	}
	return g
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name string
		g    *graph
		back int
	}{
		{"no files", graphOf(0), 0},
		{"no uses", graphOf(3), 0},
		{"layers, declared upside down",
			graphOf(4, [2]int{3, 2}, [2]int{2, 1}, [2]int{3, 1}, [2]int{1, 0}), 0},
		{"two files that use each other", graphOf(2, [2]int{0, 1}, [2]int{1, 0}), 1},
		{"one circle", graphOf(4, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 0}), 1},
		{"two circles with one use in both",
			graphOf(4, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{1, 3}, [2]int{3, 0}), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.g.back(tt.g.fewestBack()); got != tt.back {
				t.Errorf("%d uses run back, want %d", got, tt.back)
			}
		})
	}
}

// TestFewestAreNotMore compares the two orders on random graphs: each has every file once, and the
// heuristic leaves at most half of all uses backward.
func TestFewestAreNotMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(30)
		g := graphOf(n)
		for range rng.IntN(n * n) {
			if a, b := rng.IntN(n), rng.IntN(n); a != b {
				g.objects[a][b] = "x"
			}
		}
		for _, order := range [][]int{g.fewestBack(), g.depthFirst()} {
			seen := make([]bool, n)
			for _, a := range order {
				seen[a] = true
			}
			for a, ok := range seen {
				if !ok || len(order) != n {
					t.Fatalf("the order %v of %d files lacks %d or has one twice", order, n, a)
				}
			}
		}
		if back := g.back(g.fewestBack()); 2*back > g.uses() {
			t.Errorf("%d of %d uses run back", back, g.uses())
		}
	}
}
