package procs

import (
	"slices"
)

// A level is how far an instance, or all of a program, is up, as those see it who require it.
type level uint8

const (
	down   level = iota // it is not up, or about to go, and nothing brings it back by itself: who requires it has to be down, too
	paused              // it is in back-off, or waits for who is: who requires it is not started, and is left alone if it runs
	coming              // it is being started, or does what others wait for
	up                  // who requires it may be started
	levelCount
)

// A standing is what others see of an instance.
type standing struct {
	level   level
	holding bool // on its way up: who comes after it waits
	unasked bool // nobody wants it up, and nobody holds it down: who requires it may ask for it
	alive   bool // something of it lives
	going   bool // it lives, and is on its way down
}

// A node is a program in the graph of dependencies: all its instances together. Whatever changes in one of them is counted here at once and passed on to
// those who name the program, as counts again: so a change costs as much as there are edges at it, however many programs there are.
type node struct {
	name      string
	instances []*instance
	only      [1]*instance // what that lies in where there are no replicas
	edges     []*edge      // from those who name it
	after     int32        // of them, those that are about the order alone
	seen      view         // as its edges know it

	levels  [levelCount]int32 // instances
	holding [levelCount]int32 // of them, those that are holding
	unasked int32             // instances
	users   int32             // instances that live and require it
	leaving int32             // instances that are going and come after it
}

// A view is what an edge passes on of a node.
type view struct {
	level   level // of who requires it
	ahead   level // of who comes after it; levelCount: it need not wait
	unasked bool
}

// An edge leads from an instance to a program that it names.
type edge struct {
	from  *instance
	to    *node
	at    int  // its place in to.edges
	order bool // from comes after to, where to is on its way; else it requires to
}

// ties are what a machine knows of the others. The supervisor keeps them up to date.
type ties struct {
	own    *node // its own program; those who require it
	*needs       // never nil
}

// needs are what a machine knows of the programs that its own names.
type needs struct {
	required [levelCount]int32 // programs that it requires
	ahead    [levelCount]int32 // programs that it comes after and that are on their way up
	unasked  int32             // of those that it requires, programs that it may ask for
	follows  int32             // programs that it comes after
}

// noNeeds is what those have that name no other program: most have none. It is never changed.
var noNeeds needs

// tied returns the ties of who is of that program and names no other.
func tied(own *node) ties { return ties{own, &noNeeds} }

// lacking reports whether something that it requires is down, so that it can't stay up either.
func (t *ties) lacking() bool { return t.required[down] > 0 }

// short reports whether something that it waits for is not there yet.
func (t *ties) short() bool { return t.stalled() || t.required[coming]+t.ahead[coming] > 0 }

// stalled reports whether something that it waits for is not even coming.
func (t *ties) stalled() bool {
	return t.required[down]+t.required[paused]+t.ahead[down]+t.ahead[paused] > 0
}

// lastLeft reports whether nobody lives any more who has to be down before it.
func (t *ties) lastLeft() bool { return t.own.users == 0 && t.own.leaving == 0 }

// level tells how far the instance is up.
func (in *instance) level() level {
	m := &in.machine
	switch m.state {
	case Running:
		if in.isOneShot() {
			return coming
		}
		return up
	case Exited:
		if in.isOneShot() {
			return up
		}
	case Backoff:
		return paused
	case Spawning, Starting, Lingering, Stopping, Killing:
		if !m.unwanted() {
			return coming
		}
	case Clearing:
		switch {
		case m.unwanted():
		case m.verdict == EndRetry:
			return paused
		case m.verdict == EndAgain, m.verdict == EndDone && in.isOneShot():
			return coming
		}
	case Waiting:
		switch {
		case m.unwanted():
		case m.stalled(), m.awaitsSchedule():
			return paused
		default:
			return coming
		}
	}
	return down
}

// standing tells what others see of the instance.
func (in *instance) standing() standing {
	m := &in.machine
	s := standing{level: in.level(), alive: in.run != nil && in.stuck == ""}
	s.holding = m.wanted.up && s.level != up && !m.state.AtRest()
	s.unasked = !m.wanted.up && m.wanted.by != operator && m.wanted.by != theShutdown && !in.removed && in.held == nil
	s.going = s.alive && m.unwanted()
	return s
}

// publish passes on what has changed in how others see the instance.
func (in *instance) publish() {
	was, is := in.published, in.standing()
	if is == was {
		return
	}
	in.published = is
	n := in.machine.own
	n.count(was, -1)
	n.count(is, 1)
	n.tell()
	if was.alive == is.alive && was.going == is.going {
		return
	}
	for _, e := range in.edges {
		if e.order {
			e.to.leaving += one(is.going) - one(was.going)
		} else {
			e.to.users += one(is.alive) - one(was.alive)
		}
		if e.to.users+e.to.leaving == 0 {
			e.to.touch()
		}
	}
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// count adds by to the counts to which an instance of that standing belongs.
func (n *node) count(s standing, by int32) {
	n.levels[s.level] += by
	n.holding[s.level] += by * one(s.holding)
	n.unasked += by * one(s.unasked)
}

// view tells what those who name the program see of it: the lowest level of an instance, or that there is none, and the lowest of those on their way.
func (n *node) view() view {
	v := view{level: lowest(&n.levels), ahead: lowest(&n.holding), unasked: n.unasked > 0}
	if v.level == levelCount {
		v.level = down
	}
	return v
}

// lowest returns the lowest level at which there is somebody; levelCount if there is nobody.
func lowest(counts *[levelCount]int32) level {
	for l, n := range counts {
		if n > 0 {
			return level(l)
		}
	}
	return levelCount
}

// tell passes on what has changed of the program to those who name it.
func (n *node) tell() {
	was, is := n.seen, n.view()
	if is == was {
		return
	}
	n.seen = is
	for _, e := range n.edges {
		e.count(was, -1)
		e.count(is, 1)
		e.from.touch()
	}
}

// touch has those looked at who wait until nobody is left that has to be down before them.
func (n *node) touch() {
	for _, in := range n.instances {
		if in.machine.state == Lingering || in.machine.state == Waiting {
			in.touch()
		}
	}
}

// count adds by to what its instance knows of a node of that view.
func (e *edge) count(v view, by int32) {
	t := &e.from.machine.ties
	switch {
	case !e.order:
		t.required[v.level] += by
		t.unasked += by * one(v.unasked)
	case v.ahead < levelCount:
		t.ahead[v.ahead] += by
	}
}

// newNode returns a program without instances.
func newNode(name string) *node {
	n := &node{name: name, seen: view{ahead: levelCount}}
	n.instances = n.only[:0]
	return n
}

// node returns the program of that name in the graph.
func (s *Supervisor) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = newNode(name)
		s.nodes[name] = n
	}
	return n
}

// join puts the instance into the graph. What it waits for is what the configuration in force says of its program, or, where that has gone, the
// last one that had it: so the graph has no cycle, whatever was reloaded. One that goes while its program stays keeps nobody waiting.
func (in *instance) join() {
	s, program := in.sup, in.program
	table := s.config.Program(program.Name)
	var n *node
	if table == nil || s.has(table, in.name) {
		n = s.node(program.Name)
	} else {
		n = newNode(program.Name)
	}
	if table != nil {
		program = table
	}
	in.machine.ties = tied(n)
	in.published = in.standing()
	in.seat = int32(len(n.instances))
	n.instances = append(n.instances, in)
	n.count(in.published, 1)
	n.tell()
	if len(program.Invalid) == 0 { // it fails, whoever is up
		in.link(program.Requires, false)
		in.link(program.After, true)
	}
	in.publish()
	in.touch()
}

// link draws edges from the instance to those programs.
func (in *instance) link(names []string, order bool) {
	for _, name := range names {
		if len(in.edges) == 0 {
			in.machine.needs = new(needs)
		}
		n := in.sup.node(name)
		e := &edge{from: in, to: n, at: len(n.edges), order: order}
		n.edges = append(n.edges, e)
		in.edges = append(in.edges, e)
		e.count(n.seen, 1)
		if order {
			in.machine.follows++
			n.after++
			n.leaving += one(in.published.going)
		} else {
			n.users += one(in.published.alive)
		}
	}
}

// quit takes the instance out of the graph.
func (in *instance) quit() {
	for _, e := range in.edges {
		n := e.to
		last := n.edges[len(n.edges)-1]
		n.edges[e.at], last.at = last, e.at
		n.edges = slices.Delete(n.edges, len(n.edges)-1, len(n.edges))
		if e.order {
			n.after--
			n.leaving -= one(in.published.going)
		} else {
			n.users -= one(in.published.alive)
		}
		n.touch()
		in.sup.forget(n)
	}
	in.edges = nil
	n := in.machine.own
	last := n.instances[len(n.instances)-1]
	n.instances[in.seat], last.seat = last, in.seat
	n.instances = slices.Delete(n.instances, len(n.instances)-1, len(n.instances))
	n.count(in.published, -1)
	n.tell()
	in.sup.forget(n)
	in.machine.ties = tied(newNode(in.program.Name))
}

// rejoin puts the instance where it belongs by now.
func (in *instance) rejoin() {
	in.quit()
	in.join()
}

// forget drops a node that nobody speaks of.
func (s *Supervisor) forget(n *node) {
	if len(n.instances) == 0 && len(n.edges) == 0 && s.nodes[n.name] == n {
		delete(s.nodes, n.name)
	}
}

// connect draws the graph anew, after the configuration in force has changed.
func (s *Supervisor) connect() {
	for _, in := range s.instances {
		in.edges = nil
	}
	clear(s.nodes)
	for _, in := range s.instances {
		in.join()
	}
}
