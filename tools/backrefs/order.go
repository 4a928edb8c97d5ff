package main

import "slices"

// depthFirst returns a topological order: each file before those it uses, unless these were met
// first on the way to it. Files are tried in alphabetical order.
func (g *graph) depthFirst() []int {
	var order []int
	met := make([]bool, len(g.files))
	var visit func(a int)
	visit = func(a int) {
		if met[a] {
			return
		}
		met[a] = true
		for b := range g.files {
			if g.use(a, b) == 1 {
				visit(b)
			}
		}
		order = append(order, a)
	}
	for a := range g.files {
		visit(a)
	}
	slices.Reverse(order)
	return order
}

// fewestBack returns an order in which few uses run back.
//
// The fewest possible are a minimum feedback arc set, which is NP-hard to find. This is the greedy
// heuristic of Eades, Lin and Smyth (1993), improved by moving single files while that helps.
func (g *graph) fewestBack() []int {
	order := g.greedy()
	for g.improve(order) {
	}
	return order
}

// greedy takes unused files to the front and files that use none to the back. Where a circle leaves
// neither, it takes to the front the file with the most uses beyond those of it.
func (g *graph) greedy() []int {
	var front, back []int
	rest := make([]int, len(g.files))
	for i := range rest {
		rest[i] = i
	}
	for len(rest) > 0 {
		best, bestSurplus := 0, 0
		last := false
		for i, a := range rest {
			out, in := 0, 0
			for _, b := range rest {
				out += g.use(a, b)
				in += g.use(b, a)
			}
			if in == 0 || out == 0 {
				best, last = i, in > 0
				break
			}
			if i == 0 || out-in > bestSurplus {
				best, bestSurplus = i, out-in
			}
		}
		if last {
			back = append(back, rest[best])
		} else {
			front = append(front, rest[best])
		}
		rest = slices.Delete(rest, best, best+1)
	}
	slices.Reverse(back)
	return append(front, back...)
}

// improve moves each file to where the fewest uses of it and by it run back, and reports whether
// that changed any.
func (g *graph) improve(order []int) (better bool) {
	for from, a := range slices.Clone(order) {
		if order[from] != a {
			from = slices.Index(order, a)
		}
		to, most := from, 0
		gain := 0
		for i := from - 1; i >= 0; i-- {
			if gain += g.use(a, order[i]) - g.use(order[i], a); gain > most {
				to, most = i, gain
			}
		}
		gain = 0
		for i := from + 1; i < len(order); i++ {
			if gain += g.use(order[i], a) - g.use(a, order[i]); gain > most {
				to, most = i, gain
			}
		}
		if most > 0 {
			copy(order, slices.Insert(slices.Delete(order, from, from+1), to, a))
			better = true
		}
	}
	return better
}
