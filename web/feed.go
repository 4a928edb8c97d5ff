package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	frameInterval = 100 * time.Millisecond // at least, between two frames of a client
	pollInterval  = 2 * time.Second        // of what changes by itself, such as memory
	downAfter     = time.Second            // a successor of superd answers earlier than that
	firstPause    = 100 * time.Millisecond // between two attempts to connect
	longestPause  = 5 * time.Second
	maxLineBytes  = 64 << 20 // of a line of superd
)

// A feed has the state of all instances of one host while somebody looks at it, and passes on what
// changes. It has one connection to superd, however many clients there are.
type feed struct {
	ctx  context.Context
	host *host

	mu      sync.Mutex
	clients map[*viewer]struct{}
	end     context.CancelFunc // nil: nobody looks
	cut     context.CancelFunc // ends the connection of watch
	all     map[string]status
	known   bool   // all is what superd has answered, and it still answers
	failure string // why it does not answer; "" if it does or may yet
	changes uint64 // how often superd has said something
}

// A status is the state of an instance.
type status struct {
	text []byte // as superd has sent it
	key  []byte // the same without what time alone changes
}

// A viewer is a client of a feed, with what it has not been told. It is that of one goroutine; the
// fields belong to the feed's lock.
type viewer struct {
	feed    *feed
	wake    chan struct{} // has a value when there is something to tell
	whole   bool          // it has to be told everything
	changed map[string]struct{}
	down    string // what it was told
}

func newFeed(ctx context.Context, h *host) *feed {
	return &feed{ctx: ctx, host: h, clients: map[*viewer]struct{}{}, all: map[string]status{}}
}

// join adds a viewer. The first one makes the feed run.
func (f *feed) join() *viewer {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &viewer{feed: f, wake: make(chan struct{}, 1), whole: true, changed: map[string]struct{}{}}
	f.clients[v] = struct{}{}
	if f.end == nil {
		var ctx context.Context
		ctx, f.end = context.WithCancel(f.ctx)
		go f.run(ctx)
	}
	v.notify()
	return v
}

// leave removes the viewer. The last one ends the feed.
func (v *viewer) leave() {
	f := v.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, v)
	if len(f.clients) == 0 {
		f.end()
		f.end, f.known, f.failure = nil, false, ""
		clear(f.all)
	}
}

func (v *viewer) notify() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// frame appends what the viewer has not been told, as events of a stream.
func (v *viewer) frame(b *bytes.Buffer) {
	f := v.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != v.down {
		if v.down = f.failure; v.down != "" {
			text, _ := json.Marshal(map[string]string{"error": v.down}) // always written
			event(b, "down", "", text)
		} else {
			event(b, "up", "", []byte("{}"))
			v.whole = true
		}
	}
	if !f.known {
		return
	}
	var gone []string
	names := make([]string, 0, len(v.changed))
	kind := "status"
	if v.whole {
		kind = "snapshot"
		for name := range f.all {
			names = append(names, name)
		}
	} else {
		for name := range v.changed {
			if _, exists := f.all[name]; exists {
				names = append(names, name)
			} else {
				gone = append(gone, name)
			}
		}
	}
	if len(names) > 0 || v.whole {
		slices.Sort(names)
		texts := make([][]byte, len(names))
		for i, name := range names {
			texts[i] = f.all[name].text
		}
		event(b, kind, "", []byte{'['}, bytes.Join(texts, []byte{','}), []byte{']'})
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		text, _ := json.Marshal(gone) // strings are always written
		event(b, "gone", "", text)
	}
	v.whole = false
	clear(v.changed)
}

// run follows the state until ctx is done.
func (f *feed) run(ctx context.Context) {
	go f.poll(ctx)
	pause, last := firstPause, time.Time{} // when superd has answered last
	for ctx.Err() == nil {
		watching, cut := context.WithCancel(ctx)
		f.mu.Lock()
		f.cut = cut
		f.mu.Unlock()
		answered, err := f.watch(watching)
		cut()
		if answered {
			pause, last = firstPause, time.Now()
		}
		if time.Since(last) > downAfter && ctx.Err() == nil {
			f.fail(ctx, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if pause = min(2*pause, longestPause); time.Since(last) < downAfter {
			pause = firstPause
		}
	}
}

// fail tells the viewers that superd does not answer.
func (f *feed) fail(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	f.known, f.failure = false, "superd has ended the connection"
	if err != nil {
		f.failure = err.Error()
	}
	for v := range f.clients {
		v.notify()
	}
}

// watch reads the states that superd sends, and reports whether it has sent any.
func (f *feed) watch(ctx context.Context) (answered bool, err error) {
	answer, err := f.host.stream(ctx, question{path: "/v1/status/watch"})
	if err != nil {
		return false, err
	}
	defer answer.Close()
	lines := bufio.NewReaderSize(answer, 64<<10)
	for {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return answered, nil
		}
		if err == nil {
			err = f.update(ctx, line, 0)
		}
		if err != nil {
			return answered, err
		}
		answered = true
	}
}

// poll asks for the states now and then: superd does not send them when nothing but the use of
// memory and processor has changed. If it hangs, this finds out: watch would wait on.
func (f *feed) poll(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		known, changes := f.known, f.changes
		f.mu.Unlock()
		if !known {
			continue // watch finds out when superd is back
		}
		text, err := f.status(ctx)
		if err == nil {
			_ = f.update(ctx, text, changes) // what is not understood comes by watch, too
		} else if errors.Is(err, errLate) {
			f.fail(ctx, err)
			f.mu.Lock()
			f.cut()
			f.mu.Unlock()
		}
	}
}

// status asks for the states.
func (f *feed) status(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.host.timeout, errLate)
	defer cancel()
	answer, err := f.host.stream(ctx, question{path: "/v1/status"})
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, maxLineBytes))
	if err != nil {
		return nil, f.host.unanswered(ctx, err)
	}
	return text, nil
}

// update takes the states of all instances, a JSON array. If asked is not 0, it is the number of
// changes when they were asked for: they are dropped if newer ones have come.
func (f *feed) update(ctx context.Context, text []byte, asked uint64) error {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	next := make(map[string]status, len(list))
	for _, raw := range list {
		var of struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &of); err != nil {
			return fmt.Errorf("read status: %w", err)
		}
		next[of.Name] = status{raw, timeless(raw)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || asked != 0 && asked != f.changes {
		return nil
	}
	var changed []string
	for name, s := range next {
		if old, exists := f.all[name]; !exists || !bytes.Equal(old.key, s.key) {
			changed = append(changed, name)
		}
	}
	for name := range f.all {
		if _, exists := next[name]; !exists {
			changed = append(changed, name)
		}
	}
	f.changes++
	first := !f.known
	f.all, f.known, f.failure = next, true, ""
	for v := range f.clients {
		for _, name := range changed {
			v.changed[name] = struct{}{}
		}
		if first || len(changed) > 0 {
			v.notify()
		}
	}
	return nil
}

// timeless returns a status without what changes with time alone. Within a string the quotes of the
// names would have backslashes.
func timeless(raw []byte) []byte {
	key := make([]byte, 0, len(raw))
	for _, name := range []string{`"uptime_s":`, `"next_start_in_s":`} {
		before, after, found := bytes.Cut(raw, []byte(name))
		if !found {
			continue
		}
		key = append(key, before...)
		raw = after[max(0, bytes.IndexAny(after, ",}")):]
	}
	return append(key, raw...)
}

// readLine returns the next line, without its end.
func readLine(lines *bufio.Reader) (line []byte, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(line) > maxLineBytes {
			return nil, fmt.Errorf("a line has more than %d bytes", maxLineBytes)
		}
	}
}
