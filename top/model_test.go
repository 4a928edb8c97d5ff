package top

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"superd/control"
	"superd/internal/terminal"
)

// A fakeClient records the commands that it gets.
type fakeClient struct {
	Client
	commands []string
	refuse   error
	statuses [][]string // the names of each request
}

func (c *fakeClient) Status(_ context.Context, names []string) ([]control.Status, error) {
	c.statuses = append(c.statuses, names)
	return nil, nil
}

func (c *fakeClient) record(verb string, names []string) ([]control.CommandResult, error) {
	c.commands = append(c.commands, verb+" "+strings.Join(names, " "))
	var all []control.CommandResult
	for _, name := range names {
		all = append(all, control.CommandResult{Name: name, OK: true, Message: "done\x1b[2J"})
	}
	return all, c.refuse
}

func (c *fakeClient) Command(_ context.Context, verb string, names []string, _ bool, _ time.Duration) ([]control.CommandResult, error) {
	return c.record(verb, names)
}

func (c *fakeClient) RestartRolling(_ context.Context, names []string, _ int, _ time.Duration) ([]control.CommandResult, error) {
	return c.record("rolling", names)
}

func (c *fakeClient) Signal(_ context.Context, signal string, names []string) ([]control.CommandResult, error) {
	return c.record("signal "+signal, names)
}

func (c *fakeClient) Logs(ctx context.Context, _ control.LogQuery, _ func(*control.LogBlock) error, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c *fakeClient) Events(ctx context.Context, _ control.EventQuery, _ func([]byte) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c *fakeClient) Config(context.Context, []string) ([]control.Configured, error) { return nil, nil }

func (c *fakeClient) Why(context.Context, []string) ([]control.Why, error) {
	return []control.Why{{Text: "it is so\nand so\x1b[2J"}}, nil
}

// testModel returns a model with the programs of testList in a screen of that size.
func testModel(t *testing.T, width, height int) (*Model, *fakeClient) {
	t.Helper()
	client := &fakeClient{}
	m := newModel(t.Context(), Options{Sources: []Source{{Client: client}}, Input: os.Stdin, Output: os.Stdout})
	m.after = func(time.Duration, func() tea.Msg) tea.Cmd { return nil }
	m.width, m.height = width, height
	m.list = testList(t)
	m.feeds[0].waiting, m.feeds[0].whole = false, false
	m.arrange()
	return m, client
}

// play presses keys, and carries out what follows at once, except what has to wait.
func play(m *Model, keys string) {
	special := map[string]tea.KeyPressMsg{
		"<enter>": {Code: tea.KeyEnter}, "<esc>": {Code: tea.KeyEscape}, "<down>": {Code: tea.KeyDown},
		"<end>": {Code: tea.KeyEnd}, "<bs>": {Code: tea.KeyBackspace}, "<tab>": {Code: tea.KeyTab},
		"<space>": {Code: tea.KeySpace, Text: " "},
	}
	for keys != "" {
		k, n := tea.KeyPressMsg{Code: rune(keys[0]), Text: keys[:1]}, 1
		for name, s := range special {
			if strings.HasPrefix(keys, name) {
				k, n = s, len(name)
			}
		}
		keys = keys[n:]
		carryOut(m, m.update(k))
	}
}

func carryOut(m *Model, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if all, ok := msg.(tea.BatchMsg); ok {
		for _, cmd := range all {
			carryOut(m, cmd)
		}
		return
	}
	if _, quit := msg.(tea.QuitMsg); !quit && msg != nil {
		carryOut(m, m.update(msg))
	}
}

func TestKeys(t *testing.T) {
	tests := []struct {
		name     string
		keys     string
		commands string
		last     string // in the last line
	}{
		{"the first program", "dy", "stop api", "api: done"},
		{"any other key is no", "dn", "", "not done"},
		{"Enter is no", "d<enter>", "", "not done"},
		{"the question names it", "<down>r", "", "restart cron? y: yes"},
		{"all marked ones", "<space><space>uy", "start api cron", "2 programs done"},
		{"marks are gone afterwards", "<space><down>uydy", "start api|stop db", "db: done"},
		{"Escape clears marks", "<space><space><esc>uy", "start db", "db: done"},
		{"many names", "<space><space><space><space><space>d", "", "stop api, cron, db, 2 others? y"},
		{"rolling restart", "<end>Ry", "rolling web@2", "web@2: done"},
		{"a signal", "xHUP<enter>", "signal HUP api", "api: done"},
		{"a signal that is corrected", "xHUQ<bs>P<enter>", "signal HUP api", "api: done"},
		{"no signal", "x<enter>", "", "not done"},
		{"a signal that is cancelled", "xHUP<esc>", "", "q: quit"},
		{"a filter first", "/web<enter>dy", "stop web@1", "web@1: done"},
		{"keys in a filter are text", "/dy<enter>", "", "q: quit"},
		{"nothing is shown", "/nothing<enter>d", "", "no program is chosen"},
		{"nothing to copy", "yr", "", "there is no reason"},
		{"copy a name", "yn", "", "copied the name: api"},
		{"sequences of a program are shown", "dy", "stop api", `api: done\x1b[2J`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, client := testModel(t, 120, 30)
			m.screen.out, m.screen.open = new(strings.Builder), true
			play(m, tt.keys)
			lines := m.frame().lines
			if got := strings.Join(client.commands, "|"); got != tt.commands {
				t.Errorf("commands are %q, want %q", got, tt.commands)
			}
			if last := lines[len(lines)-1]; !strings.Contains(last, tt.last) {
				t.Errorf("the last line is %q, want %q", last, tt.last)
			}
		})
	}
}

// TestPaste: what is pasted answers no question and presses no key.
func TestPaste(t *testing.T) {
	m, client := testModel(t, 80, 24)
	play(m, "d")
	carryOut(m, m.update(tea.PasteMsg{Content: "y"}))
	carryOut(m, m.update(tea.PasteMsg{Content: "q"}))
	if m.confirm == nil || len(client.commands) > 0 {
		t.Error("a pasted text was an answer")
	}
	play(m, "n/")
	carryOut(m, m.update(tea.PasteMsg{Content: "we\x1bb\nmore"}))
	if got := m.list.filter; got != `we\x1bb` {
		t.Errorf("the filter is %q", got)
	}
}

func TestRefusal(t *testing.T) {
	m, client := testModel(t, 120, 24)
	client.refuse = &control.Error{Status: 403, Message: "bin may only view programs", Remedy: "ask an operator"}
	play(m, "dy")
	if got, want := m.status.text, "stop: bin may only view programs; ask an operator"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	r := resultMsg{"stop", []control.CommandResult{
		{Name: "a", OK: true}, {Name: "b", Message: "still runs"}, {Name: "c", Message: "likewise"},
	}, nil}
	if got, want := r.message().text, "stop: 2 programs failed; b: still runs"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}

// TestFrames: no line is wider than the screen, none is missing, and all is text where colours are
// not wanted, whatever is shown in whatever size.
func TestFrames(t *testing.T) {
	for _, keys := range []string{"", "l", "l<enter>", "w", "w<enter>", "?", "g", "e<tab>", "/日本", "<space>d", "xHUP", "y"} {
		for _, width := range []int{1, 2, 10, 39, 40, 41, 60, 80, 120, 300} {
			for _, height := range []int{1, 2, 3, 5, 8, 12, 24, 60} {
				m, _ := testModel(t, width, height)
				m.feeds[0].lost, m.feeds[0].lostAt = "superd has ended", time.Now()
				m.list.all[id{0, "db"}].status.Reason = new("日本語\x1b[2J" + strings.Repeat("long ", 99))
				for _, k := range strings.SplitAfter(keys, "") {
					if !strings.Contains(keys, "<") {
						_ = m.update(tea.KeyPressMsg{Code: []rune(k + " ")[0], Text: k})
					}
				}
				if strings.Contains(keys, "<") {
					play(m, keys)
				}
				m.pane.cancel()
				m.pane.pager.add(false, append(numbered(0, 99), line{head: "日", text: strings.Repeat("日本語", 200)}))
				f := m.frame()
				if len(f.lines) != height {
					t.Fatalf("%q in %dx%d: %d lines", keys, width, height, len(f.lines))
				}
				for _, l := range f.lines {
					l = strings.NewReplacer("\x1b[7m", "", "\x1b[0m", "").Replace(l)
					if terminal.Width(l) > width || strings.Contains(l, "\x1b") {
						t.Fatalf("%q in %dx%d: line %q", keys, width, height, l)
					}
				}
			}
		}
	}
}

// TestColumns: in a narrow screen the name and the state are left, and next the reason.
func TestColumns(t *testing.T) {
	m, _ := testModel(t, 80, 24)
	for width, want := range map[int]string{
		20:  " NAME STATE",
		40:  " NAME STATE REASON OR LAST LINE",
		60:  " NAME STATE PID FOR CPU% REASON OR LAST LINE",
		120: " NAME STATE PID FOR RESTARTS CPU% MEMORY HEALTH REASON OR LAST LINE",
	} {
		var titles []string
		for _, c := range m.columns(width) {
			titles = append(titles, c.title)
		}
		if got := strings.Join(titles, " "); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	m.colour = true
	if f := m.frame(); !strings.Contains(strings.Join(f.lines, ""), "\x1b[31m✗ failed") {
		t.Errorf("no colours: %q", f.lines)
	}
	m.dark, m.cursor = false, 1
	if f := m.frame(); !strings.Contains(strings.Join(f.lines, ""), "\x1b[38;5;94m◌ waiting") {
		t.Errorf("no colour for a light background: %q", f.lines)
	}
}

// TestLost: a superd that is gone is told, and what was shown stays.
func TestLost(t *testing.T) {
	m, _ := testModel(t, 120, 24)
	at := time.Date(2026, 11, 21, 7, 20, 45, 0, time.Local)
	m.update(lostMsg{0, at, whyLost(errors.New("cut\x1b[2J off"))})
	text := strings.Join(m.frame().lines, "\n")
	for _, want := range []string{`superd does not answer since 07:20:45: cut\x1b[2J off. Connecting again`, "web@2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	m.update(briefMsg{source: 0, all: []control.Brief{{Name: "web@1", State: control.StateRunning}}})
	if text = strings.Join(m.frame().lines, "\n"); strings.Contains(text, "does not answer") || strings.Contains(text, "web@2") {
		t.Errorf("still there:\n%s", text)
	}
}

// TestRequests: only what is visible or has changed is read, and ever more rarely if nothing does.
func TestRequests(t *testing.T) {
	m, client := testModel(t, 80, 5) // two rows
	f := &m.feeds[0]
	poll := func() string {
		f.timer++
		f.due = m.now()
		carryOut(m, m.poll(pollMsg{0, f.timer}))
		if len(client.statuses) == 0 {
			return "none"
		}
		return strings.Join(client.statuses[len(client.statuses)-1], " ")
	}
	if got := poll(); got != "api cron" {
		t.Errorf("names are %q, want the visible ones", got)
	}
	f.stale = map[string]struct{}{"web@2": {}}
	if got := poll(); got != "web@2 api cron" {
		t.Errorf("names are %q, want the one that has changed, too", got)
	}
	m.list.order = byCPU
	if got := poll(); got != "" {
		t.Errorf("names are %q, want all", got)
	}
	before := f.interval
	for range 9 {
		poll()
	}
	if before >= longPeriod || f.interval != longPeriod {
		t.Errorf("the period went from %v to %v, want %v", before, f.interval, longPeriod)
	}
	if m.brief(briefMsg{source: 0}); f.interval != shortPeriod {
		t.Errorf("after a change the period is %v, want %v", f.interval, shortPeriod)
	}
	m.blurred = true
	n := len(client.statuses)
	if poll(); len(client.statuses) != n || !f.parked {
		t.Error("it reads without the focus")
	}
	f.stale = map[string]struct{}{"db": {}}
	if poll(); len(client.statuses) != n+1 {
		t.Error("without the focus it does not read what has changed")
	}
}

// TestStale: an answer for a pane that was closed meanwhile is not shown.
func TestStale(t *testing.T) {
	m, _ := testModel(t, 80, 24)
	play(m, "w")
	if got := texts(m.pane.pager.lines); got != `it is so|and so\x1b[2J` {
		t.Errorf("the pane has %q", got)
	}
	old := m.pane.number
	play(m, "w?")
	m.update(textMsg{pane: old, lines: []line{{text: "late"}}})
	m.update(linesMsg{pane: old, lines: []line{{text: "late"}}})
	if got := texts(m.pane.pager.lines); strings.Contains(got, "late") || !strings.Contains(got, "quit") {
		t.Errorf("the help is %q", got)
	}
}

// TestPanic: the panic of a request reaches the goroutine that restores the terminal.
func TestPanic(t *testing.T) {
	m, _ := testModel(t, 80, 24)
	var sent []tea.Msg
	m.send = func(msg tea.Msg) { sent = append(sent, msg) }
	m.guard(func() { panic("one") })
	sent = append(sent, batch(func() tea.Msg { panic("two") })())
	for i, want := range []string{"one", "two"} {
		func() {
			defer func() {
				if p, ok := recover().(panicked); !ok || p.value != want || !strings.Contains(p.Error(), "top.TestPanic") {
					t.Errorf("recovered %v, want %s", p, want)
				}
			}()
			m.Update(sent[i])
		}()
	}
}

func TestScreen(t *testing.T) {
	var out strings.Builder
	s := screen{out: &out, fd: -1}
	wrote := func() string {
		defer out.Reset()
		return strings.NewReplacer(beginFrame, "", endFrame, "").Replace(out.String())
	}
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	wrote()
	draw := func(f frame, want string) {
		t.Helper()
		s.draw(f)
		if got := wrote(); got != want {
			t.Errorf("draw(%v) writes %q, want %q", f, got, want)
		}
	}
	draw(frame{lines: []string{"a", "", "c"}, cursor: -1}, clearAll+"\x1b[1;1H\x1b[2Ka\x1b[3;1H\x1b[2Kc")
	draw(frame{lines: []string{"a", "", "c"}, cursor: -1}, "")
	draw(frame{lines: []string{"a", "b", ""}, cursor: -1}, "\x1b[2;1H\x1b[2Kb\x1b[3;1H\x1b[2K")
	draw(frame{lines: []string{"a", "b", ""}, cursor: 3}, "\x1b[3;4H"+showCursor)
	draw(frame{lines: []string{"a", "b", ""}, cursor: -1, mouse: true}, mouseOn+hideCursor)
	draw(frame{lines: []string{"a"}, cursor: -1}, clearAll+"\x1b[1;1H\x1b[2Ka"+mouseOff)
	s.leave()
	s.leave()
	draw(frame{lines: []string{"late"}, cursor: -1}, leaveScreen)
}
