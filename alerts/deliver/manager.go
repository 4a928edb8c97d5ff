// Package deliver delivers alerts to the receivers of the configuration.
//
// A [Manager] has a worker for each receiver: a goroutine with its [alerts.Queue], which delivers
// one after the other, and one that reads the event log. So a receiver that does not answer delays
// no other, and the event log is its buffer. The state of a receiver is a file in the runtime
// directory. It is saved when a delivery has arrived: after a crash, what was under way is
// delivered again. Without receivers there are no goroutines and no files.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"superd/alerts"
	"superd/config"
	"superd/config/receiver"
	"superd/procs/eventlog"
)

// Threads is how many threads a manager with receivers may block in the kernel.
const Threads = 2

// Options are what a manager needs. Its functions may be called from any goroutine.
type Options struct {
	Dir     string // of the states, in the runtime directory; made with the first one
	Machine string // name of this host
	Version string // of superd
	Events  *eventlog.Log
	Log     *slog.Logger
	// Execute runs the command of a receiver. It returns when that has ended, when ctx is done or
	// after the receiver's time-out.
	Execute func(ctx context.Context, c Command) (output string, err error)
	// Adopt kills what a predecessor has left in the process tree of a receiver's command.
	Adopt func(name, tree string)
	// Release removes the process tree of a receiver that is no more.
	Release func(name string)
	// Exists returns which of the instances there are; nil if ctx is done.
	Exists func(ctx context.Context, instances []string) map[string]bool
	// Begun is called when there is a first receiver.
	Begun func()
}

// A Command is the command of a receiver, to be executed.
type Command struct {
	Receiver *receiver.Receiver
	Key      string // idempotency key
	Body     []byte // its standard input
	// SaveTree saves the path of its process tree. Execute calls it before the start, on its own
	// goroutine: that has the state.
	SaveTree func(path string)
}

// ErrEnding is the result of a command that was to start or ran when superd ends.
var ErrEnding = errors.New("superd ends")

// A Manager has the receivers.
type Manager struct {
	Options
	files  files
	config atomic.Pointer[config.Config] // in force

	mu      sync.Mutex
	workers map[string]*worker       // by name
	endings map[string]chan struct{} // of the last worker of each name; closed when it has ended
	invalid []*receiver.Receiver     // of the configuration in force
	applied bool
	closed  bool
}

// New returns a manager without receivers.
func New(o Options) *Manager {
	return &Manager{
		Options: o, files: files{dir: o.Dir, blocking: make(chan struct{}, Threads)},
		workers: map[string]*worker{}, endings: map[string]chan struct{}{},
	}
}

// Apply puts the receivers of a configuration in force. It does not block. A receiver that is new
// begins with events after this.
func (m *Manager) Apply(c *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.config.Store(c)
	wanted := map[string]*receiver.Receiver{}
	m.invalid = nil
	for _, r := range c.Receivers {
		if len(r.Invalid) > 0 {
			m.invalid = append(m.invalid, r)
		} else {
			wanted[r.Name] = r
		}
	}
	if len(wanted) > 0 && len(m.workers) == 0 {
		m.Begun()
	}
	for name, w := range m.workers {
		switch r := wanted[name]; {
		case r != nil && receiver.Same(r, w.receiver):
			delete(wanted, name)
			select {
			case w.changed <- struct{}{}:
			default:
			}
		case r != nil:
			w.stop()
			delete(m.workers, name)
		default:
			w.stop()
			delete(m.workers, name)
			if !slices.ContainsFunc(m.invalid, func(r *receiver.Receiver) bool { return r.Name == name }) {
				m.then(name, func() { m.forget(name) })
			}
		}
	}
	newest := m.Events.Newest()
	for _, r := range wanted {
		m.start(r, newest)
	}
	if !m.applied {
		m.applied = true
		go m.removeOthers(c)
	}
}

// then runs f when the last worker of that name has ended.
func (m *Manager) then(name string, f func()) {
	before, ended := m.endings[name], make(chan struct{})
	m.endings[name] = ended
	go func() {
		if before != nil {
			<-before
		}
		f()
		m.mu.Lock()
		defer m.mu.Unlock()
		close(ended)
		if m.endings[name] == ended {
			delete(m.endings, name)
		}
	}()
}

// start starts the worker of a receiver.
func (m *Manager) start(r *receiver.Receiver, newest uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{
		manager: m, receiver: r, stop: cancel,
		tests: make(chan testRequest), changed: make(chan struct{}, 1), status: statusOf(r),
	}
	if r.Webhook != "" {
		w.webhook = newWebhook(r, m.Version)
	}
	m.workers[r.Name] = w
	m.then(r.Name, func() { w.run(ctx, newest) })
}

// forget removes the state of a receiver that is no more.
func (m *Manager) forget(name string) {
	m.Release(name)
	if err := m.files.remove(name); err != nil {
		m.Log.Warn("state of a receiver of alerts not removed", "receiver", name, "error", err)
	}
}

// removeOthers removes the states of receivers that were removed while superd did not run. What a
// predecessor has left of their commands, and of those of receivers with mistakes, is killed.
func (m *Manager) removeOthers(c *config.Config) {
	names, err := m.files.names()
	if err != nil {
		m.Log.Warn("states of receivers of alerts not listed", "error", err)
	}
	for _, name := range names {
		i := slices.IndexFunc(c.Receivers, func(r *receiver.Receiver) bool { return r.Name == name })
		if i >= 0 && len(c.Receivers[i].Invalid) == 0 {
			continue
		}
		if state, ok, err := m.files.load(name); err == nil && ok && state.Tree != "" {
			m.Adopt(name, state.Tree)
		}
		if i >= 0 {
			continue // it has a mistake, and continues when that is corrected
		}
		m.mu.Lock()
		if m.workers[name] == nil {
			m.then(name, func() { m.forget(name) })
		}
		m.mu.Unlock()
	}
}

// scope returns which programs a receiver is told of, by the configuration in force.
func (m *Manager) scope(r *receiver.Receiver) alerts.Scope {
	program := func(name string) *alerts.Program {
		p := m.config.Load().Program(name)
		if p == nil {
			return nil
		}
		return &alerts.Program{
			Groups: p.Groups, OneShot: p.Type == config.TypeOneshot, SuccessCodes: p.SuccessExitCodes,
		}
	}
	return alerts.Scope{
		Program: program,
		Includes: func(name, instance string) bool {
			var groups []string
			if p := program(name); p != nil {
				groups = p.Groups
			}
			return alerts.Selects(r.Programs, name, instance, groups)
		},
	}
}

// statusOf returns the status of a receiver of which nothing is known yet.
func statusOf(r *receiver.Receiver) Status {
	s := Status{Name: r.Name, Exec: len(r.Exec) > 0}
	if s.Exec {
		s.Target = strings.Join(r.Exec, " ")
	} else if u, err := url.Parse(r.Webhook); err == nil && r.Webhook != "" {
		s.Target = u.Scheme + "://" + u.Host // the rest may be secret
		if len(u.Path) > 1 || u.RawQuery != "" {
			s.Target += "/…"
		}
	}
	if len(r.Invalid) > 0 {
		s.Problem = r.Invalid[0].Error()
	}
	return s
}

// Status returns the status of all receivers, by name.
func (m *Manager) Status() []Status {
	newest := m.Events.Newest()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Status, 0, len(m.workers)+len(m.invalid))
	for _, w := range m.workers {
		w.mu.Lock()
		s := w.status
		w.mu.Unlock()
		s.Lag = newest - min(s.Cursor, newest)
		all = append(all, s)
	}
	for _, r := range m.invalid {
		all = append(all, statusOf(r))
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// An UnknownError says that there is no receiver of that name.
type UnknownError struct {
	Name  string
	Known []string // names that there are
}

func (e *UnknownError) Error() string { return fmt.Sprintf("no receiver is named %q", e.Name) }

// An InvalidError says that a receiver has a mistake.
type InvalidError struct{ Name, Problem string }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the receiver %s has a mistake: %s", e.Name, e.Problem)
}

// errBusy is the result of a test that could not begin.
var errBusy = errors.New("test the receiver: it is busy with another delivery, or superd ends")

// Test makes a test delivery to a receiver, after one that is under way. The error says why it was
// not made.
func (m *Manager) Test(ctx context.Context, name string) (TestResult, error) {
	m.mu.Lock()
	w := m.workers[name]
	m.mu.Unlock()
	if w == nil {
		return TestResult{}, m.whyNot(name)
	}
	t := testRequest{ctx, make(chan TestResult, 1)}
	m.mu.Lock()
	ended := m.endings[name]
	m.mu.Unlock()
	select {
	case w.tests <- t:
	case <-ended:
		return TestResult{}, errBusy
	case <-ctx.Done():
		return TestResult{}, errBusy
	}
	select {
	case result := <-t.result:
		return result, nil
	case <-ctx.Done():
		return TestResult{}, ctx.Err()
	}
}

// whyNot returns why a receiver has no worker.
func (m *Manager) whyNot(name string) error {
	unknown := &UnknownError{Name: name}
	for _, s := range m.Status() {
		if s.Name == name && s.Problem != "" {
			return &InvalidError{name, s.Problem}
		}
		unknown.Known = append(unknown.Known, s.Name)
	}
	return unknown
}

// execute runs the command of a receiver.
func (m *Manager) execute(ctx context.Context, w *worker, key string, body []byte) (string, error) {
	return m.Execute(ctx, Command{w.receiver, key, body, w.saveTree})
}

// Close ends all workers, for at most patience. What they have not delivered, a successor does.
func (m *Manager) Close(patience time.Duration) {
	m.mu.Lock()
	m.closed = true
	var waiting []chan struct{}
	for _, w := range m.workers {
		w.stop()
	}
	for _, ended := range m.endings {
		waiting = append(waiting, ended)
	}
	m.mu.Unlock()
	late := time.After(patience)
	for _, ended := range waiting {
		select {
		case <-ended:
		case <-late:
			return
		}
	}
}
