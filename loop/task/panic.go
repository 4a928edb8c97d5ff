package task

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Panic is a panic in a task, as it goes on in the parent or in the loop, and the error of the task for whoever
// joins it.
type Panic struct {
	Value any    // what the task panicked with
	Stack string // of the task, then that of each task above that it went through, and where each was started
}

// Error returns the value and the stacks.
func (p *Panic) Error() string {
	return fmt.Sprintf("panic in a task: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// catch is deferred by the coroutine of t.
func (t *Task) catch() {
	t.state = returned
	if t.sched.host == t { // the guest has ended the goroutine, and with it this one
		t.sched.handover = handover{}
	}
	if v := recover(); v != nil {
		t.caught(v)
	}
}

func (t *Task) caught(v any) {
	p, again := v.(*Panic)
	if !again {
		p = &Panic{Value: v}
	}
	p.Stack += fmt.Sprintf("%s\nstarted by:\n%s", debug.Stack(), t.startedBy())
	t.fault = p
}

// raise has the panic of a child go on in t.
func (t *Task) raise(p *Panic) {
	switch {
	case t.fault != nil: // one is enough
	case t.state == returned:
		t.fault, t.err = p, p
		t.cancelChildren()
	default:
		t.fault = p
		t.interrupt()
	}
}

// reraise has t panic as its child did.
func (t *Task) reraise() {
	if t.shielded() {
		return
	}
	p := t.fault
	t.fault = nil
	panic(p)
}

func (t *Task) startedBy() string {
	var b strings.Builder
	frames := runtime.CallersFrames(t.started[:])
	for {
		f, more := frames.Next()
		if f.Function == "" {
			break
		}
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			break
		}
	}
	return b.String()
}
