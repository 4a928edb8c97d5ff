package listener

import (
	"fmt"
	"maps"
	"slices"

	"superd/compat/supervisor"
	"superd/control"
)

// A translator makes events of supervisord from the event log of superd.
//
// The states of supervisord are those of its own machine: a process that has run and ends is
// EXITED until its next start, and BACKOFF only if it was not ready yet. So a listener gets no
// sequence that supervisord would not send, but for EXITED and then FATAL at the start limit.
type translator struct {
	programs  map[string]supervisor.Program // by name
	processes map[string]*process           // by instance
}

// A process is what is known of an instance from the events so far.
type process struct {
	state supervisor.State
	pid   int
	tries int                // failed starts in a row
	exit  *control.EventExit // the main process has ended, and the state does not show it yet
}

func newTranslator() *translator {
	return &translator{programs: map[string]supervisor.Program{}, processes: map[string]*process{}}
}

// activate takes over the programs of a configuration and returns what it adds and removes. Those
// that were removed are still known: they may have to stop first.
func (t *translator) activate(programs map[string]supervisor.Program) (all []Event) {
	was, is := groupsOf(t.programs), groupsOf(programs)
	for _, group := range is {
		if !slices.Contains(was, group) {
			all = append(all, groupEvent("ADDED", group))
		}
	}
	for _, group := range was {
		if !slices.Contains(is, group) {
			all = append(all, groupEvent("REMOVED", group))
		}
	}
	for name, p := range t.programs {
		if _, stays := programs[name]; !stays {
			p.Removed = true
			programs[name] = p
		}
	}
	t.programs = programs
	return all
}

// groupsOf returns the groups of the programs that are not removed, sorted.
func groupsOf(programs map[string]supervisor.Program) []string {
	groups := map[string]bool{}
	for _, p := range programs {
		if !p.Removed {
			groups[p.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(groups))
}

func groupEvent(what, group string) Event {
	return Event{"PROCESS_GROUP_" + what, fmt.Sprintf("groupname:%s\n", group)}
}

// translate returns the events of supervisord for one of superd, in order.
func (t *translator) translate(e *control.Event) []Event {
	switch e.Kind {
	case control.KindSuperd:
		if e.State == "started" {
			return []Event{{Name: "SUPERVISOR_STATE_CHANGE_RUNNING"}}
		}
	case control.KindShutdown:
		return []Event{{Name: "SUPERVISOR_STATE_CHANGE_STOPPING"}}
	case control.KindStart:
		t.process(e).pid = e.Pid
	case control.KindExit:
		p := t.process(e)
		p.pid, p.exit = e.Pid, e.Exit
		if p.exit == nil {
			p.exit = &control.EventExit{}
		}
	case control.KindState:
		return t.changed(e)
	}
	return nil
}

func (t *translator) process(e *control.Event) *process {
	p := t.processes[e.Instance]
	if p == nil {
		p = &process{state: stateBefore(e.From)}
		t.processes[e.Instance] = p
	}
	return p
}

// stateBefore returns the state of a process whose earlier events are not kept.
func stateBefore(state string) supervisor.State {
	switch state {
	case control.StateRunning:
		return supervisor.Running
	case control.StateStarting:
		return supervisor.Starting
	case control.StateStopping:
		return supervisor.Stopping
	case control.StateBackoff:
		return supervisor.Backoff
	case control.StateExited:
		return supervisor.Exited
	case control.StateFailed:
		return supervisor.Fatal
	}
	return supervisor.Stopped
}

// changed returns the events of a change of state.
func (t *translator) changed(e *control.Event) (all []Event) {
	p := t.process(e)
	enter := func(state supervisor.State, format string, args ...any) {
		if p.state == state {
			return
		}
		all = append(all, t.stateEvent(e, p, state, fmt.Sprintf(format, args...)))
		p.state = state
	}
	backoff := func() {
		p.tries++
		enter(supervisor.Backoff, " tries:%d", p.tries)
	}
	if exit := p.exit; exit != nil && p.state != supervisor.Stopping {
		p.exit = nil
		switch {
		case p.state == supervisor.Running, e.State == control.StateExited:
			enter(supervisor.Exited, " expected:%d pid:%d", t.expected(e.Program, exit), p.pid)
		case p.state == supervisor.Starting:
			backoff()
		}
		if e.State == control.StateStopping { // what the process has left is ended
			return all
		}
	}
	if p.state == supervisor.Stopping && e.State != control.StateStopping {
		p.exit = nil
		enter(supervisor.Stopped, " pid:%d", p.pid)
	}
	switch e.State {
	case control.StateStarting:
		p.pid = 0
		enter(supervisor.Starting, " tries:%d", p.tries)
	case control.StateRunning:
		p.tries = 0
		enter(supervisor.Running, " pid:%d", p.pid)
	case control.StateStopping:
		// What was stopped already, or never was up, has only leftovers
		if p.state == supervisor.Running || p.state == supervisor.Starting {
			enter(supervisor.Stopping, " pid:%d", p.pid)
		}
	case control.StateBackoff:
		if p.state == supervisor.Starting {
			backoff()
		}
	case control.StateFailed:
		if p.state == supervisor.Starting {
			backoff()
		}
		if p.state != supervisor.Exited || isLimit(e.ReasonKind) {
			enter(supervisor.Fatal, "")
		}
	case control.StateExited:
		if p.state == supervisor.Running || p.state == supervisor.Starting {
			enter(supervisor.Exited, " expected:1 pid:%d", p.pid)
		}
	case control.StateStopped:
		pid := p.pid
		if p.state == supervisor.Backoff {
			pid = 0
		}
		enter(supervisor.Stopped, " pid:%d", pid)
	}
	if e.State == control.StateStopped || e.State == control.StateExited {
		delete(t.processes, e.Instance) // the next event says the same; instances may be many
	}
	return all
}

// isLimit reports whether an instance has failed since it has used up its start limit.
func isLimit(reason string) bool {
	return reason == "start-limit-hit" || reason == "start-limit-hit-final"
}

func (t *translator) stateEvent(e *control.Event, p *process, state supervisor.State, more string) Event {
	return Event{"PROCESS_STATE_" + state.String(), t.prefix(e.Program, e.Instance) +
		" from_state:" + p.state.String() + more}
}

// prefix is what a payload about a process begins with.
func (t *translator) prefix(program, instance string) string {
	return "processname:" + supervisor.ProcessName(program, instance) + " groupname:" + t.group(program)
}

// group returns the group of a program.
func (t *translator) group(program string) string {
	if p, ok := t.programs[program]; ok {
		return p.Group
	}
	return program
}

// expected returns 1 for an exit by a status that means success.
func (t *translator) expected(program string, exit *control.EventExit) int {
	if exit.Code != nil && t.programs[program].Succeeds(*exit.Code) {
		return 1
	}
	return 0
}
