package procs

import (
	"math/rand/v2"
	"slices"

	"superd/pidfd"
	"superd/procs/host/hosttest"
)

// An executeModel is what the observer knows of commands that the operator executes beside
// programs. What is executed is drawn from a generator of its own.
type executeModel struct {
	drawn   bool // whether the operator executes commands
	rng     *rand.Rand
	running []*execution // those that the present superd has not answered
}

// An execution is a command beside a run.
type execution struct {
	of      instanceView
	run     string
	pid     int // 0: it is not started yet
	over    bool
	end     func()
	aborted bool // the operator has ended it
}

func newExecuteModel(seed uint64) executeModel {
	return executeModel{
		drawn: slices.Contains([]uint64{1, 20, 26, 36, 54}, seed%64),
		rng:   rand.New(rand.NewPCG(seed, 11)),
	}
}

// execute executes a command beside a program, or ends one that runs.
func (h *history) execute(name string) {
	m := &h.executes
	if n := len(m.running); n > 0 && m.rng.IntN(4) == 0 {
		e := m.running[m.rng.IntN(n)]
		h.logf("the operator ends %d beside %s", e.pid, e.of.name())
		e.aborted = true
		e.end()
		return
	}
	in := inspect(h.sup).instance(name)
	if !in.exists() {
		return
	}
	e := &execution{of: in}
	if r := in.Run(); r.Exists() {
		e.run = r.ID()
	}
	h.logf("execute beside %s", name)
	end, err := Execute(h.sup, name, 0, ExecuteOptions{
		Command: []string{hosttest.BesideCommand, hosttest.ExecuteArgument},
		Started: func(pid int) { h.executed(e, pid) },
		Ended:   func(exit pidfd.Exit, err error) { h.executionEnded(e, exit, err) },
	})
	if runs := in.Run().HasProcess() && in.state().Serves(); runs != (err == nil) {
		h.fail("execute beside %s, which is %s: %v", name, in.state(), err)
	}
	if err == nil {
		e.end = end
		m.running = append(m.running, e)
	}
}

func (h *history) executed(e *execution, pid int) {
	if e.over || e.pid != 0 || pid == 0 {
		h.fail("the command beside %s is reported as %d: it was %+v", e.of.name(), pid, *e)
	}
	e.pid = pid
}

func (h *history) executionEnded(e *execution, exit pidfd.Exit, err error) {
	h.logf("the command beside %s is over: %v %v", e.of.name(), exit, err)
	if e.over {
		h.fail("the command beside %s ends twice", e.of.name())
	}
	e.over = true
	h.executes.running = slices.DeleteFunc(h.executes.running, func(other *execution) bool { return other == e })
	if e.pid == 0 {
		return
	}
	if p := h.kernel.Process(e.pid); err != nil || p != nil && p.Run == e.run && !p.Zombie {
		h.fail("the command beside %s is said to have ended, and %d runs: %v", e.of.name(), e.pid, err)
	}
}

// checkExecutions checks that a command of the operator gets SIGKILL when the main process beside
// which it runs stops.
func (h *history) checkExecutions() {
	for _, e := range h.executes.running {
		p := h.kernel.Process(e.pid)
		if e.pid == 0 || p == nil || p.Run != e.run || p.Key != hosttest.ExecuteArgument {
			continue
		}
		switch r := e.of.Run(); {
		case p.Zombie || p.Dying || p.Unkillable:
		case e.aborted:
			h.fail("the operator has ended the command beside %s, and %d has no signal", e.of.name(), e.pid)
		case r.Exists() && r.ID() == e.run && e.of.state().Serves():
		default:
			h.fail("%s is %s, and %d, which the operator executed beside it, runs", e.of.name(), e.of.state(), e.pid)
		}
	}
}

// known returns how many processes superd has executed for the operator.
func (m *executeModel) known() int {
	n := 0
	for _, e := range m.running {
		if e.pid != 0 {
			n++
		}
	}
	return n
}

// starts reports whether a command beside the instance is being started.
func (m *executeModel) starts(name string) bool {
	return slices.ContainsFunc(m.running, func(e *execution) bool { return e.pid == 0 && e.of.name() == name })
}

// forget forgets the commands that a superd has executed that is killed.
func (m *executeModel) forget() { m.running = nil }
