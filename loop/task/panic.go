package task

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Panic is a panic of a task: the value with which it continues in the parent or in the loop, and
// the error that Join returns.
type Panic struct {
	Value any // original panic value
	// Stack of the task, then of each parent that it passed through, and where each was started
	Stack string
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

// catch records the return or the panic of t; its coroutine defers it.
func (t *Task) catch() {
	t.state = returned
	if t.sched.host == t { // the guest has ended the goroutine, and with it this task
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

// raise continues the panic of a child in t.
func (t *Task) raise(p *Panic) {
	switch {
	case t.fault != nil: // the first one counts
	case t.state == returned:
		t.fault, t.err = p, p
		t.cancelChildren()
	default:
		t.fault = p
		t.interrupt()
	}
}

// reraise panics with the panic of a child.
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
