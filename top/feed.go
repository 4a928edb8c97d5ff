package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"superd/control"
	"superd/internal/terminal"
)

// Pauses between attempts to connect again.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// A briefMsg has the states of all programs of a source. all is nil if only something else has
// changed, such as a last line.
type briefMsg struct {
	source int
	all    []control.Brief
}

// A lostMsg tells that a source does not answer.
type lostMsg struct {
	source int
	at     time.Time
	why    string
}

// follow watches a source until ctx is done. When the source ends it connects again.
func (m *Model) follow(ctx context.Context, source int) {
	client := m.sources[source].Client
	pause, lost := firstPause, false
	for ctx.Err() == nil {
		var last []byte
		err := client.WatchBrief(ctx, m.names, func(line []byte) error {
			pause, lost = firstPause, false
			msg := briefMsg{source: source}
			if !bytes.Equal(line, last) {
				msg.all = []control.Brief{}
				if err := json.Unmarshal(line, &msg.all); err != nil {
					return fmt.Errorf("read status: %w", err)
				}
				last = append(last[:0], line...)
			}
			m.send(msg)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if !lost {
			lost = true
			m.send(lostMsg{source, time.Now(), whyLost(err)})
		}
		wait(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

// whyLost returns why a source does not answer, on one line.
func whyLost(err error) string {
	if err == nil || errors.Is(err, control.ErrNoSuperd) {
		return "superd has ended"
	}
	return oneLine(err.Error())
}

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// oneLine returns text from elsewhere as a line for the terminal.
func oneLine(text string) string {
	return terminal.Sanitize(string(bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("; "))))
}
