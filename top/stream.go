package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// linePeriod is the least time between two messages with new lines.
const linePeriod = 100 * time.Millisecond

// A linesMsg has new lines for the pane that was opened with this number.
type linesMsg struct {
	pane  int
	lines []line
	// joins tells that the first line continues the last one of the message before
	joins bool
}

// A lineQueue collects lines, and sends them in messages that are not too frequent. Of more than a
// pane holds it keeps the newest ones.
type lineQueue struct {
	send func(joins bool, lines []line)
	wake chan struct{}

	mu      sync.Mutex
	lines   []line
	joins   bool // the first of lines continues the last one sent
	dropped int  // lines that are missing before the first one
	open    bool // the last line has no end yet
}

func newLineQueue(send func(joins bool, lines []line)) *lineQueue {
	return &lineQueue{send: send, wake: make(chan struct{}, 1)}
}

// add adds a line. If it continues, and the line before has no end, it is appended to that.
func (b *lineQueue) add(l line, continues, partial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	joins := continues && b.open
	b.open = partial
	switch last := len(b.lines) - 1; {
	case joins && last >= 0:
		if len(b.lines[last].text) < maxLineBytes {
			b.lines[last].text += l.text
		}
	default:
		if last < 0 {
			b.joins = joins
		}
		b.lines = append(b.lines, l)
	}
	if extra := len(b.lines) - maxLines; extra >= maxLines {
		b.dropped += extra
		b.joins = false
		b.lines = append(b.lines[:0:0], b.lines[extra:]...)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what was added since the last call.
func (b *lineQueue) take() (lines []line, joins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, joins = b.lines, b.joins
	if extra := len(lines) - maxLines; extra > 0 {
		lines, joins = lines[extra:], false
		b.dropped += extra
	}
	if b.dropped > 0 {
		lines = append([]line{gapLine(b.dropped)}, lines...)
	}
	b.lines, b.joins, b.dropped = nil, false, 0
	return lines, joins
}

// gapLine marks a place where lines are missing.
func gapLine(missing int) line {
	return line{text: fmt.Sprintf("── %s not shown ──", words.Plural(missing, "line")), colour: terminal.Yellow}
}

// run sends what is added until ctx is done.
func (b *lineQueue) run(ctx context.Context) {
	for {
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
		if lines, joins := b.take(); len(lines) > 0 {
			b.send(joins, lines)
		}
		wait(ctx, linePeriod)
	}
}

// stream calls read until ctx is done, with pauses. It adds the errors that a connection does not
// explain as lines.
func (m *Model) stream(ctx context.Context, b *lineQueue, read func() error) {
	go m.guard(func() { b.run(ctx) })
	pause, last := firstPause, ""
	for ctx.Err() == nil {
		begun := time.Now()
		err := read()
		if ctx.Err() != nil {
			return
		}
		if _, refused := errors.AsType[*control.Error](err); refused && err.Error() != last {
			last = err.Error()
			b.add(line{text: oneLine(last), colour: terminal.Red}, false, false)
		}
		if time.Since(begun) > maxPause {
			pause = firstPause
		}
		wait(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

// streamLog follows the log of an instance into a pane. When superd is back, so is the log, without
// a gap.
func (m *Model) streamLog(ctx context.Context, of id, b *lineQueue) {
	query := control.LogQuery{
		Names: []string{of.name}, Lines: maxLines, Follow: true, Skip: true, Times: true,
		Cursors: map[string]string{},
	}
	m.stream(ctx, b, func() error {
		return m.sources[of.source].Client.Logs(ctx, query, func(block *control.LogBlock) error {
			addBlock(b, block)
			return nil
		}, nil)
	})
}

// addBlock adds the lines of a block.
func addBlock(b *lineQueue, block *control.LogBlock) {
	if block.Note != nil {
		b.add(line{text: "── " + oneLine(*block.Note) + " ──", colour: terminal.Yellow}, false, false)
		return
	}
	if block.Length == nil {
		return // a bare cursor
	}
	head := ""
	if block.Time != nil {
		if at, err := time.Parse(time.RFC3339Nano, *block.Time); err == nil {
			head = at.Local().Format("15:04:05 ")
		}
	}
	for text := range strings.SplitSeq(string(block.Text), "\n") {
		b.add(line{head: head, text: terminal.Sanitize(text)}, block.Continued, block.Partial)
	}
}

// streamEvents follows the events of an instance, or of all if it has no name, into a pane.
func (m *Model) streamEvents(ctx context.Context, of id, b *lineQueue) {
	query := control.EventQuery{Lines: maxLines, Follow: true}
	if of.name != "" {
		query.Names = []string{of.name}
	}
	m.stream(ctx, b, func() error {
		return m.sources[of.source].Client.Events(ctx, query, func(text []byte) error {
			e, err := control.DecodeEvent(text)
			if err != nil {
				return err
			}
			if e.Cursor > 0 {
				query.After, query.Lines = e.Cursor, -1
			}
			b.add(eventLine(&e, of.name == "", time.Now()), false, false)
			return nil
		})
	})
}

// eventLine returns the line of an event.
func eventLine(e *control.Event, named bool, now time.Time) line {
	text := fmt.Sprintf("%-8s ", terminal.Sanitize(e.Kind))
	if named {
		text += terminal.Sanitize(e.Instance) + " "
	}
	return line{head: report.Clock(e.At, now) + " ", text: text + report.EventText(e), colour: report.EventColour(e)}
}
