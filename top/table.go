package top

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
)

const (
	gap     = 1  // columns between two columns of the table
	minName = 12 // width
	minInfo = 12
)

// A column is one of the table. Its width does not depend on the rows, so that nothing jumps when
// the table is scrolled.
type column struct {
	title string
	width int // 0: the rest
	right bool
	rank  int // if there is no room, those of the highest rank are left out first; 0: never
	cell  func(p *program, now time.Time) (string, terminal.Colour)
}

func plainCell(f func(p *program, now time.Time) string) func(*program, time.Time) (string, terminal.Colour) {
	return func(p *program, now time.Time) (string, terminal.Colour) { return f(p, now), terminal.NoColour }
}

// columns returns the columns that fit in a width.
func (m *Model) columns(width int) []column {
	longest, hosts := minName, 0
	for _, p := range m.list.shown {
		longest = max(longest, terminal.Width(p.name)+1)
		hosts = max(hosts, terminal.Width(p.host))
	}
	all := []column{
		{title: " NAME", width: min(longest, max(minName, width/3)), cell: plainCell(func(p *program, _ time.Time) string {
			mark := " "
			if p.marked {
				mark = "*"
			}
			return mark + terminal.Sanitize(p.name)
		})},
		{title: "STATE", width: len("s stopping"), cell: func(p *program, _ time.Time) (string, terminal.Colour) {
			return sign(p.state) + " " + p.state, stateColour(p)
		}},
		{title: "PID", width: 7, right: true, rank: 4, cell: plainCell(func(p *program, _ time.Time) string {
			if p.pid == 0 {
				return ""
			}
			return strconv.Itoa(p.pid)
		})},
		{title: "FOR", width: 4, right: true, rank: 3, cell: plainCell(func(p *program, now time.Time) string {
			if p.since().IsZero() {
				return ""
			}
			return minutes(now.Sub(p.since()))
		})},
		{title: "RESTARTS", width: 8, right: true, rank: 6, cell: plainCell(func(p *program, _ time.Time) string {
			return strconv.Itoa(p.status.Restarts)
		})},
		{title: "CPU%", width: 5, right: true, rank: 2, cell: plainCell(func(p *program, _ time.Time) string {
			return percent(p.cpu)
		})},
		{title: "MEMORY", width: 6, right: true, rank: 5, cell: plainCell(func(p *program, _ time.Time) string {
			return report.Shown(p.status.RSS, report.Memory)
		})},
		{title: "HEALTH", width: 9, rank: 7, cell: health},
		{title: "REASON OR LAST LINE", rank: 1, cell: info},
	}
	if hosts > 0 {
		all = slices.Insert(all, 0, column{title: "HOST", width: max(len("HOST"), min(hosts, width/6)), cell: plainCell(
			func(p *program, _ time.Time) string { return p.host })})
	}
	need := func() int {
		sum := -gap
		for _, c := range all {
			if sum += gap + c.width; c.width == 0 {
				sum += minInfo
			}
		}
		return sum
	}
	for need() > width {
		last := slices.MaxFunc(all, func(a, b column) int { return a.rank - b.rank })
		if last.rank == 0 {
			break
		}
		all = slices.DeleteFunc(all, func(c column) bool { return c.rank == last.rank })
	}
	if last := &all[len(all)-1]; last.width == 0 {
		last.width = width - need() + minInfo
	}
	if over := need() - width; over > 0 && all[0].width-over >= minName/2 {
		all[0].width -= over
	} else if over > 0 {
		all = all[:1]
		all[0].width = width
	}
	return all
}

// table returns the titles and the visible rows.
func (m *Model) table(width, rows int) []string {
	columns := m.columns(width)
	title := ""
	for i, c := range columns {
		if i > 0 {
			title += " "
		}
		title += c.fit(c.title)
	}
	lines := []string{m.paint(terminal.Dim, terminal.Cut(title, width))}
	if rows <= 0 {
		return lines
	}
	now := m.now()
	for i, p := range m.visible() {
		lines = append(lines, m.row(p, columns, width, now, m.offset+i == m.cursor))
	}
	if len(m.list.shown) == 0 {
		text := "no program matches the filter; Escape clears it"
		switch {
		case m.list.filter == "" && m.waiting():
			text = "waiting for superd …"
		case m.list.filter == "":
			text = "no programs"
		}
		lines = append(lines, m.paint(terminal.Dim, terminal.Cut(text, width)))
	}
	for len(lines) < rows+1 {
		lines = append(lines, "")
	}
	return lines
}

// waiting reports whether a source has not told its programs yet.
func (m *Model) waiting() bool {
	return slices.ContainsFunc(m.feeds, func(f feedState) bool { return f.waiting })
}

// row returns the line of a program.
func (m *Model) row(p *program, columns []column, width int, now time.Time, chosen bool) string {
	text := ""
	lost := m.feeds[p.source].lost != ""
	for i, c := range columns {
		if i > 0 {
			text += " "
		}
		cell, colour := c.cell(p, now)
		if i == len(columns)-1 && !c.right {
			cell = terminal.Cut(cell, c.width)
		} else {
			cell = c.fit(cell)
		}
		switch {
		case chosen:
		case lost:
			cell = m.paint(terminal.Dim, cell)
		default:
			cell = m.paint(colour, cell)
		}
		text += cell
	}
	if chosen {
		return reverse(fill(text, width))
	}
	return text
}

// fit returns text in the width of a column.
func (c *column) fit(text string) string {
	if text = terminal.Cut(text, c.width); c.right {
		return fill("", c.width-terminal.Width(text)) + text
	}
	return fill(text, c.width)
}

// minutes returns how long a state lasts, in units of at least a minute: it becomes old once a
// minute, and no clock ticks meanwhile.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return "<1m"
	}
	if d < 100*time.Minute {
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return report.Age(d)
}

// percent returns a part of a processor, "" if unknown.
func percent(p float64) string {
	switch {
	case p < 0:
		return ""
	case p >= 99.95:
		return fmt.Sprintf("%.0f", p)
	}
	return fmt.Sprintf("%.1f", p)
}

// health returns what the health check says, for a program that runs.
func health(p *program, _ time.Time) (string, terminal.Colour) {
	switch {
	case p.state == control.StateStarting:
		return "not ready", terminal.Yellow
	case p.state != control.StateRunning:
		return "", terminal.NoColour
	case p.status.Healthy == nil:
		return "ready", terminal.NoColour
	case *p.status.Healthy:
		return "healthy", terminal.Green
	}
	return "unhealthy", terminal.Red
}

// info returns what is unusual about a program, else its last line.
func info(p *program, now time.Time) (string, terminal.Colour) {
	if p.readAt.IsZero() {
		return "", terminal.NoColour
	}
	if reason := report.Reason(&p.status, now); reason != "" {
		return reason, terminal.NoColour
	}
	return report.LastLine(&p.status), terminal.Dim
}
