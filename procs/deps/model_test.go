package deps

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var graphs = flag.Int("deps.graphs", 10_000, "random graphs of TestModel")

// An instance is one instance of a random graph.
type instance struct {
	name     string
	program  string
	detached bool
	links    Links
	status   Status
	node     Node[*instance]
}

// A model knows all instances, and computes each answer from their statuses, without counters.
type model struct {
	graph   *Graph[*instance]
	all     []*instance        // sorted by name
	changed map[*instance]bool // by the operation under way
	down    map[*instance]bool // likewise
}

func (m *model) Changed(in *instance)           { m.changed[in] = true }
func (m *model) DependentsDown(in *instance)    { m.down[in] = true }
func byName(a, b *instance) int                 { return strings.Compare(a.name, b.name) }
func oneOf[E any](rng *rand.Rand, of []E) (e E) { return of[rng.IntN(len(of))] }

func newModel() *model {
	m := new(model)
	m.graph = New[*instance](m)
	return m
}

// An answers is all that a node says.
type answers struct {
	lost, waiting, blocked, stopped, canStart, ordered bool
	unsatisfied                                        int
	hasDependents, dependentsDown                      bool
	blocker                                            string // program and kind
	worst                                              string // availability of its worst instance
}

func said(in *instance) answers {
	n := &in.node
	a := answers{n.Lost(), n.Waiting(), n.Blocked(), n.Stopped(), n.CanStart(), n.Ordered(), n.Unsatisfied(),
		n.HasDependents(), n.DependentsDown(), "", ""}
	if e := n.Blocker(); e != nil {
		a.blocker = fmt.Sprint(e.To().Name(), " ", e.Ordering())
		if worst, ok := e.Worst(); ok {
			a.worst = fmt.Sprint(worst.status.Availability)
		}
	}
	return a
}

// seen returns the instances of a program that others see.
func (m *model) seen(program string) (all []*instance) {
	for _, in := range m.all {
		if in.program == program && !in.detached {
			all = append(all, in)
		}
	}
	return all
}

// lowestOf returns the lowest availability of the instances or, if blocking, of those that block
// orderings; without any it returns none.
func lowestOf(all []*instance, blocking bool, none Availability) Availability {
	lowest := availabilityCount
	for _, in := range all {
		if in.status.BlocksOrdered || !blocking {
			lowest = min(lowest, in.status.Availability)
		}
	}
	if lowest == availabilityCount {
		return none
	}
	return lowest
}

// expected computes what the node of in has to say.
func (m *model) expected(in *instance) answers {
	var a answers
	best := Up
	consider := func(program string, order bool, at Availability) {
		if at >= Up {
			return
		}
		a.unsatisfied++
		a.waiting = true
		if at < best {
			best = at
			a.blocker, a.worst = fmt.Sprint(program, " ", order), ""
			if all := m.seen(program); lowestOf(all, order, availabilityCount) != availabilityCount {
				a.worst = fmt.Sprint(at)
			}
		}
	}
	for _, program := range in.links.Requires {
		at := lowestOf(m.seen(program), false, Down)
		a.lost = a.lost || at <= Returning
		a.stopped = a.stopped || at == Down || at == Paused
		a.blocked = a.blocked || at < Coming
		for _, other := range m.seen(program) {
			if other.status.Startable {
				a.canStart = true
			}
		}
		consider(program, false, at)
	}
	for _, program := range in.links.After {
		a.ordered = true
		at := lowestOf(m.seen(program), true, availabilityCount)
		a.stopped = a.stopped || at == Down || at == Paused
		a.blocked = a.blocked || at == Down || at == Paused
		consider(program, true, at)
	}
	a.dependentsDown = true
	for _, other := range m.all {
		if in.detached {
			continue
		}
		if slices.Contains(other.links.Requires, in.program) && other.status.Alive {
			a.hasDependents, a.dependentsDown = true, false
		}
		if slices.Contains(other.links.After, in.program) {
			a.hasDependents = true
			a.dependentsDown = a.dependentsDown && !other.status.Stopping
		}
	}
	return a
}

// change draws one operation, performs it, and returns what it was.
func (m *model) change(rng *rand.Rand, programs []string) string {
	if len(m.all) == 0 || rng.IntN(4) == 0 && len(m.all) < 12 {
		in := &instance{program: oneOf(rng, programs), detached: rng.IntN(12) == 0, status: anyStatus(rng)}
		in.name = fmt.Sprintf("%s@%d", in.program, rng.Uint32())
		for _, name := range programs {
			switch rng.IntN(5) {
			case 0:
				in.links.Requires = append(in.links.Requires, name)
			case 1:
				in.links.After = append(in.links.After, name)
			}
		}
		at, _ := slices.BinarySearchFunc(m.all, in, byName)
		m.all = slices.Insert(m.all, at, in)
		m.add(in)
		return "add " + in.name
	}
	in := oneOf(rng, m.all)
	switch rng.IntN(6) {
	case 0:
		m.graph.Remove(&in.node)
		m.all = slices.DeleteFunc(m.all, func(other *instance) bool { return other == in })
		return "remove " + in.name
	case 1:
		if rng.IntN(8) > 0 {
			break
		}
		m.graph.Clear()
		for _, in := range m.all {
			m.add(in)
		}
		return "clear"
	}
	in.status = anyStatus(rng)
	m.graph.Publish(&in.node, in.status)
	return fmt.Sprintf("publish %s %+v", in.name, in.status)
}

func (m *model) add(in *instance) {
	m.graph.Add(&in.node, in, in.program, in.detached, in.links)
	m.graph.Publish(&in.node, in.status)
}

func anyStatus(rng *rand.Rand) Status {
	s := Status{Availability: Availability(rng.IntN(int(availabilityCount))),
		Startable: rng.IntN(3) == 0, Alive: rng.IntN(2) == 0}
	s.BlocksOrdered = s.Availability != Up && rng.IntN(2) == 0
	s.Stopping = s.Alive && rng.IntN(2) == 0
	return s
}

// check compares all answers with the model's, and with those before the operation: a node with
// other answers was notified.
func (m *model) check(before map[*instance]answers) error {
	for _, in := range m.all {
		got, want := said(in), m.expected(in)
		if got != want {
			return fmt.Errorf("%s says %+v, want %+v", in.name, got, want)
		}
		was, known := before[in]
		if !known {
			continue
		}
		if !was.dependentsDown && got.dependentsDown && !m.down[in] && !m.changed[in] {
			return fmt.Errorf("the dependents of %s are down, and it was not notified", in.name)
		}
		// Not notified: these serve the next decision and texts only
		was.hasDependents, was.dependentsDown, was.worst = got.hasDependents, got.dependentsDown, got.worst
		if was != got && !m.changed[in] {
			return fmt.Errorf("%s says %+v, before %+v, and was not notified", in.name, got, was)
		}
	}
	return nil
}

// run makes a random graph and changes it at random.
func run(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	programs := []string{"a", "b", "c", "d", "e", "f"}[:2+rng.IntN(5)]
	m := newModel()
	var done []string
	for range 20 + rng.IntN(30) {
		before := map[*instance]answers{}
		for _, in := range m.all {
			before[in] = said(in)
		}
		m.changed, m.down = map[*instance]bool{}, map[*instance]bool{}
		done = append(done, m.change(rng, programs))
		if err := m.check(before); err != nil {
			return fmt.Errorf("seed %d: after %s: %w", seed, strings.Join(done, "; "), err)
		}
	}
	for _, in := range m.all {
		m.graph.Remove(&in.node)
	}
	if n := m.graph.Len(); n != 0 {
		return fmt.Errorf("seed %d: %d programs are left", seed, n)
	}
	return nil
}

// TestModel: the counters say the same as a model without any, of who may start, who must stop, and
// because of which program, after each of many random changes of random graphs.
func TestModel(t *testing.T) {
	for seed := range uint64(*graphs) {
		if err := run(seed); err != nil {
			t.Fatal(err)
		}
	}
}
