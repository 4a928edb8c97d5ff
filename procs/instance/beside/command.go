package beside

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
	of      *Commands
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

// newCommand returns a command of the run, which start starts.
func (b *Commands) newCommand(key string, words []string, limit string, timeout time.Duration) *command {
	user := b.Run.Program().HooksUser
	return &command{of: b, key: key, words: words, user: user, limit: limit, timeout: timeout}
}

// start starts the command when the journal says so. captured reports whether its last lines go to
// done instead of the log of the program. done is called once, on the loop, not before start has
// returned, unless the command is dropped.
func (c *command) start(captured bool) {
	b := c.of
	c.scope = b.Scope.Child()
	if captured {
		capture, err := b.Host.Capture(c.scope)
		if err != nil {
			c.scope.Post(func() { c.end(execprobe.NotRun{Err: fmt.Errorf("capture its output: %w", err)}) })
			return
		}
		c.capture = capture
	}
	b.Run.Save()
	b.AfterSaving(func(error) {
		if !c.over && !b.Scope.Closed() {
			if c.timeout > 0 {
				c.timer = c.scope.After(c.timeout+host.KillPause, c.timedOut)
			}
			c.stop = b.Run.Checks().Check(c.spec, c.end)
		}
	})
}

// timedOut handles the end of its time-out. Neither the wait for an earlier check nor the time in
// the queue counts for the command itself. Since a check may be unkillable, the wait has a limit of
// its own.
func (c *command) timedOut() {
	checks := c.of.Run.Checks()
	pending, _, _ := checks.Current()
	var err error
	startedAt := checks.StartedAt()
	switch rest := startedAt + c.timeout - c.of.now(); {
	case !c.begun:
		why := cmp.Or(checks.Unkillable(), "it does not end")
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
	shift(c.timer, by, c.of.now())
}

// spec returns the specification of its process, which is started now.
func (c *command) spec() *host.SpawnSpec {
	r := c.of.Run
	c.begun = true
	c.of.running++
	if c.timeout > 0 {
		c.timer.Reset(c.timeout)
	}
	var output func(uint32) (int, error)
	if c.capture != nil {
		output = func(uint32) (int, error) { return c.capture.Writer() }
	}
	spec := r.Spec(c.words, output)
	spec.User = c.user
	if p := r.Main(); p != nil {
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
	c.of.running--
	c.of.endedAt = c.of.now()
}

// commandLines is how many of the last lines of a command that failed are shown: checks often print
// more than the mistake.
const commandLines = 20

// end handles its result.
func (c *command) end(err error) {
	if c.over {
		return
	}
	c.finish()
	var output []string
	if c.capture != nil {
		text, cut := c.capture.Tail()
		output = eventlog.LastLines(text, cut, commandLines)
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

// shift moves a timer that is active. t may be nil.
func shift(t *loop.Timer, by, now time.Duration) {
	if t.Active() && by != 0 {
		t.Reset(t.Due() + by - now)
	}
}
