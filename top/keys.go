package top

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"superd/internal/words"
)

// key handles a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case m.prompt != nil:
		p := m.prompt
		cmd, closed := p.key(k)
		if closed && m.prompt == p {
			m.prompt = nil
		}
		return cmd
	case m.confirm != nil:
		c := m.confirm
		m.confirm = nil
		if k.String() == "y" {
			return c.yes()
		}
		m.say("not done")
		return nil
	case m.copying:
		m.copying = false
		m.copy(k.String())
		return nil
	}
	m.status = message{}
	if m.pane.focused {
		if cmd, handled := m.paneKey(k.String()); handled {
			return cmd
		}
	} else if cmd, handled := m.tableKey(k.String()); handled {
		return cmd
	}
	return m.commonKey(k.String())
}

// commonKey handles the keys that do the same wherever the cursor is.
func (m *Model) commonKey(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "ctrl+z":
		m.screen.leave()
		return tea.Suspend
	case "ctrl+l":
		m.screen.clear = true
	case "?", "f1":
		return m.toggle(helpPane)
	case "l":
		return m.toggle(logPane)
	case "w":
		return m.toggle(whyPane)
	case "t":
		return m.toggle(treePane)
	case "e":
		return m.toggle(eventsPane)
	case "E":
		return m.toggle(allEventsPane)
	case "g":
		return m.toggle(graphPane)
	case "u":
		return m.ask("start")
	case "d":
		return m.ask("stop")
	case "r":
		return m.ask("restart")
	case "R":
		return m.ask(rolling)
	case "x":
		return m.askSignal()
	case "m":
		m.mouse = !m.mouse
		m.say("mouse off: the terminal selects text")
		if m.mouse {
			m.say("mouse on: a click chooses a row, the wheel scrolls")
		}
	case "tab":
		if m.pane.kind != noPane && !m.pane.full {
			m.pane.focused = !m.pane.focused
		}
	}
	return nil
}

// tableKey handles a key that concerns the table.
func (m *Model) tableKey(key string) (cmd tea.Cmd, handled bool) {
	switch key {
	case "up", "k":
		return m.move(-1), true
	case "down", "j":
		return m.move(1), true
	case "pgup", "ctrl+b":
		return m.move(-m.tableRows()), true
	case "pgdown", "ctrl+f":
		return m.move(m.tableRows()), true
	case "home":
		return m.move(-len(m.list.shown)), true
	case "end":
		return m.move(len(m.list.shown)), true
	case "s":
		m.list.order, m.list.reversed = (m.list.order+1)%orderCount, false
		return m.sorted(), true
	case "S":
		m.list.reversed = !m.list.reversed
		return m.sorted(), true
	case "/":
		m.askFilter()
		return nil, true
	case "esc":
		return m.escape(), true
	case "space":
		if p := m.current(); p != nil {
			p.marked = !p.marked
		}
		return m.move(1), true
	case "enter":
		if m.pane.kind == noPane {
			cmd = m.toggle(logPane)
		}
		if m.pane.kind != noPane {
			m.pane.full, m.pane.focused = true, true
		}
		return cmd, true
	case "y":
		if m.current() != nil {
			m.copying = true
		}
		return nil, true
	}
	return nil, false
}

// sorted shows the table in another order, from its beginning.
func (m *Model) sorted() tea.Cmd {
	cmd := m.arrange()
	if m.list.order.live() {
		for i := range m.feeds {
			cmd = batch(cmd, m.soon(i))
		}
	}
	return cmd
}

// escape ends one thing: the filter, the marks, the pane.
func (m *Model) escape() tea.Cmd {
	switch marked := m.list.marked(); {
	case m.list.filter != "":
		m.list.filter = ""
		return m.arrange()
	case len(marked) > 0:
		for _, p := range marked {
			p.marked = false
		}
	case m.pane.kind != noPane:
		return m.closePane()
	}
	return nil
}

// paneKey handles a key that concerns the pane.
func (m *Model) paneKey(key string) (cmd tea.Cmd, handled bool) {
	p := &m.pane.pager
	switch key {
	case "up", "k":
		p.scroll(-1)
	case "down", "j":
		p.scroll(1)
	case "pgup", "ctrl+b":
		p.scroll(-max(1, p.height-1))
	case "pgdown", "ctrl+f", "space":
		p.scroll(max(1, p.height-1))
	case "left":
		p.sideways(-sideStep)
	case "right":
		p.sideways(sideStep)
	case "home":
		p.home()
	case "end":
		p.toEnd()
	case "enter":
		if m.pane.kind.ofAll() {
			return m.closePane(), true
		}
		m.pane.full = !m.pane.full
		m.pane.focused = m.pane.full
		return m.moved(nil), true
	case "esc":
		if m.pane.kind.ofAll() {
			return m.closePane(), true
		}
		m.pane.full, m.pane.focused = false, false
		return m.moved(nil), true
	case "/":
		m.askSearch()
	case "n":
		m.find(p.query, -1)
	case "N":
		m.find(p.query, 1)
	case "y":
		text, ok := p.current()
		if !ok {
			m.say("nothing to copy")
			return nil, true
		}
		m.copied("line", text)
	default:
		return nil, false
	}
	return nil, true
}

// askFilter asks for the filter, which is in force while it is typed.
func (m *Model) askFilter() {
	m.prompt = &prompt{
		label: "filter: ", text: m.list.filter,
		change: func(text string) tea.Cmd {
			m.list.filter = text
			return m.arrange()
		},
		done: func(string) tea.Cmd { return nil },
		cancel: func() tea.Cmd {
			m.list.filter = ""
			return m.arrange()
		},
	}
}

// askSearch asks what to search for in the pane.
func (m *Model) askSearch() {
	m.prompt = &prompt{label: "search: ", done: func(text string) tea.Cmd {
		m.find(text, -1)
		return nil
	}}
}

// find searches in the pane, upwards with step -1.
func (m *Model) find(query string, step int) {
	if query != "" && !m.pane.pager.find(query, step) {
		m.say("not found: %s", query)
	}
}

// copy copies what the key after y names.
func (m *Model) copy(key string) {
	p := m.current()
	if p == nil {
		return
	}
	switch key {
	case "n", "y":
		m.copied("name", p.name)
	case "r":
		m.copied("reason", whole(p.status.Reason))
	case "l":
		m.copied("last line", whole(p.status.LastLine))
	default:
		m.say("not copied")
	}
}

func whole(text *string) string {
	if text == nil {
		return ""
	}
	return strings.TrimSpace(oneLine(*text))
}

// copied passes text to the clipboard of the terminal (OSC 52).
func (m *Model) copied(what, text string) {
	if text == "" {
		m.say("there is no %s to copy", what)
		return
	}
	m.say("copied the %s: %s", what, text)
	m.screen.copy(text)
}

// wheel scrolls what is below the mouse.
func (m *Model) wheel(at tea.Mouse) tea.Cmd {
	const lines = 3
	n := lines
	switch at.Button {
	case tea.MouseWheelUp:
		n = -lines
	case tea.MouseWheelDown:
	default:
		return nil
	}
	if at.Y >= m.layout().paneTop && m.pane.kind != noPane {
		m.pane.pager.scroll(n)
		return nil
	}
	return m.move(n)
}

// click chooses the row below the mouse.
func (m *Model) click(at tea.Mouse) tea.Cmd {
	l := m.layout()
	if row := at.Y - l.rowsTop; at.Button == tea.MouseLeft && row >= 0 && row < l.rows && m.offset+row < len(m.list.shown) {
		m.pane.focused = m.pane.full
		return m.move(m.offset + row - m.cursor)
	}
	if m.pane.kind != noPane && at.Y >= l.paneTop && at.Y < l.paneTop+l.paneRows {
		m.pane.focused = true
	}
	return nil
}

// targets returns what a command is for: the marked programs, else the one under the cursor.
func (m *Model) targets() []*program {
	if marked := m.list.marked(); len(marked) > 0 {
		return marked
	}
	if p := m.current(); p != nil {
		return []*program{p}
	}
	return nil
}

// describe names programs in a question.
func describe(all []*program) string {
	const named = 3
	var names []string
	for i, p := range all {
		if i == named {
			names = append(names, words.Plural(len(all)-named, "other"))
			break
		}
		names = append(names, p.label())
	}
	return strings.Join(names, ", ")
}
