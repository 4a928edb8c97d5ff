package top

import (
	"errors"
	"net/http"
	"time"

	tea "charm.land/bubbletea/v2"

	"superd/control"
)

const (
	// Periods at which the processor time and the memory of visible rows are read. The period is
	// doubled as long as nothing has changed, so that an idle screen costs nothing.
	shortPeriod  = 2 * time.Second
	remotePeriod = 10 * time.Second // by ssh, where a request is a process
	longPeriod   = time.Minute

	// leastPause is the least time between two requests, and idleFactor how many times as long as a
	// request takes: superd and this process are never busy with more than a twentieth of the time.
	leastPause = 500 * time.Millisecond
	idleFactor = 20

	// maxQuery bounds the names in a request, in bytes. superd accepts 16 KiB.
	maxQuery = 8000
)

// A feedState is what is known about the answers of a source.
type feedState struct {
	waiting bool   // nothing has come yet
	lost    string // why it does not answer; "": it does
	lostAt  time.Time

	whole    bool                // the next request is for all programs
	stale    map[string]struct{} // instances that have changed since they were read
	reading  bool
	again    bool          // read again when the request is done
	timer    int           // number of the timer that counts; older ones do nothing
	due      time.Time     // when it fires; zero: none is set
	interval time.Duration // until the next reading if nothing happens
	readAt   time.Time     // end of the last request
	took     time.Duration // how long it took
	parked   bool          // it waits for the focus
}

// A pollMsg comes when a request is due.
type pollMsg struct{ source, timer int }

// A statusMsg is the answer to a request.
type statusMsg struct {
	source int
	all    []control.Status
	at     time.Time
	took   time.Duration
	err    error
}

func (m *Model) shortest(source int) time.Duration {
	if m.sources[source].Host != "" {
		return remotePeriod
	}
	return shortPeriod
}

// schedule makes a request in d, unless an earlier one is due.
func (m *Model) schedule(source int, d time.Duration) tea.Cmd {
	f, at := &m.feeds[source], m.now().Add(d)
	if f.lost != "" || !f.due.IsZero() && !f.due.After(at) {
		return nil
	}
	f.timer++
	f.due = at
	msg := pollMsg{source, f.timer}
	return m.after(d, func() tea.Msg { return msg })
}

// soon makes a request as soon as the last one is long enough ago.
func (m *Model) soon(source int) tea.Cmd {
	f := &m.feeds[source]
	if f.reading {
		f.again = true
		return nil
	}
	pause := max(leastPause, idleFactor*f.took)
	return m.schedule(source, max(0, f.readAt.Add(pause).Sub(m.now())))
}

// brief takes over what a source has told.
func (m *Model) brief(msg briefMsg) tea.Cmd {
	f := &m.feeds[msg.source]
	f.waiting = false
	if f.lost != "" {
		f.lost, f.whole, f.due = "", true, time.Time{}
		m.say("superd answers again")
	}
	f.interval = m.shortest(msg.source)
	if msg.all == nil {
		return m.soon(msg.source)
	}
	if f.stale == nil {
		f.stale = map[string]struct{}{}
	}
	changed := m.list.setBrief(msg.source, m.sources[msg.source].Host, msg.all)
	for _, name := range changed {
		f.stale[name] = struct{}{}
	}
	return batch(m.arrange(), m.soon(msg.source), m.refreshPane(msg.source))
}

// poll makes a request that is due.
func (m *Model) poll(msg pollMsg) tea.Cmd {
	f := &m.feeds[msg.source]
	if msg.timer != f.timer || f.due.IsZero() {
		return nil
	}
	f.due = time.Time{}
	if m.blurred && len(f.stale) == 0 && !f.whole {
		f.parked = true
		return nil
	}
	names := m.request(msg.source)
	if names != nil && len(names) == 0 {
		return m.schedule(msg.source, f.interval)
	}
	f.reading, f.again, f.whole = true, false, false
	clear(f.stale)
	client, ctx := m.sources[msg.source].Client, m.ctx
	return func() tea.Msg {
		begun := time.Now()
		all, err := client.Status(ctx, names)
		now := time.Now()
		return statusMsg{source: msg.source, all: all, at: now, took: now.Sub(begun), err: err}
	}
}

// request returns the names to ask for: the visible ones and those that have changed, or those of
// the command line if all are needed. The latter are nil for all programs.
func (m *Model) request(source int) []string {
	f := &m.feeds[source]
	all := m.names
	if len(all) == 0 {
		all = nil
	}
	if f.whole || m.list.order.live() {
		return all
	}
	names, size := []string{}, 0
	add := func(name string) {
		// A character may be escaped
		names, size = append(names, name), size+len("&name=")+3*len(name)
	}
	for name := range f.stale {
		add(name)
	}
	for _, p := range m.visible() {
		if _, is := f.stale[p.name]; p.source == source && !is {
			add(p.name)
		}
	}
	if size > maxQuery {
		return all
	}
	return names
}

// gotStatus takes over an answer.
func (m *Model) gotStatus(msg statusMsg) tea.Cmd {
	f := &m.feeds[msg.source]
	f.reading, f.readAt, f.took = false, msg.at, msg.took
	if msg.err != nil {
		// An instance is gone, or superd is: the watch tells.
		f.interval = min(2*f.interval, longPeriod)
		if refused, ok := errors.AsType[*control.Error](msg.err); ok && refused.Status != http.StatusNotFound {
			m.status = errorMessage(msg.err)
		}
		f.whole = true
		if f.again {
			f.again = false
			return m.soon(msg.source)
		}
		return m.schedule(msg.source, max(f.interval, idleFactor*f.took))
	}
	differs := m.list.setStatus(msg.source, msg.all, msg.at)
	if differs {
		f.interval = m.shortest(msg.source)
	} else {
		f.interval = min(2*f.interval, longPeriod)
	}
	var cmds []tea.Cmd
	if differs {
		cmds = append(cmds, m.arrange(), m.refreshPane(msg.source))
	}
	if f.again || len(f.stale) > 0 {
		f.again = false
		cmds = append(cmds, m.soon(msg.source))
	}
	return batch(append(cmds, m.schedule(msg.source, max(f.interval, idleFactor*f.took)))...)
}

// readVisible makes a request if a visible row was never read, or long ago.
func (m *Model) readVisible() tea.Cmd {
	var cmds []tea.Cmd
	for i := range m.feeds {
		f := &m.feeds[i]
		if f.waiting || f.whole {
			continue
		}
		for _, p := range m.visible() {
			if p.source == i && m.now().Sub(p.readAt) > f.interval+shortPeriod {
				f.interval = m.shortest(i)
				cmds = append(cmds, m.soon(i))
				break
			}
		}
	}
	return batch(cmds...)
}

// wake makes the requests that waited for the focus.
func (m *Model) wake() tea.Cmd {
	var cmds []tea.Cmd
	for i := range m.feeds {
		if m.feeds[i].parked {
			m.feeds[i].parked = false
			m.feeds[i].interval = m.shortest(i)
			cmds = append(cmds, m.soon(i))
		}
	}
	return batch(cmds...)
}
