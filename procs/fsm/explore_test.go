package fsm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"superd/config"
)

// An exploration visits every state of a machine and its world, breadth first, from a new instance
// of each program. It takes each request and occurrence that is possible there, under each
// combination of conditions that the method reads.
//
// What would only multiply states is left out or bounded:
//
//   - Times are within the window of the start limit or far beyond it. Failures within
//     it have the same time.
//   - restartAttempts stops at 3. restarts, delay and details of reasons decide nothing.
//   - Of the kinds of reasons, a [key] has what a method reads. That each reason has a kind and a
//     text is checked in every transition.
//   - Actors: the configuration and an operator start, an operator and a shutdown stop, a reload
//     restarts, the end of a schedule stops. For the machine, the others are like these.
//   - A signal ends a run like an exit code that means failure, but for the text.
//   - What a waiting instance waits for has one reason.
type exploration struct {
	rules    *Table
	programs []*config.Program
	rng      *rand.Rand

	nodes       []node
	at          int // the node that is visited
	seen        map[key]struct{}
	siblings    []node // some of those whose key was known
	transitions int
	states      [StateCount]int

	firstUse map[*Effect]int // by cell of an [identified] table, the node that first uses it
	unused   int             // cells that no node has used yet, of such a table
}

// A node is a machine and its world.
type node struct {
	m     Machine
	world world

	from int32 // the node before; -1: none
	op   int16 // index in ops that led here
	cond uint8 // index in allConditions
}

// A key identifies a node: what it leaves out of the machine decides nothing in that state.
type key struct {
	world                           world
	program                         uint8
	state                           State
	outcome                         Event // where a run has ended
	up, before, beforeUp            bool
	failing                         bool      // superd ends the run, which counts as a failure
	starts                          bool      // it has a reason of a start
	by                              ActorKind // of a desired state down
	attempts, failures              uint8
	outdated, restartPending, limit bool
	runPending                      bool // with a trigger
	notStarted, failed, shortage    bool // where a run has ended
	ended, background, limitFinal   bool // of the kinds of reasons, what a method reads
	endIsReason                     bool
}

func (x *exploration) keyOf(n *node) key {
	m := &n.m
	k := key{
		world: n.world, program: uint8(slices.Index(x.programs, m.program)), state: m.state,
		up: m.desired.Up, attempts: uint8(m.restartAttempts), failures: uint8(len(m.failures)),
		outdated: m.outdated, restartPending: m.restartPending, limit: m.startLimitHit,
		runPending: m.runPending && m.program.Triggered(),
		starts:     m.startReason.Kind != ReasonNone,
		failing:    m.failureReason.Kind != ReasonNone,
		ended:      m.exitReason.Kind != ReasonNone, background: m.exitReason.Kind == ReasonExited,
		limitFinal: m.stateReason.Kind == ReasonStartLimitFinal,
	}
	if k.background {
		k.endIsReason = m.stateReason.Kind == m.exitReason.Kind
	}
	if ended(m.state) || n.world.quarantined {
		if k.outcome = m.outcome; m.outcome != RunEndedRestart {
			k.notStarted, k.failed, k.shortage = m.notStarted, m.failed && !m.notStarted, m.resourceShortage
		}
	}
	if !k.up {
		k.by = m.desired.By.Kind
	}
	if w := m.desiredBeforeShutdown; w != nil {
		k.before, k.beforeUp = true, w.Up
	}
	return k
}

// ended reports whether what a restart decision depends on is of the run that has ended.
func ended(s State) bool { return s == TearingDown || s == Backoff || s == Exited || s == Failed }

// explore visits all nodes. It returns the first violation, with the path to it; empty: none.
func explore(x *exploration) (violation string) {
	x.seen, x.rng = map[key]struct{}{}, rand.New(rand.NewPCG(1, 1))
	for _, p := range x.programs {
		n := node{m: New(p, x.rules), from: -1}
		x.seen[x.keyOf(&n)] = struct{}{}
		x.nodes = append(x.nodes, n)
	}
	for at := 0; at < len(x.nodes) && (x.firstUse == nil || x.unused > 0); at++ {
		x.at = at
		if text := x.visit(at); text != "" {
			return text
		}
	}
	return ""
}

func (x *exploration) has(k key) bool {
	_, known := x.seen[k]
	return known
}

// uses records the use of the cell that has led to a transition.
func (x *exploration) uses(t Transition) {
	if x.firstUse == nil {
		return
	}
	cell := unsafe.SliceData(t.Effects)
	if at, is := x.firstUse[cell]; is && at < 0 {
		x.firstUse[cell] = x.at
		x.unused--
	}
}

// visit checks a node and adds those that follow it.
func (x *exploration) visit(at int) (violation string) {
	n := x.nodes[at]
	n.m.rules = x.rules // the defects of a table are tried on the nodes of another
	x.states[n.m.state]++
	under, cond := "a check", 0
	defer func() {
		if p := recover(); p != nil {
			violation = fmt.Sprintf("panic: %v\n%s%s, %+v", p, x.path(at), under, allConditions[cond])
		}
	}()
	for _, check := range []func(node) string{x.comesToRest, x.comesUp, restores} {
		if text := check(n); text != "" {
			return text + "\n" + x.path(at)
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.possible != nil && !o.possible(&n) {
			continue
		}
		under = o.name
		for _, j := range o.under {
			cond = j
			c := allConditions[j]
			next, text := x.take(&n, o, c)
			x.transitions++
			if text != "" {
				return fmt.Sprintf("%s\n%s%s, %+v", text, x.path(at), o.name, c)
			}
			next.from, next.op, next.cond = int32(at), int16(i), uint8(j)
			switch k := x.keyOf(&next); {
			case !x.has(k):
				x.seen[k] = struct{}{}
				x.nodes = append(x.nodes, next)
			case x.transitions%5003 == 0:
				x.siblings = append(x.siblings, next)
			}
		}
	}
	return ""
}

// take returns the node to which an op leads, and what is wrong with it; empty: nothing.
func (x *exploration) take(n *node, o *op, c Conditions) (next node, wrong string) {
	next = *n
	next.m.failures = slices.Clone(n.m.failures)
	if o.occurs != nil {
		o.occurs(&next.world)
	}
	from := next.m.state
	t, ok := o.do(x, &next.m, c)
	m := &next.m
	switch {
	case ok && (t.From != from || t.To != m.state):
		return next, fmt.Sprintf("the transition %v is not what has happened", t)
	case !ok && (m.state != from || t.From != t.To):
		return next, "the state has changed without a transition"
	}
	if ok {
		x.uses(t)
		if text := next.world.perform(t); text != "" {
			return next, text
		}
		if text := o.spec(t, m, c); text != "" {
			return next, text
		}
		if t.To == Waiting {
			m.SetWaitReason(Reason{ReasonWaitsForDependency, "db"})
		}
	}
	for i := range m.failures {
		m.failures[i] = 0
	}
	m.restartAttempts, m.restarts, m.delay = min(m.restartAttempts, 3), 0, 0
	if text := next.invariant(); text != "" {
		return next, text
	}
	if o.check != nil {
		wrong = o.check(n, &next, c)
	}
	next.world.reported = false // the operator knows by now
	return next, wrong
}

// follow takes occurrences until the node is as wanted, within a bounded number of steps. The main
// process and a spawn end only when they have to.
func (x *exploration) follow(n *node, wanted func(s State) bool, completes, leftovers bool) string {
	for range 12 {
		m := &n.m
		if wanted(m.state) {
			return ""
		}
		var t Transition
		ok := true
		switch w := &n.world; {
		case w.spawn && completes:
			w.spawn, w.main = false, true
			t = m.Spawned(leftovers, free)
		case w.spawn && w.canceled:
			w.spawn = false
			t = m.SpawnCanceled(leftovers, free)
		case w.awaited:
			t = m.Ready(time.Second)
		case w.stopTimer:
			w.stopTimer = false
			t = m.StopTimedOut("SIGKILL")
		case w.killed:
			exits(w)
			t = m.Exited(RunEnd{Exit: Exit{Known: true, Signal: 9}, Leftovers: leftovers}, free, x.rng)
		case w.teardown:
			w.teardown = false
			t = m.TornDown(free, x.rng)
		default:
			t, ok = m.Reconcile(free, lostReasons)
		}
		if !ok {
			break
		}
		x.uses(t)
		if text := n.world.perform(t); text != "" {
			return text
		}
	}
	return "it stays " + n.m.state.Name() + ", which it should leave"
}

// comesToRest checks that a stop ends at rest, whatever a process ignores.
func (x *exploration) comesToRest(n node) string {
	if n.world.quarantined {
		return ""
	}
	for _, completes := range []bool{false, true} {
		for _, c := range []Conditions{free, needed} {
			n := n
			t := n.m.WantDown(By(ActorOperator), c)
			x.uses(t)
			if text := n.world.perform(t); text != "" {
				return text
			}
			down := func(s State) bool { return s == Stopped }
			if text := x.follow(&n, down, completes, !completes); text != "" {
				return "after a stop " + text
			}
			if text := n.invariant(); text != "" {
				return text
			}
		}
	}
	return ""
}

// comesUp checks that an operator's start leads to a run, or to the wait for a
// connection, if nothing blocks it.
func (x *exploration) comesUp(n node) string {
	if n.world.quarantined {
		return ""
	}
	for _, leftovers := range []bool{false, true} {
		n := n
		t := n.m.WantUp(By(ActorOperator), true, free)
		x.uses(t)
		if text := n.world.perform(t); text != "" {
			return text
		}
		up := func(s State) bool {
			return s == Running || s == Waiting && n.m.program.Accepts() && n.m.AwaitsTrigger()
		}
		if text := x.follow(&n, up, true, leftovers); text != "" {
			return "after a start " + text
		}
	}
	return ""
}

// restores checks that what is restored is what was saved.
func restores(n node) string {
	v := n.m.Snapshot()
	restored := New(n.m.program, n.m.rules)
	restored.Restore(v, n.m.state.HasRun())
	if n.m.startReason.Kind == ReasonNone { // the teardown of a quarantine
		restored.startReason = Reason{}
	}
	if !reflect.DeepEqual(restored, n.m) {
		return fmt.Sprintf("restored it is\n%+v\nnot\n%+v", restored, n.m)
	}
	if err := v.Check(); err != nil {
		return "its snapshot is refused: " + err.Error()
	}
	return ""
}

// readsMore returns an op that reads conditions that it does not say it reads; empty: none. It
// tries some of the nodes.
func (x *exploration) readsMore() string {
	for at := 0; at < len(x.nodes); at += 97 {
		n := &x.nodes[at]
		for i := range ops {
			o := &ops[i]
			if o.reads == readsEach || o.possible != nil && !o.possible(n) {
				continue
			}
			for _, c := range allConditions {
				all, _ := x.take(n, o, c)
				masked, _ := x.take(n, o, c.masked(o.reads))
				if x.keyOf(&all) != x.keyOf(&masked) {
					return fmt.Sprintf("%s in %s reads more of %+v", o.name, n.m.state.Name(), c)
				}
			}
		}
	}
	return ""
}

// path returns how a node is reached, a line each.
func (x *exploration) path(at int) string {
	var lines []string
	for ; at >= 0; at = int(x.nodes[at].from) {
		n := &x.nodes[at]
		line := fmt.Sprintf("  %s, %q, program %d\n", n.m.state.Name(), n.m.stateReason, slices.Index(x.programs, n.m.program))
		if n.from >= 0 {
			line = fmt.Sprintf("%s, %+v\n%s", ops[n.op].name, allConditions[n.cond], line)
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

// TestExploration: nothing that a machine promises is broken in any state that can be reached.
func TestExploration(t *testing.T) {
	begun := time.Now()
	x := &exploration{programs: explorationPrograms()}
	if text := explore(x); text != "" {
		t.Fatal(text)
	}
	t.Logf("%d states, %d transitions, under %d combinations of conditions, in %v", len(x.nodes), x.transitions, len(allConditions), time.Since(begun).Round(time.Millisecond))
	for s := range StateCount {
		t.Logf("%-12s %7d", s.Name(), x.states[s])
	}
	if text := x.readsMore(); text != "" {
		t.Error(text)
	}
	// Nodes of the same key lead to the same keys
	nodes, siblings := len(x.nodes), x.siblings
	for i := range siblings {
		x.nodes = append(x.nodes[:nodes], siblings[i])
		if text := x.visit(nodes); text != "" {
			t.Fatal(text)
		}
		if len(x.nodes) > nodes+1 {
			t.Fatalf("a key leaves out something that decides:\n%s", x.path(nodes+1))
		}
	}
}
