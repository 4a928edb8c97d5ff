package top

import (
	"strings"

	"github.com/rivo/uniseg"

	"superd/internal/terminal"
)

const (
	maxLines     = 2000 // of a pane
	maxLineBytes = 16 << 10
	sideStep     = 8 // columns
)

// A line is one of a pane. It is safe for a terminal.
type line struct {
	head   string // shown dim before the text
	text   string
	colour terminal.Colour
}

// A pager shows a part of at most maxLines lines. Lines are numbered from 0 on, those included that
// it has dropped since.
type pager struct {
	lines  []line
	first  int  // number of lines[0]
	top    int  // number of the first line shown, unless it follows
	left   int  // columns that are scrolled out of sight
	follow bool // the last lines are shown
	height int  // lines that fit, as of the last show
	query  string
	match  int // number of the line found; -1: none
}

func newPager(follow bool) pager { return pager{follow: follow, match: -1} }

// add appends lines, and drops the oldest ones. With joins the first one continues the last line.
func (p *pager) add(joins bool, lines []line) {
	if joins && len(p.lines) > 0 && len(lines) > 0 {
		last := &p.lines[len(p.lines)-1]
		if len(last.text) < maxLineBytes {
			last.text += lines[0].text
		}
		lines = lines[1:]
	}
	p.lines = append(p.lines, lines...)
	if extra := len(p.lines) - maxLines; extra > 0 {
		p.first += extra
		p.lines = append(p.lines[:0:0], p.lines[extra:]...)
		p.top = max(p.top, p.first)
	}
}

// set replaces all lines, and stays where it is.
func (p *pager) set(lines []line) {
	p.lines, p.first = lines, 0
	p.scroll(0)
}

func (p *pager) end() int { return p.first + len(p.lines) }

// lastTop returns the top at which the last line is shown.
func (p *pager) lastTop() int { return max(p.first, p.end()-p.height) }

// scroll moves by n lines. Upwards it ends following; at the end it begins again.
func (p *pager) scroll(n int) {
	if p.follow {
		p.top = p.lastTop()
	}
	p.top = max(p.first, min(p.top+n, p.lastTop()))
	if n < 0 {
		p.follow = false
	}
	if n > 0 && p.top == p.lastTop() {
		p.follow = true
	}
}

// home shows the first lines.
func (p *pager) home() { p.top, p.follow, p.left = p.first, false, 0 }

// toEnd shows the last lines, and follows.
func (p *pager) toEnd() { p.follow, p.left = true, 0 }

// sideways scrolls by so many columns.
func (p *pager) sideways(n int) { p.left = max(0, p.left+n) }

// show returns the lines for that height, and the number of the first one.
func (p *pager) show(height int) ([]line, int) {
	p.height = max(height, 0)
	if p.follow {
		p.top = p.lastTop()
	}
	p.top = max(p.first, min(p.top, p.lastTop()))
	from := p.top - p.first
	return p.lines[from:min(from+p.height, len(p.lines))], p.top
}

// find goes to the next line that contains query, upwards with step -1, downwards with 1. It begins
// at the line found before, else at the last or first line shown. Upper case counts only if the
// query has any.
func (p *pager) find(query string, step int) bool {
	if query == "" {
		return false
	}
	fold := query == strings.ToLower(query)
	contains := func(l *line) bool {
		text := l.text
		if fold {
			text = strings.ToLower(text)
		}
		return strings.Contains(text, query)
	}
	start := p.match
	if query != p.query || start < p.first || start >= p.end() {
		if start = p.top - 1; step < 0 {
			start = p.top + p.height
			if p.follow {
				start = p.end()
			}
		}
	}
	p.query = query
	for i := range len(p.lines) {
		n := start + step*(i+1) - p.first
		n = (n%len(p.lines) + len(p.lines)) % len(p.lines)
		if contains(&p.lines[n]) {
			p.match = p.first + n
			p.follow = false
			if p.match < p.top || p.match >= p.top+p.height {
				p.top = p.match - p.height/2
			}
			p.top = max(p.first, min(p.top, p.lastTop()))
			return true
		}
	}
	p.match = -1
	return false
}

// current returns the line that a copy is of: the one found, else the last one shown.
func (p *pager) current() (string, bool) {
	n := p.match
	if n < p.first || n >= p.end() {
		n = min(p.top+p.height, p.end()) - 1
		if p.follow {
			n = p.end() - 1
		}
	}
	if n < p.first {
		return "", false
	}
	return p.lines[n-p.first].text, true
}

// skipColumns returns s without its first n columns.
func skipColumns(s string, n int) string {
	for state := -1; n > 0 && s != ""; {
		var width int
		_, s, width, state = uniseg.FirstGraphemeClusterInString(s, state)
		n -= width
	}
	return s
}

// wrap returns text in lines of at most width columns, broken at spaces where possible. Further
// lines of a broken one are indented like it.
func wrap(text string, width int) (lines []string) {
	width = max(width, 10)
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		paragraph = terminal.Sanitize(paragraph)
		indent := strings.Repeat(" ", min(len(paragraph)-len(strings.TrimLeft(paragraph, " ")), width/2))
		for terminal.Width(paragraph) > width {
			end := 0
			for rest, state, used := paragraph, -1, 0; rest != ""; {
				var cluster string
				var columns int
				cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
				if used+columns > width {
					break
				}
				used, end = used+columns, end+len(cluster)
			}
			if space := strings.LastIndexByte(paragraph[:end], ' '); space > len(indent) {
				end = space
			}
			lines = append(lines, paragraph[:end])
			paragraph = indent + strings.TrimLeft(paragraph[end:], " ")
		}
		lines = append(lines, paragraph)
	}
	return lines
}
