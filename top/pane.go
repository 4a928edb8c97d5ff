package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

const (
	// settleTime is how long the cursor rests on a program before its pane is opened: whoever runs
	// through the table does not open a log for each row.
	settleTime = 150 * time.Millisecond

	refreshPeriod = time.Second // at most so often a text is read anew
)

// A kind says what a pane shows.
type kind int

const (
	noPane kind = iota
	logPane
	whyPane
	treePane
	eventsPane
	allEventsPane
	graphPane
	helpPane
)

// A pane shows something about one program, or about all, below the table or in its place.
type pane struct {
	kind    kind
	of      id  // for graphPane where it begins
	number  int // counts what was opened, so that answers for another pane are known
	full    bool
	focused bool // it has the keys that move
	pager   pager
	cancel  context.CancelFunc // ends what it follows
	// A request is under way, and another one is to follow
	reading, again bool
	readAt         time.Time
	found          bool // the graph has scrolled to the program
}

// ofAll reports whether a pane does not depend on the cursor.
func (k kind) ofAll() bool { return k == allEventsPane || k == graphPane || k == helpPane }

// streams reports whether a pane grows at its end.
func (k kind) streams() bool { return k == logPane || k == eventsPane || k == allEventsPane }

// title returns the title of the pane.
func (m *Model) title() string {
	name := terminal.Sanitize(m.pane.of.name)
	if host := m.sources[m.pane.of.source].Host; host != "" {
		name = host + ":" + name
	}
	switch m.pane.kind {
	case logPane:
		return "log of " + name
	case whyPane:
		return "why: " + name
	case treePane:
		return "processes of " + name
	case eventsPane:
		return "events of " + name
	case allEventsPane:
		return "all events"
	case graphPane:
		return "dependencies"
	default:
		return "help"
	}
}

// An openMsg comes when the cursor has rested.
type openMsg struct{ pane int }

// A textMsg has the lines of a pane that does not grow.
type textMsg struct {
	pane  int
	lines []line
	at    int // the line to begin with
	err   error
}

// toggle opens a pane, or closes it if it is open.
func (m *Model) toggle(k kind) tea.Cmd {
	if m.pane.kind == k {
		return m.closePane()
	}
	if len(m.list.shown) == 0 && !k.ofAll() {
		m.say("no program is shown")
		return nil
	}
	m.pane.kind = k
	m.pane.full, m.pane.focused = k.ofAll(), k.ofAll()
	m.pane.of = m.chosen
	return m.moved(m.open())
}

// closePane closes the pane.
func (m *Model) closePane() tea.Cmd {
	m.pane.cancel()
	m.pane = pane{number: m.pane.number + 1, pager: newPager(true), cancel: func() {}}
	return m.moved(nil)
}

// turnTo shows another program in the pane, once the cursor has rested.
func (m *Model) turnTo(of id) tea.Cmd {
	if m.pane.kind == noPane || m.pane.kind.ofAll() {
		return nil
	}
	m.pane.cancel()
	m.pane.of = of
	m.pane.number++
	m.pane.pager = newPager(m.pane.kind.streams())
	msg := openMsg{m.pane.number}
	return m.after(settleTime, func() tea.Msg { return msg })
}

// open begins to read what the pane shows.
func (m *Model) open() tea.Cmd {
	m.pane.cancel()
	m.pane.number++
	m.pane.pager = newPager(m.pane.kind.streams())
	m.pane.reading, m.pane.again, m.pane.found = false, false, false
	ctx, cancel := context.WithCancel(m.ctx)
	m.pane.cancel = cancel
	if !m.pane.kind.streams() {
		return m.readText(0)
	}
	number, of := m.pane.number, m.pane.of
	if m.pane.kind == allEventsPane {
		of.name = ""
	}
	b := newLineQueue(func(joins bool, lines []line) { m.send(linesMsg{number, lines, joins}) })
	if m.pane.kind == logPane {
		go m.guard(func() { m.streamLog(ctx, of, b) })
	} else {
		go m.guard(func() { m.streamEvents(ctx, of, b) })
	}
	return nil
}

// rewrap fits the text of the pane to another width.
func (m *Model) rewrap() tea.Cmd {
	if m.pane.kind == whyPane || m.pane.kind == helpPane {
		return m.readText(0)
	}
	return nil
}

// refreshPane reads the text of the pane anew, when something has changed in a source.
func (m *Model) refreshPane(source int) tea.Cmd {
	switch m.pane.kind {
	case whyPane, treePane, graphPane:
	default:
		return nil
	}
	if m.pane.of.source != source {
		return nil
	}
	if m.pane.reading {
		m.pane.again = true
		return nil
	}
	return m.readText(max(0, refreshPeriod-m.now().Sub(m.pane.readAt)))
}

// readText reads the text of the pane in d.
func (m *Model) readText(d time.Duration) tea.Cmd {
	m.pane.reading = true
	number, k, of, width := m.pane.number, m.pane.kind, m.pane.of, m.width
	client, ctx := m.sources[of.source].Client, m.ctx
	states := map[string][]string{}
	if k == graphPane {
		for _, p := range m.list.all {
			if p.source == of.source {
				states[programOf(p.name)] = append(states[programOf(p.name)], p.state)
			}
		}
	}
	names := m.names
	read := func() tea.Msg {
		msg := textMsg{pane: number}
		switch k {
		case whyPane:
			var all []control.Why
			if all, msg.err = client.Why(ctx, []string{of.name}); len(all) > 0 {
				msg.lines = textLines(wrap(all[0].Text, width))
			}
		case treePane:
			var all []control.ProcessTree
			if all, msg.err = client.Tree(ctx, []string{of.name}); msg.err == nil {
				msg.lines = textLines(strings.Split(strings.TrimRight(report.Tree(all), "\n"), "\n"))
			}
		case graphPane:
			var all []control.Configured
			var g graph
			if all, msg.err = client.Config(ctx, names); msg.err == nil {
				if g, msg.err = readGraph(all, states); msg.err == nil {
					msg.lines, msg.at = g.lines(programOf(of.name))
				}
			}
		default:
			msg.lines = textLines(wrap(helpText, width))
		}
		return msg
	}
	if d <= 0 {
		return read
	}
	return m.after(d, read)
}

// programOf returns the program of an instance: web of web@2.
func programOf(instance string) string {
	name, _, _ := strings.Cut(instance, "@")
	return name
}

func textLines(texts []string) []line {
	lines := make([]line, len(texts))
	for i, text := range texts {
		lines[i].text = text
	}
	return lines
}

// gotText takes over the text of a pane.
func (m *Model) gotText(msg textMsg) tea.Cmd {
	if msg.pane != m.pane.number {
		return nil
	}
	m.pane.reading, m.pane.readAt = false, m.now()
	if msg.err != nil {
		if len(m.pane.pager.lines) == 0 {
			m.pane.pager.set([]line{{text: oneLine(msg.err.Error()), colour: terminal.Red}})
		} else {
			m.status = errorMessage(fmt.Errorf("%s: %w", m.title(), msg.err))
		}
	} else {
		m.pane.pager.set(msg.lines)
		if !m.pane.found {
			m.pane.found = true
			m.pane.pager.top = max(0, msg.at-m.pane.pager.height/2)
			m.pane.pager.match = msg.at
			if m.pane.kind != graphPane {
				m.pane.pager.match = -1
			}
		}
	}
	if m.pane.again {
		m.pane.again = false
		return m.refreshPane(m.pane.of.source)
	}
	return nil
}
