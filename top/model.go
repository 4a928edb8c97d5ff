package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"superd/internal/terminal"
)

// A Model is what the screen shows.
type Model struct {
	ctx     context.Context
	sources []Source
	names   []string
	colour  bool
	send    func(tea.Msg) // from any goroutine
	screen  *screen
	drawn   time.Time // when the last frame was drawn
	drawing bool      // a frame is due

	width, height int
	blurred       bool // the terminal has told that it has lost the focus
	dark          bool // the background, as far as is known
	mouse         bool

	list   *list
	feeds  []feedState // by source
	cursor int         // index in list.shown
	chosen id          // of the row under the cursor
	offset int         // index of the first row shown

	pane pane

	prompt  *prompt       // nil: none
	confirm *confirmation // nil: none
	copying bool          // the next key says what to copy
	status  message
	now     func() time.Time
	after   func(time.Duration, func() tea.Msg) tea.Cmd
}

// after calls f in d.
func after(d time.Duration, f func() tea.Msg) tea.Cmd {
	return tea.Tick(d, func(time.Time) tea.Msg { return f() })
}

// A message stands in the last line until the next key.
type message struct {
	text   string
	colour terminal.Colour
}

func newModel(ctx context.Context, o Options) *Model {
	m := &Model{
		ctx: ctx, sources: o.Sources, names: o.Names, colour: o.Colour, dark: true, list: newList(),
		feeds: make([]feedState, len(o.Sources)), send: func(tea.Msg) {},
		now: time.Now, after: after,
		screen: &screen{out: o.Output, fd: int(o.Input.Fd())},
	}
	for i := range m.feeds {
		m.feeds[i] = feedState{whole: true, interval: m.shortest(i), waiting: true}
	}
	m.pane = pane{pager: newPager(true), cancel: func() {}}
	return m
}

// A minuteMsg comes when times in minutes have become old.
type minuteMsg struct{}

func nextMinute() tea.Cmd {
	return tea.Every(time.Minute, func(time.Time) tea.Msg { return minuteMsg{} })
}

// Init implements [tea.Model].
func (m *Model) Init() tea.Cmd { return nextMinute() }

// Update implements [tea.Model]. It draws what has changed.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if p, is := msg.(panicked); is {
		panic(p)
	}
	return m, batch(m.update(msg), m.redraw())
}

// View implements [tea.Model]. It is empty, as screen.go draws.
func (m *Model) View() tea.View { return tea.NewView("") }

// A frameMsg comes when a frame is due.
type frameMsg struct{}

// redraw draws a frame, or has it drawn when the last one is long enough ago.
func (m *Model) redraw() tea.Cmd {
	if m.drawing {
		return nil
	}
	if left := framePeriod - time.Since(m.drawn); left > 0 {
		m.drawing = true
		return m.after(left, func() tea.Msg { return frameMsg{} })
	}
	m.screen.draw(m.frame())
	m.drawn = time.Now()
	return nil
}

func (m *Model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case frameMsg:
		m.drawing = false
	case tea.ResumeMsg:
		if err := m.screen.enter(); err != nil {
			m.status = errorMessage(err)
		}
	case sizeMsg:
		m.width, m.height, m.screen.clear = msg.width, msg.height, true
		return m.moved(m.rewrap())
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
	case tea.FocusMsg:
		m.blurred = false
		return m.wake()
	case tea.BlurMsg:
		m.blurred = true
	case minuteMsg:
		return nextMinute()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			return m.prompt.paste(msg.Content)
		}
	case tea.MouseWheelMsg:
		return m.wheel(msg.Mouse())
	case tea.MouseClickMsg:
		return m.click(msg.Mouse())
	case briefMsg:
		return m.brief(msg)
	case lostMsg:
		m.feeds[msg.source].lost, m.feeds[msg.source].lostAt = msg.why, msg.at
	case pollMsg:
		return m.poll(msg)
	case statusMsg:
		return m.gotStatus(msg)
	case linesMsg:
		if msg.pane == m.pane.number {
			m.pane.pager.add(msg.joins, msg.lines)
		}
	case textMsg:
		return m.gotText(msg)
	case openMsg:
		if msg.pane == m.pane.number {
			return m.open()
		}
	case resultMsg:
		m.status = msg.message()
	}
	return nil
}

// say shows a message.
func (m *Model) say(format string, args ...any) {
	m.status = message{text: fmt.Sprintf(format, args...)}
}

// current returns the program under the cursor, nil if there is none.
func (m *Model) current() *program {
	if m.cursor < 0 || m.cursor >= len(m.list.shown) {
		return nil
	}
	return m.list.shown[m.cursor]
}

// arrange filters and sorts the table anew. The cursor stays on its program, if that is shown.
func (m *Model) arrange() tea.Cmd {
	m.list.arrange()
	found := false
	for i, p := range m.list.shown {
		if p.id == m.chosen {
			m.cursor, found = i, true
			break
		}
	}
	if !found {
		m.cursor = max(0, min(m.cursor, len(m.list.shown)-1))
	}
	return m.moved(nil)
}

// move moves the cursor by n rows.
func (m *Model) move(n int) tea.Cmd {
	m.cursor = max(0, min(m.cursor+n, len(m.list.shown)-1))
	return m.moved(nil)
}

// moved does what follows when the cursor or the visible rows may have changed.
func (m *Model) moved(also tea.Cmd) tea.Cmd {
	rows := m.tableRows()
	m.offset = max(0, min(m.offset, len(m.list.shown)-rows))
	if m.cursor < m.offset {
		m.offset = m.cursor
	} else if m.cursor >= m.offset+rows {
		m.offset = m.cursor - rows + 1
	}
	var cmds []tea.Cmd
	if p := m.current(); p != nil && p.id != m.chosen {
		m.chosen = p.id
		cmds = append(cmds, m.turnTo(p.id))
	}
	return batch(append(cmds, also, m.readVisible())...)
}

// visible returns the rows of the table that are on the screen.
func (m *Model) visible() []*program {
	from := min(m.offset, len(m.list.shown))
	return m.list.shown[from:min(from+m.tableRows(), len(m.list.shown))]
}
