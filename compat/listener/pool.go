package listener

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// A pool has the processes of a listener. Each event goes to the first of them that is ready.
//
// The only process of a pool ends with it. One of several is started again: superd would end the
// others with it, while they are at work.
type pool struct {
	*Options
	ctx     context.Context
	reports chan func() // what has happened to a process, for the goroutine of Run
	queue   queue
	members []*member

	dropsTold bool // that events are dropped was said since one was sent

	stopping bool      // no process is started any more
	stopBy   os.Signal // the last one that was passed on
	over     bool      // all processes have ended, with status or err
	status   int
	err      error
}

// A member is one of the processes, and what it has to do with the next one in its place.
type member struct {
	name string
	protocol
	child     *child   // nil: it does not run
	current   numbered // the event whose result is due
	violation error    // nil: the process keeps to the protocol
	pause     time.Duration
	started   time.Time
}

const (
	killDelay    = 10 * time.Second // for a process that violates the protocol to end
	firstRestart = time.Second      // pause before a process is started again
	lastRestart  = time.Minute      // the longest such pause
	steadyRun    = 10 * time.Second // a run that resets the pause
)

func newPool(ctx context.Context, o *Options) *pool {
	p := &pool{Options: o, ctx: ctx, reports: make(chan func()), queue: queue{limit: o.Buffer}}
	for i := range o.Processes {
		m := &member{name: o.Process, pause: firstRestart}
		if o.Processes > 1 {
			m.name = fmt.Sprintf("%s_%02d", o.Process, i)
		}
		p.members = append(p.members, m)
	}
	return p
}

// report has the goroutine of Run call f.
func (p *pool) report(f func()) {
	select {
	case p.reports <- f:
	case <-p.ctx.Done():
	}
}

// start starts all processes. After an error those that run are ended.
func (p *pool) start() error {
	for _, m := range p.members {
		if err := p.startMember(m); err != nil {
			for _, m := range p.members {
				if m.child != nil {
					m.child.signal(terminate)
				}
			}
			return err
		}
	}
	return nil
}

func (p *pool) startMember(m *member) error {
	c, err := start(p.ctx, p.Options, m.name)
	if err != nil {
		return err
	}
	m.protocol, m.child, m.violation, m.started = protocol{}, c, nil, time.Now()
	go c.read(func(text []byte) { p.report(func() { p.read(m, c, text) }) })
	go func() {
		status := c.wait()
		p.report(func() { p.ended(m, status) })
	}()
	return nil
}

// read takes what a process has written.
func (p *pool) read(m *member, c *child, text []byte) {
	if m.child != c || m.violation != nil {
		return
	}
	result, done, err := m.protocol.read(text)
	if done {
		if result != "OK" {
			p.Log("event %d (%s) was rejected with %s, and is sent again", m.current.serial, m.current.Name,
				excerpt([]byte(result)))
			p.queue.putBack(m.current)
		}
		m.current = numbered{}
	}
	if err == nil {
		return
	}
	// supervisord keeps such a process and sends it nothing any more. Ended it is restarted.
	m.violation = fmt.Errorf("end event listener: %w", err)
	c.signal(terminate)
	time.AfterFunc(killDelay, c.kill)
}

// signal passes on a signal that superd, or a user, has sent.
func (p *pool) signal(sig os.Signal) {
	p.stopBy = sig
	p.stopping = p.stopping || slices.Contains(stops, sig)
	for _, m := range p.members {
		if m.child != nil {
			m.child.signal(sig)
		}
	}
	p.finish()
}

// ended puts back the event that a process had, and starts it again after a pause.
func (p *pool) ended(m *member, status int) {
	m.child = nil
	if len(p.members) == 1 {
		p.over, p.status, p.err = true, status, m.violation
		return
	}
	if m.current.Name != "" {
		p.queue.putBack(m.current)
		m.current = numbered{}
	}
	p.status = status
	if p.stopBy != nil && status == signalStatus(p.stopBy) {
		p.stopping = true // the signal that stops the program is any
	}
	if p.stopping {
		p.finish()
		return
	}
	if time.Since(m.started) >= steadyRun {
		m.pause = firstRestart
	}
	if m.violation != nil {
		p.Log("%s: %v", m.name, m.violation)
	}
	p.Log("%s has ended with status %d, and is started again after %v", m.name, status, m.pause)
	p.restartLater(m)
}

func (p *pool) restartLater(m *member) {
	pause := m.pause
	m.pause = min(2*m.pause, lastRestart)
	time.AfterFunc(pause, func() {
		p.report(func() {
			if p.stopping {
				return
			}
			if err := p.startMember(m); err != nil {
				p.Log("start event listener %s: %v; trying again after %v", m.name, err, m.pause)
				p.restartLater(m)
			}
		})
	})
}

// finish ends the pool if it stops and no process runs.
func (p *pool) finish() {
	if p.stopping && !slices.ContainsFunc(p.members, func(m *member) bool { return m.child != nil }) {
		p.over = true
	}
}

// dispatch sends events as long as a process is ready for one.
func (p *pool) dispatch() {
	if p.queue.dropped > 0 && !p.dropsTold {
		p.dropsTold = true
		p.Log("the oldest event is dropped, since the listener is not ready and --buffer is %d", p.Buffer)
	}
	for {
		at := slices.IndexFunc(p.members, (*member).canTake)
		if at < 0 {
			return
		}
		e, ok := p.queue.next()
		if !ok {
			return
		}
		if n := p.queue.takeDropped(); n > 1 {
			p.Log("%d events were dropped", n)
		}
		p.dropsTold = false
		m := p.members[at]
		m.current = e
		m.protocol.sent()
		m.child.input <- e.envelope(p.Server, p.Pool)
	}
}

// canTake reports whether a process waits for an event. One that answers without reading gets no
// more than it has room for.
func (m *member) canTake() bool {
	return m.child != nil && m.phase == ready && m.violation == nil && len(m.child.input) < cap(m.child.input)
}
