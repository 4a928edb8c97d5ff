// Package command runs the commands of receivers of alerts, through the host and on the loop.
//
// A command has a process tree of its own, as an exec check has. It is killed with all its
// processes after the time-out of its receiver, and a successor kills what a crash of superd has
// left.
package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"superd/alerts/deliver"
	"superd/config"
	"superd/config/document"
	"superd/config/environ"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/execprobe"
	"superd/procs/host"
)

// prefix begins the name of a receiver's process tree. No instance has such a name.
const prefix = "notify:"

// Options are what commands need.
type Options struct {
	Scope       *loop.Scope
	Host        host.Host
	Reaper      execprobe.Reaper
	Log         *slog.Logger
	Environment environ.Variables // environment that programs inherit
	RuntimeDir  string
	// Body returns a new descriptor from which text can be read. It is called off the loop.
	Body func(text []byte) (fd int, err error)
}

// Commands run the commands of all receivers, one at a time for each. Their state lives on the
// loop.
type Commands struct {
	Options
	runners map[string]*runner // by receiver
	ending  bool               // no command is started any more
}

// A runner runs the commands of one receiver.
type runner struct {
	*execprobe.Runner
	under    *execution // command under way; nil without one
	released bool       // the receiver is no more, and has not come back
}

// An execution is one command that was started. Its saves are received by its Execute.
type execution struct {
	stop  func() (begun bool)
	saves chan save // of capacity 2, so that the loop never waits
	over  bool      // Execute has returned, and saves nothing any more
}

// A save asks to save the path of a process tree, and then to call f on the loop.
type save struct {
	path string
	f    func()
}

// New returns commands, of which none runs.
func New(o Options) *Commands {
	return &Commands{Options: o, runners: map[string]*runner{}}
}

// runner returns the runner of a receiver, and makes it on first use.
func (c *Commands) runner(name, tree string) *runner {
	if r := c.runners[name]; r != nil {
		r.released = false
		return r
	}
	r := &runner{}
	r.Runner = execprobe.New(execprobe.Options{
		Instance: prefix + name, TreePath: tree, Scope: c.Scope, Host: c.Host, Reaper: c.Reaper, Log: c.Log,
		AfterSaving: func(f func(error)) {
			if r.under == nil || r.under.over {
				f(nil)
				return
			}
			r.under.saves <- save{r.TreePath(), func() { f(nil) }}
		},
		OnUnkillable: func(string, string) {}, // the runner logs it, and the next command waits
	})
	c.runners[name] = r
	return r
}

// Adopt makes the runner of a receiver and kills what a predecessor has left in its tree, if it had
// one. It may be called from any goroutine.
func (c *Commands) Adopt(name, tree string) {
	c.Scope.Post(func() {
		if tree != "" && c.runners[name] == nil {
			c.runner(name, tree).CleanUp(func() {})
		}
	})
}

// Release removes the tree of a receiver that is no more, when no process of it lives. It may be
// called from any goroutine.
func (c *Commands) Release(name string) {
	c.Scope.Post(func() {
		r := c.runners[name]
		if r == nil {
			return
		}
		r.released = true
		r.WhenIdle(func() {
			if r.released {
				delete(c.runners, name)
				r.Remove()
			}
		})
	})
}

// A result is how a command has ended.
type result struct {
	output string
	err    error
}

// Execute runs the command of a receiver and returns its last output. It is called off the loop,
// and returns when the command has ended with all its processes, or can't be killed in time.
func (c *Commands) Execute(ctx context.Context, cmd deliver.Command) (output string, err error) {
	results := make(chan result, 1) // the first one counts
	end := func(r result) {
		select {
		case results <- r:
		default:
		}
	}
	stop := make(chan struct{})
	e := &execution{saves: make(chan save, 2)}
	c.Scope.Post(func() { c.start(cmd, e, stop, end) })
	defer c.Scope.Post(e.finish)
	var late <-chan time.Time
	for done := ctx.Done(); ; {
		select {
		case r := <-results:
			return r.output, r.err
		case s := <-e.saves:
			cmd.SaveTree(s.path)
			c.Scope.Post(s.f)
		case <-done:
			done = nil
			close(stop)
			c.Scope.Post(func() {
				if e.stop != nil {
					e.stop()
				}
			})
			late = time.After(host.KillPause)
		case <-late:
			return "", ctx.Err()
		}
	}
}

// finish ends the saving of the tree: Execute has returned.
func (e *execution) finish() {
	e.over = true
	for {
		select {
		case s := <-e.saves:
			s.f()
		default:
			return
		}
	}
}

// start starts a command on the loop. stop is closed if it is not wanted any more.
func (c *Commands) start(cmd deliver.Command, e *execution, stop <-chan struct{}, end func(result)) {
	r := cmd.Receiver
	select {
	case <-stop:
		end(result{err: deliver.ErrEnding})
		return
	default:
	}
	runner := c.runner(r.Name, "")
	switch why := runner.Unkillable(); {
	case c.ending:
		end(result{err: deliver.ErrEnding})
		return
	case why != "":
		end(result{err: fmt.Errorf("run exec: an earlier command has not ended: %s", why)})
		return
	}
	scope := c.Scope.Child()
	capture, err := c.Host.Capture(scope)
	if err != nil {
		scope.Close()
		end(result{err: fmt.Errorf("run exec: capture its output: %w", err)})
		return
	}
	runner.under = e
	if path := runner.TreePath(); path != "" {
		e.saves <- save{path, func() {}} // its state may have been removed
	}
	var timedOut bool
	e.stop = runner.Check(func() *host.SpawnSpec {
		return c.spec(cmd, func(uint32) (int, error) { return capture.Writer() })
	}, func(err error) {
		text, cut := capture.Tail()
		scope.Close()
		e.stop = nil
		if runner.under == e {
			runner.under = nil
		}
		if cut {
			text = "…" + text
		}
		if timedOut {
			err = fmt.Errorf("still running after timeout %s", words.Duration(r.Timeout))
		}
		switch {
		case err == nil:
		case c.ending && !timedOut:
			err = deliver.ErrEnding
		default:
			err = fmt.Errorf("run exec %s: %w", strings.Join(r.Exec, " "), err)
		}
		end(result{text, err})
	})
	scope.After(r.Timeout, func() {
		timedOut = true
		e.stop()
		// A process that SIGKILL does not end must not hold up the worker
		c.Scope.After(2*host.KillPause, func() {
			end(result{err: fmt.Errorf("run exec %s: killed after timeout %s, and has not ended",
				strings.Join(r.Exec, " "), words.Duration(r.Timeout))})
		})
	})
}

// spec returns the specification of the process of a command.
func (c *Commands) spec(cmd deliver.Command, output func(uint32) (int, error)) *host.SpawnSpec {
	r := cmd.Receiver
	program := config.DefaultProgram(prefix + r.Name)
	program.Command, program.User = r.Exec, r.User
	program.Directory = document.EscapeDollars(r.Dir)
	program.Log.Format = config.LogDirect
	var own environ.Variables
	own.Set("SUPERD_ALERT_KEY", cmd.Key)
	own.Set("SUPERD_INSTANCE", prefix+r.Name)
	own.Set("SUPERD_INVOCATION_ID", newID()) // without it, a scan does not attribute the process
	own.Set("SUPERD_OWNER", c.RuntimeDir)
	own.Set("SUPERD_RECEIVER", r.Name)
	return &host.SpawnSpec{
		Name: prefix + r.Name, Program: program, Environment: c.Environment, Own: own,
		Input:   &host.Outlet{ReadFD: -1, Direct: func(uint32) (int, error) { return c.Body(cmd.Body) }},
		Outputs: []host.Outlet{{ReadFD: -1, Direct: output}},
	}
}

// newID returns an invocation id.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// End kills the commands that run and starts no others. idle is called on the loop when none is
// left, at most after host.KillPause.
func (c *Commands) End(idle func()) {
	c.ending = true
	for _, r := range c.runners {
		if r.under != nil {
			r.under.stop()
		}
	}
	done := false
	finish := func() {
		if done {
			return
		}
		done = true
		for _, r := range c.runners {
			if !r.Busy() {
				r.Remove()
			}
		}
		idle()
	}
	left := 1
	one := func() {
		if left--; left == 0 {
			finish()
		}
	}
	for _, r := range c.runners {
		if r.Busy() {
			left++
			r.WhenIdle(one)
		}
	}
	if left > 1 {
		c.Scope.After(host.KillPause, finish)
	}
	one()
}
