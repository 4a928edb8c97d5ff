package listener

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"superd/compat/supervisor"
	"superd/control"
)

// An API is what is needed of [control.Client].
type API interface {
	Events(ctx context.Context, q control.EventQuery, f func(line []byte) error) error
	Logs(ctx context.Context, q control.LogQuery, f func(b *control.LogBlock) error, idle func() error) error
	Status(ctx context.Context, names []string) ([]control.Status, error)
}

// A source sends events to a channel until ctx is done. It runs on a goroutine of its own.
type source struct {
	*Options
	api    API
	events chan<- Event
}

// send passes on an event, if it is subscribed to.
func (s *source) send(ctx context.Context, e Event) error {
	if !s.Subscription.Has(e.Name) {
		return nil
	}
	select {
	case s.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pauses between attempts to reach superd, which a successor may replace at any time.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
)

// again calls f until ctx is done. f returns when superd has ended, or with an error.
func (s *source) again(ctx context.Context, what string, f func() error) {
	pause, last := shortestPause, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := f()
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			s.Log("%s: %v; trying again", what, err)
		}
		if time.Since(began) > longestPause {
			pause = shortestPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// log translates the event log, from where the listener's last run ended: what it has missed since
// then comes first. Earlier events only say in which states the processes are.
func (s *source) log(ctx context.Context) {
	t := newTranslator()
	var first, after uint64 // cursors of the last event not to send, and of the last one translated
	begun := false
	s.again(ctx, "read events", func() (err error) {
		if !begun {
			if first, err = s.lastEnd(ctx); err != nil {
				return err
			}
			programs, err := s.Programs(ctx)
			if err != nil {
				return err
			}
			t.activate(programs)
			begun = true
		}
		q := control.EventQuery{After: after, Lines: -1, Follow: true}
		return s.api.Events(ctx, q, func(line []byte) error {
			e, err := control.DecodeEvent(line)
			if err != nil {
				return err
			}
			all := t.translate(&e)
			if e.Kind == control.KindReload && e.Instance == "" {
				programs, err := s.Programs(ctx)
				if err != nil {
					return err
				}
				all = append(all, t.activate(programs)...)
			}
			after = e.Cursor
			if e.Cursor <= first {
				return nil
			}
			for _, event := range all {
				if err := s.send(ctx, event); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// startWindow is how long after superd a listener may start to get what came before it. One that
// is added to a superd that has run for long gets no old events.
const startWindow = time.Minute

// lastEnd returns the cursor of the last event not to send: the end of the listener's last run, or
// without one the event before the start of superd or, if that is long ago, before its own start.
func (s *source) lastEnd(ctx context.Context) (cursor uint64, err error) {
	var ended, started, own uint64
	var startedAt, ownAt time.Time
	err = s.api.Events(ctx, control.EventQuery{Lines: -1}, func(line []byte) error {
		e, err := control.DecodeEvent(line)
		switch {
		case err != nil:
			return err
		case e.Kind == control.KindSuperd && e.State == "started":
			started, startedAt, own = e.Cursor-1, e.At, 0
		case e.Instance != s.Instance:
		case e.Kind == control.KindExit && e.Run != s.Run:
			ended = e.Cursor
		case own == 0:
			own, ownAt = e.Cursor-1, e.At
		}
		return nil
	})
	switch {
	case ended > 0:
		return ended, err
	case own > 0 && ownAt.Sub(startedAt) > startWindow:
		return own, err
	}
	return started, err
}

// ticks sends TICK events at full multiples of their periods.
func (s *source) ticks(ctx context.Context) {
	const shortest = 5 * time.Second
	for {
		now := time.Now()
		next := now.Truncate(shortest).Add(shortest)
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		for _, seconds := range []int64{5, 60, 3600} {
			if next.Unix()%seconds != 0 {
				continue
			}
			e := Event{fmt.Sprintf("TICK_%d", seconds), fmt.Sprintf("when:%d", next.Unix())}
			if s.send(ctx, e) != nil {
				return
			}
		}
	}
}

// lines sends the output of programs as PROCESS_LOG events.
func (s *source) lines(ctx context.Context) {
	s.output(ctx, s.LinesOf, func(_ *control.LogBlock, process, stream, text string) []Event {
		return []Event{{"PROCESS_LOG_" + strings.ToUpper(stream), process + " channel:" + stream + "\n" + valid(text)}}
	})
}

// messages sends what stands between marks in the output of programs as PROCESS_COMMUNICATION
// events.
func (s *source) messages(ctx context.Context) {
	captures := map[string]*capture{}
	s.output(ctx, s.MessagesOf, func(b *control.LogBlock, process, stream, text string) (all []Event) {
		key := b.Instance + " " + stream
		if captures[key] == nil {
			captures[key] = new(capture)
		}
		for _, message := range captures[key].feed(text) {
			all = append(all, Event{"PROCESS_COMMUNICATION_" + strings.ToUpper(stream), process + "\n" + valid(message)})
		}
		if *captures[key] == (capture{}) {
			delete(captures, key)
		}
		return all
	})
}

// output follows the output of programs. events returns the events of a block; process is how a
// payload begins.
func (s *source) output(
	ctx context.Context, names []string, events func(b *control.LogBlock, process, stream, text string) []Event,
) {
	t, pids, cursors := newTranslator(), map[string]ownPid{}, map[string]string{}
	s.again(ctx, "read output", func() error {
		programs, err := s.Programs(ctx)
		if err != nil {
			return err
		}
		t.activate(programs)
		q := control.LogQuery{Names: names, Raw: true, Follow: true, Skip: true, Cursors: cursors}
		return s.api.Logs(ctx, q, func(b *control.LogBlock) error {
			if b.Length == nil {
				return nil
			}
			if pids[b.Instance], err = s.pid(ctx, b, pids[b.Instance]); err != nil {
				return err
			}
			stream := "stdout"
			if b.Stream != nil && *b.Stream == "stderr" {
				stream = "stderr"
			}
			text := string(b.Text)
			if !b.Partial {
				text += "\n"
			}
			process := fmt.Sprintf("%s pid:%d", t.prefix(b.Program, b.Instance), pids[b.Instance].pid)
			for _, e := range events(b, process, stream, text) {
				if err := s.send(ctx, e); err != nil {
					return err
				}
			}
			return nil
		}, nil)
	})
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// An ownPid is the pid of a main process as it was known at a time.
type ownPid struct {
	run string // "": unknown
	pid int
	at  time.Time
}

// pidAge is how long the pid of an unknown run is taken to be right.
const pidAge = time.Second

// pid returns that of the main process that has written a block, 0 if it has ended.
func (s *source) pid(ctx context.Context, b *control.LogBlock, known ownPid) (ownPid, error) {
	now := ownPid{at: time.Now()}
	if b.Run != nil {
		now.run = *b.Run
	}
	if !known.at.IsZero() && known.run == now.run && (now.run != "" || now.at.Sub(known.at) < pidAge) {
		return known, nil
	}
	all, err := s.api.Status(ctx, []string{b.Instance})
	if err != nil {
		return ownPid{}, err
	}
	for i := range all {
		if all[i].Name == b.Instance && all[i].Pid != nil {
			now.pid = *all[i].Pid
		}
	}
	return now, nil
}

// A capture finds messages between tokens in the output of a process.
type capture struct {
	text   string
	inside bool
}

// The tokens around a message.
const (
	beginToken = "<!--XSUPERVISOR:BEGIN-->"
	endToken   = "<!--XSUPERVISOR:END-->"
	maxMessage = 1 << 20 // bytes; of a longer one only the end is kept
)

// feed returns the messages that end in text.
func (c *capture) feed(text string) (messages []string) {
	c.text += text
	for {
		token := beginToken
		if c.inside {
			token = endToken
		}
		before, after, found := strings.Cut(c.text, token)
		if !found {
			keep := len(token) - 1 // it may continue
			if c.inside {
				keep = maxMessage
			}
			if from := len(c.text) - keep; from > 0 {
				for from < len(c.text) && !utf8.RuneStart(c.text[from]) {
					from++
				}
				c.text = c.text[from:]
			}
			return messages
		}
		if c.inside {
			messages = append(messages, before)
		}
		c.text, c.inside = after, !c.inside
	}
}

// remote sends the events that clients of the socket for supervisord send.
func (s *source) remote(ctx context.Context) {
	s.again(ctx, "read remote communication", func() error {
		return supervisor.FollowRemote(ctx, s.ServerURL, func(line []byte) error {
			var c supervisor.RemoteEvent
			if err := json.Unmarshal(bytes.TrimSpace(line), &c); err != nil {
				return fmt.Errorf("read remote communication: %w", err)
			}
			return s.send(ctx, Event{"REMOTE_COMMUNICATION", "type:" + c.Type + "\n" + c.Data})
		})
	})
}
