package instance

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/execprobe"
	"superd/procs/host"
)

// A command runs one command beside the main process: for a reload, a stop, or after the start. It
// has the process tree of the exec checks, so it ends with all its processes, and a successor ends
// what is left of it. Until its end, the run is not over.
type command struct {
	run     *run
	key     string // of the configuration: check_command
	words   []string
	user    string        // that it runs as; empty: that of the program
	limit   string        // key of its time-out
	timeout time.Duration // 0: something else bounds it
	done    func(err error, output []string)

	scope   *loop.Scope
	capture host.Capture // nil: it writes to the log of the program
	timer   *loop.Timer  // ends the wait for its start, then the command; nil: neither has a limit
	stop    func() (begun bool)
	begun   bool // no check runs before it
	over    bool // its result is known, or does not matter
}

// start starts the command when the journal says so. captured reports whether its last lines go to
// done instead of the log of the program. done is called once, on the loop, not before start has
// returned, unless the command is dropped.
func (c *command) start(captured bool) {
	in := c.run.in
	c.scope = in.Scope.Child()
	if captured {
		capture, err := in.Env.Host.Capture(c.scope)
		if err != nil {
			c.scope.Post(func() { c.end(execprobe.NotRun{Err: fmt.Errorf("capture its output: %w", err)}) })
			return
		}
		c.capture = capture
	}
	in.Save()
	in.Env.Records.AfterSaving(func(error) {
		if !c.over && !in.Closed() {
			if c.timeout > 0 {
				c.timer = c.scope.After(c.timeout+host.KillPause, c.timedOut)
			}
			c.stop = in.execChecks("").Check(c.spec, c.end)
		}
	})
}

// timedOut handles the end of its time-out. Neither the wait for an earlier check nor the time in
// the queue counts for the command itself. Since a check may be unkillable, the wait has a limit of
// its own.
func (c *command) timedOut() {
	in := c.run.in
	pending, _, _ := in.checks.Current()
	var err error
	startedAt := in.checks.StartedAt()
	switch rest := startedAt + c.timeout - in.Env.Loop.Now(); {
	case !c.begun:
		why := cmp.Or(in.checks.Unkillable(), "it does not end")
		err = execprobe.NotRun{Err: fmt.Errorf("waited for an earlier check: %s", why)}
	case pending != nil && pending.Queued():
		c.timer.Reset(c.timeout) // the machine is slow, not the command
		return
	case startedAt != 0 && rest > 0:
		c.timer.Reset(rest)
		return
	default:
		err = fmt.Errorf("still running after %s %s", c.limit, words.Duration(c.timeout))
	}
	stop := c.stop
	c.end(err)
	stop() // a worker that hangs returns late
}

// shift moves its time-out. c may be nil.
func (c *command) shift(by time.Duration) {
	if c == nil {
		return
	}
	if c.timeout > 0 {
		c.timeout += by
	}
	if c.timer.Active() {
		c.timer.Reset(c.timer.Due() + by - c.run.in.Env.Loop.Now())
	}
}

// spec returns the specification of its process, which is started now.
func (c *command) spec() *host.SpawnSpec {
	r := c.run
	c.begun = true
	r.ownBeside().commands++
	if c.timeout > 0 {
		c.timer.Reset(c.timeout)
	}
	var output func(uint32) (int, error)
	if c.capture != nil {
		output = func(uint32) (int, error) { return c.capture.Writer() }
	}
	spec := commandSpec(r, c.words, output)
	spec.User = c.user
	if p := r.main.process; p != nil {
		spec.Own.Set("MAINPID", strconv.Itoa(p.Pid()))
	}
	return spec
}

// drop ends the command. done is not called.
func (c *command) drop() {
	if c.over {
		return
	}
	c.finish()
	c.scope.Close()
	if c.stop != nil {
		c.stop()
	}
}

// finish records that the command is over.
func (c *command) finish() {
	c.over = true
	if !c.begun {
		return
	}
	b := c.run.beside
	b.commands--
	b.commandAt = c.run.in.Env.Loop.Now()
}

// end handles its result.
func (c *command) end(err error) {
	if c.over {
		return
	}
	c.finish()
	var output []string
	if c.capture != nil {
		text, cut := c.capture.Tail()
		output = eventlog.LastLines(text, cut, outputLines)
	}
	c.scope.Close()
	if _, notRun := errors.AsType[execprobe.NotRun](err); notRun {
		err = fmt.Errorf("could not be run: %w", err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name(), err)
	}
	c.done(err, output)
}

// name returns the key and the command.
func (c *command) name() string { return c.key + " " + strings.Join(c.words, " ") }

// stage returns what the command does.
func (c *command) stage() string {
	switch {
	case c.over:
		return c.name() + ": not started in a resource shortage, and tried again"
	case !c.begun:
		return c.name() + ": waits for a check"
	}
	return "running " + c.name()
}
