package top

import (
	"fmt"
	"strings"
	"testing"

	"superd/control"
	"superd/internal/terminal"
)

func numbered(from, to int) (lines []line) {
	for i := from; i < to; i++ {
		lines = append(lines, line{text: fmt.Sprint("line ", i)})
	}
	return lines
}

func TestPager(t *testing.T) {
	tests := []struct {
		name   string
		do     func(p *pager)
		first  string // of the lines shown
		last   string
		follow bool
	}{
		{"follows", func(p *pager) {}, "line 91", "line 100", true},
		{"stays where it was scrolled to", func(p *pager) {
			p.scroll(-5)
			p.add(false, numbered(101, 200))
		}, "line 86", "line 95", false},
		{"follows again at the end", func(p *pager) {
			p.scroll(-5)
			p.scroll(3)
			p.scroll(2)
			p.add(false, numbered(101, 111))
		}, "line 101", "line 110", true},
		{"home", func(p *pager) { p.home() }, "line 0", "line 9", false},
		{"end", func(p *pager) {
			p.home()
			p.toEnd()
		}, "line 91", "line 100", true},
		{"lines that were dropped are not shown", func(p *pager) {
			p.home()
			p.add(false, numbered(101, 101+maxLines))
		}, "line 101", "line 110", false},
		{"search upwards", func(p *pager) { p.find("line 5", -1) }, "line 54", "line 63", false},
		{"search on", func(p *pager) {
			p.find("line 5", -1)
			p.find("line 5", -1)
			p.find("line 5", 1)
		}, "line 54", "line 63", false},
		{"search around the end", func(p *pager) {
			p.find("line 100", -1)
			p.find("line 100", 1)
		}, "line 91", "line 100", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPager(true)
			p.add(false, numbered(0, 101))
			p.show(10)
			tt.do(&p)
			shown, _ := p.show(10)
			if first, last := shown[0].text, shown[len(shown)-1].text; first != tt.first || last != tt.last || p.follow != tt.follow {
				t.Errorf("shows %s to %s, follow %v; want %s to %s, %v", first, last, p.follow, tt.first, tt.last, tt.follow)
			}
			if len(p.lines) > maxLines {
				t.Errorf("holds %d lines", len(p.lines))
			}
		})
	}
	var empty pager
	if shown, _ := empty.show(10); len(shown) != 0 || empty.find("x", 1) {
		t.Error("an empty pager has lines")
	}
}

// TestQueue: lines of any size and number come in order, those that are too many with a mark.
func TestQueue(t *testing.T) {
	q := newLineQueue(nil)
	part := func(text string, continued, partial bool) {
		block := control.LogBlock{Text: []byte(text), Length: new(len(text)), Continued: continued, Partial: partial}
		addBlock(q, &block)
	}
	part("one\ntwo\x1b[2J", false, false)
	part("be", false, true)
	part("gin", true, true)
	lines, joins := q.take()
	if got := texts(lines); got != `one|two\x1b[2J|begin` || joins {
		t.Errorf("take() = %q, %v", got, joins)
	}
	part("ning", true, false)
	part("next", true, false)
	lines, joins = q.take()
	if got := texts(lines); got != "ning|next" || !joins {
		t.Errorf("take() = %q, %v, want the rest of a line", got, joins)
	}
	addBlock(q, &control.LogBlock{Note: new("output was removed")})
	for i := range 7 * maxLines / 2 {
		part(fmt.Sprint(i), false, false)
	}
	lines, _ = q.take()
	if len(lines) != maxLines+1 || lines[0].text != fmt.Sprintf("── %d lines not shown ──", 5*maxLines/2+1) ||
		lines[1].text != fmt.Sprint(5*maxLines/2) {
		t.Errorf("take() returns %d lines from %q, %q on", len(lines), lines[0].text, lines[1].text)
	}
	if len(q.lines) != 0 {
		t.Error("the queue is not empty")
	}
}

func texts(lines []line) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.text)
	}
	return strings.Join(all, "|")
}

func TestWrap(t *testing.T) {
	tests := []struct{ text, want string }{
		{"short", "short"},
		{"one two three four", "one two|three four"},
		{"  indented text goes on", "  indented|  text goes|  on"},
		{strings.Repeat("x", 25), "xxxxxxxxxxxx|xxxxxxxxxxxx|x"},
		{"日本語日本語日本語", "日本語日本語|日本語"},
		{"a\n\nb\n", "a||b"},
		{"\x1b[2J", `\x1b[2J`},
	}
	for _, tt := range tests {
		lines := wrap(tt.text, 12)
		if got := strings.Join(lines, "|"); got != tt.want {
			t.Errorf("wrap(%q) = %q, want %q", tt.text, got, tt.want)
		}
		for _, l := range lines {
			if terminal.Width(l) > 12 {
				t.Errorf("wrap(%q): %q is too wide", tt.text, l)
			}
		}
	}
}

func TestGraph(t *testing.T) {
	program := func(name, text string) control.Configured {
		return control.Configured{Program: name, Text: "[program." + name + "]\n" + text}
	}
	g, err := readGraph([]control.Configured{
		program("web", "requires = ['api', 'cache']\nafter = ['job', 'api']"), program("api", "requires = ['db']"),
		program("db", ""), program("cache", "requires = ['db']"), program("job", "type = 'oneshot'"),
		program("a", "after = ['b']"), program("b", "after = ['a']"),
	}, map[string][]string{
		"web": {"waiting", "waiting"}, "api": {"waiting"}, "db": {"failed"}, "cache": {"running", "starting"},
		"job": {"exited"}, "a": {"running"}, "b": {"running"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines, at := g.lines("db")
	var got strings.Builder
	for _, l := range lines {
		got.WriteString(l.head + l.text + "\n")
	}
	const want = `◌ web waiting, blocked by db (failed), cache (1 running, 1 starting)
  requires ◌ api waiting, blocked by db (failed)
    requires ✗ db failed, blocks 2 programs
  requires · cache 1 running, 1 starting, blocks 1 program
    requires ✗ db failed, blocks 2 programs
  after ○ job exited
● a running
  after ● b running
    after ● a running (see above)
`
	if got.String() != want || at != 2 {
		t.Errorf("lines() = \n%s, %d; want\n%s, 2", got.String(), at, want)
	}
	if _, err := readGraph([]control.Configured{{Program: "x", Text: "["}}, nil); err == nil {
		t.Error("no error for a broken configuration")
	}
}
