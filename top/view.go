package top

import (
	"fmt"
	"strings"
	"time"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

const (
	minRows  = 3  // of the table beside a pane
	unknownW = 80 // columns until the terminal has told
	unknownH = 24
)

// A layout says which lines of the screen have what. All but the header and the last line may have
// none.
type layout struct {
	banners  int
	rowsTop  int // below the titles
	rows     int
	paneTop  int // its title
	paneRows int // without the title
}

// layout divides the screen.
func (m *Model) layout() layout {
	_, height := m.size()
	l := layout{}
	for i := range m.feeds {
		if m.feeds[i].lost != "" {
			l.banners++
		}
	}
	l.banners = min(l.banners, max(1, height/4))
	left := max(0, height-2-l.banners) // without header and last line
	switch {
	case m.pane.kind == noPane:
	case m.pane.full:
		l.paneTop, l.paneRows = 1+l.banners, max(0, left-1)
		l.rowsTop = l.paneTop + left
		return l
	default:
		l.paneRows = max(0, min(left*2/5, left-2-minRows))
		left = max(0, left-1-l.paneRows)
	}
	l.rowsTop = 2 + l.banners
	l.rows = max(0, left-1)
	l.paneTop = l.rowsTop + l.rows
	return l
}

func (m *Model) size() (width, height int) {
	if m.width <= 0 || m.height <= 0 {
		return unknownW, unknownH
	}
	return m.width, m.height
}

// tableRows returns how many rows the table has room for. It is at least 1, so that the cursor
// stays on a row while a pane has all the room.
func (m *Model) tableRows() int { return max(1, m.layout().rows) }

// frame returns what the screen is to show.
func (m *Model) frame() frame {
	width, height := m.size()
	l := m.layout()
	lines := make([]string, 0, height)
	lines = append(lines, m.header(width))
	lines = append(lines, m.banners(width, l.banners)...)
	if !m.pane.full {
		lines = append(lines, m.table(width, l.rows)...)
	}
	if m.pane.kind != noPane {
		lines = append(lines, m.paneLines(width, l.paneRows)...)
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	last, cursor := m.lastLine(width)
	if height > 1 {
		lines = append(lines[:height-1], last)
	} else {
		lines, cursor = lines[:1], -1
	}
	return frame{lines: lines, cursor: cursor, mouse: m.mouse}
}

// paint colours text. On a light background it takes darker colours.
func (m *Model) paint(c terminal.Colour, text string) string {
	if !m.colour || c == terminal.NoColour || text == "" {
		return text
	}
	if c == terminal.Yellow && !m.dark {
		return "\x1b[38;5;94m" + text + "\x1b[0m" // yellow cannot be read on white
	}
	return c.Paint(text)
}

// reverse shows text as chosen. It is an attribute, no colour.
func reverse(text string) string { return "\x1b[7m" + text + "\x1b[0m" }

// fill cuts text to a width, or fills it with spaces.
func fill(text string, width int) string {
	text = terminal.Cut(text, width)
	return text + strings.Repeat(" ", max(0, width-terminal.Width(text)))
}

// header returns the first line: how many programs are in which state, the order and the filter.
func (m *Model) header(width int) string {
	count := map[string]int{}
	unhealthy := 0
	for _, p := range m.list.all {
		count[p.state]++
		if p.state == control.StateRunning && p.unhealthy() {
			unhealthy++
		}
	}
	parts := []string{words.Plural(len(m.list.all), "program")}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	for _, state := range []string{
		control.StateFailed, control.StateBackoff, control.StateRunning, control.StateStarting,
		control.StateWaiting, control.StateStopping, control.StateExited, control.StateStopped,
	} {
		add(count[state], state)
	}
	add(unhealthy, "unhealthy")
	add(len(m.list.marked()), "marked")
	arrow := "↓"
	if m.list.reversed {
		arrow = "↑"
	}
	right := "by " + m.list.order.String() + " " + arrow
	if m.list.filter != "" {
		right = fmt.Sprintf("/%s: %d  ", oneLine(m.list.filter), len(m.list.shown)) + right
	}
	right = terminal.Cut(right, max(0, width-1))
	left := strings.Join(parts, ", ")
	return m.paint(terminal.Bold, fill(left, max(0, width-terminal.Width(right)-1))+" "+right)
}

// banners returns a line for each source that does not answer.
func (m *Model) banners(width, count int) (lines []string) {
	for i := range m.feeds {
		f := &m.feeds[i]
		if f.lost == "" || len(lines) == count {
			continue
		}
		name := "superd"
		if host := m.sources[i].Host; host != "" {
			name += " of " + host
		}
		text := fmt.Sprintf("%s does not answer since %s: %s. Connecting again …",
			name, f.lostAt.Format(time.TimeOnly), f.lost)
		lines = append(lines, m.paint(terminal.Red, reverse(fill(text, width))))
	}
	return lines
}

// lastLine returns the last line of the screen, and the column of the cursor in it, or -1.
func (m *Model) lastLine(width int) (text string, cursor int) {
	switch {
	case m.prompt != nil:
		text := m.prompt.label + m.prompt.text
		if extra := terminal.Width(text) + 1 - width; extra > 0 {
			text = skipColumns(text, extra)
		}
		return text, terminal.Width(text)
	case m.confirm != nil:
		return m.paint(terminal.Bold, terminal.Cut(m.confirm.question, width)), -1
	case m.copying:
		return m.paint(terminal.Bold, terminal.Cut("copy n: name, r: reason, l: last line", width)), -1
	case m.status.text != "":
		return m.paint(m.status.colour, terminal.Cut(m.status.text, width)), -1
	}
	hints := "?: help  /: filter  l: log  w: why  u: start  d: stop  r: restart  q: quit"
	if m.pane.focused {
		hints = "?: help  /: search  n: next  y: copy  Escape: back  q: quit"
	}
	return m.paint(terminal.Dim, terminal.Cut(hints, width)), -1
}

// paneLines returns the title and the lines of the pane.
func (m *Model) paneLines(width, rows int) []string {
	p := &m.pane.pager
	shown, top := p.show(rows)
	title := "── " + m.title()
	if m.pane.kind.streams() {
		if p.follow {
			title += ", following"
		} else {
			title += ", paused"
			if below := p.end() - top - len(shown); below > 0 {
				title += " " + words.Plural(below, "line") + " above the end"
			}
		}
		if p.first > 0 {
			title += fmt.Sprintf(", without the first %d", p.first)
		}
	}
	if p.left > 0 {
		title += fmt.Sprintf(", from column %d", p.left+1)
	}
	title = terminal.Cut(title+" ", width)
	title += strings.Repeat("─", max(0, width-terminal.Width(title)))
	colour := terminal.Dim
	if m.pane.focused {
		colour = terminal.Bold
	}
	lines := []string{m.paint(colour, title)}
	if len(shown) == 0 && rows > 0 && m.pane.kind.streams() {
		lines = append(lines, m.paint(terminal.Dim, terminal.Cut("nothing yet", width)))
	}
	for i, l := range shown {
		text := l.head + l.text
		switch {
		case top+i == p.match:
			lines = append(lines, reverse(fill(skipColumns(text, p.left), width)))
		case p.left > 0:
			lines = append(lines, m.paint(l.colour, terminal.Cut(skipColumns(text, p.left), width)))
		default:
			head := terminal.Cut(l.head, width)
			lines = append(lines, m.paint(terminal.Dim, head)+
				m.paint(l.colour, terminal.Cut(l.text, width-terminal.Width(head))))
		}
	}
	return lines
}

// label returns the name of a program, with its host.
func (p *program) label() string {
	if p.host != "" {
		return p.host + ":" + terminal.Sanitize(p.name)
	}
	return terminal.Sanitize(p.name)
}

// sign returns a character for a state, so that it is seen without colours.
func sign(state string) string {
	switch state {
	case control.StateRunning:
		return "●"
	case control.StateStarting:
		return "◐"
	case control.StateStopping:
		return "◑"
	case control.StateWaiting:
		return "◌"
	case control.StateBackoff:
		return "↻"
	case control.StateFailed:
		return "✗"
	case control.StateExited:
		return "○"
	case control.StateStopped:
		return "■"
	}
	return "·"
}

// stateColour returns the colour of a program's state.
func stateColour(p *program) terminal.Colour {
	if p.unhealthy() {
		return terminal.Red
	}
	return report.StateColour(p.state)
}
