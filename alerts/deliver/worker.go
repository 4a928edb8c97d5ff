package deliver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"superd/alerts"
	"superd/config/receiver"
	"superd/internal/escape"
	"superd/internal/terminal"
	"superd/procs/eventlog"
)

// A worker delivers to one receiver. Its goroutine has the queue; a second one reads the event log.
// Nothing wakes them while no event comes and nothing is pending.
type worker struct {
	manager  *Manager
	receiver *receiver.Receiver
	queue    *alerts.Queue
	saved    alerts.State // as it was saved last
	webhook  *webhook     // nil: it has a command

	stop    context.CancelFunc
	tests   chan testRequest
	changed chan struct{} // the configuration is another one; of capacity 1

	mu     sync.Mutex
	status Status
	// Logged once until the next success
	failing, saveFailing bool
	saveAgain            time.Time // when a state that was not saved is saved again; zero: it was
}

// A Status is what is known of a receiver. Times are zero for what has not happened.
type Status struct {
	Name        string
	Target      string // the command, or the URL without what may be secret
	Exec        bool
	Problem     string // why it is not used; empty: it is
	Cursor      uint64 // number of the newest event that was read
	Lag         uint64 // events after that
	Pending     int    // alerts that wait
	Delivered   uint64 // deliveries, since superd started
	Failures    int    // attempts that have failed since the last success
	LastSuccess time.Time
	LastError   string
	LastErrorAt time.Time
	RetryAt     time.Time // of the delivery that has failed
}

// A TestResult is what came of a test.
type TestResult struct {
	Err      error         // nil: it has arrived
	Status   int           // of the answer; 0: there is none
	Output   string        // begin of the answer, or end of the command's output
	Duration time.Duration //
}

type testRequest struct {
	ctx    context.Context
	result chan TestResult // of capacity 1
}

// readPause is how long the worker waits after its state, or the event log, could not be read or
// written.
const readPause = 10 * time.Second

// load reads the state of the receiver, until ctx is done. The state of one that is new begins at
// the newest event. lost says why the alerts of before are unknown; empty: they are not.
func (w *worker) load(ctx context.Context, newest uint64) (state alerts.State, lost string, err error) {
	for warned := false; ; warned = true {
		state, ok, err := w.manager.files.load(w.receiver.Name)
		switch {
		case err == nil && ok:
			return state, "", nil
		case err == nil:
			if state, err = w.newState(ctx, newest); err == nil {
				w.put(state)
			}
			return state, "", err
		case !warned:
			w.manager.Log.Warn("state of a receiver of alerts not read", "error", err)
		}
		if errors.Is(err, errBroken) {
			return alerts.State{}, "the state of the receiver can't be read", nil
		}
		w.note(func(s *Status) { s.LastError, s.LastErrorAt = err.Error(), time.Now() })
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
			return state, "", ctx.Err()
		}
	}
}

// newState returns the state of a receiver that is new. Its event is written before the state is:
// a successor gives the number of one that is not written to another one.
func (w *worker) newState(ctx context.Context, newest uint64) (alerts.State, error) {
	state := alerts.State{Cursor: newest}
	if newest == 0 {
		return state, nil
	}
	if err := w.manager.Events.Flush(ctx); err != nil {
		return state, err
	}
	for e, err := range w.manager.Events.Since(newest - 1) {
		if err == nil && e.Cursor == newest && e.Kind != eventlog.Gap {
			state.At = e.At
		}
		break
	}
	return state, nil
}

// begin makes the queue, which continues from the state. It fails if ctx is done before.
func (w *worker) begin(ctx context.Context, newest uint64) error {
	state, lost, err := w.load(ctx, newest)
	if err != nil {
		return err
	}
	w.saved = state
	w.queue = alerts.NewQueue(w.receiver, w.manager.scope(w.receiver), state, time.Now())
	switch {
	case lost != "":
		w.queue.Forget(lost, time.Now())
	case !w.sameLog():
		w.queue.Forget("the event log was begun anew", time.Now())
	}
	if state.Tree != "" || len(w.receiver.Exec) > 0 {
		w.manager.Adopt(w.receiver.Name, state.Tree)
	}
	return nil
}

// run delivers until ctx is done.
func (w *worker) run(ctx context.Context, newest uint64) {
	if w.begin(ctx, newest) != nil {
		return
	}
	if w.webhook != nil {
		defer w.webhook.close()
	}
	events := make(chan *eventlog.Event)
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx) // ends the reader, too
	defer cancel()
	reading.Go(func() { w.read(ctx, w.queue.Cursor(), events) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for w.step(ctx, events, timer) {
	}
	if w.queue.CanSave() {
		w.save()
	}
}

// step does what is due and waits for what comes next. It reports whether to continue.
func (w *worker) step(ctx context.Context, events <-chan *eventlog.Event, timer *time.Timer) bool {
	now := time.Now()
	if reminded := w.queue.Reminded(now); len(reminded) > 0 {
		exists := w.manager.Exists(ctx, reminded)
		w.queue.Drop(func(_, instance string) bool { there, asked := exists[instance]; return asked && !there })
	}
	if d := w.queue.Take(w.manager.Machine, now); d != nil {
		w.deliver(ctx, d)
		w.publish()
		return ctx.Err() == nil
	}
	if w.queue.MustSave() && !now.Before(w.saveAgain) {
		w.save()
	}
	w.publish()
	if !w.queue.Reads(now) {
		events = nil
	}
	timer.Stop()
	at, ok := w.queue.Due()
	if again := w.saveAgain; w.queue.MustSave() && (!ok || again.Before(at)) {
		at, ok = again, true
	}
	if ok {
		timer.Reset(max(time.Until(at), time.Millisecond))
	}
	select {
	case e, ok := <-events:
		if ok {
			w.queue.Add(e, time.Now())
		} else {
			<-ctx.Done() // the event log is closed: superd ends
			return false
		}
	case <-timer.C:
	case t := <-w.tests:
		w.test(ctx, t)
	case <-w.changed:
		c := w.manager.config.Load()
		w.queue.Drop(func(program, _ string) bool { return c.Program(program) == nil })
	case <-ctx.Done():
		return false
	}
	return true
}

// read sends the events after a number to the worker, until ctx is done or the event log is closed.
func (w *worker) read(ctx context.Context, from uint64, events chan<- *eventlog.Event) {
	defer close(events)
	warned := false // since it was last read
	for ctx.Err() == nil {
		failed := false
		for e, err := range w.manager.Events.Follow(ctx, from) {
			if err != nil {
				if !warned {
					w.manager.Log.Warn("alerts wait: the event log can't be read", "receiver", w.receiver.Name,
						"error", err)
				}
				failed, warned = true, true
				break
			}
			warned = false
			select {
			case events <- &e:
				from = e.Cursor // 0 if the log was begun anew
			case <-ctx.Done():
				return
			}
		}
		if !failed {
			return
		}
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
		}
	}
}

// sameLog reports whether the event log is the one that the state is about: the event with its
// number has its time, or is too old to be kept.
func (w *worker) sameLog() bool {
	state := &w.saved
	if state.Cursor == 0 || state.At.IsZero() {
		return true
	}
	for e, err := range w.manager.Events.Since(state.Cursor - 1) {
		return err != nil || e.Cursor != state.Cursor || e.Kind == eventlog.Gap || e.At.Equal(state.At)
	}
	return true
}

// deliver makes one attempt of a delivery.
func (w *worker) deliver(ctx context.Context, d *alerts.Delivery) {
	began := time.Now()
	result := w.send(ctx, d)
	if result.Err != nil && ctx.Err() != nil {
		return // it is not known whether it has arrived: a successor tries again
	}
	log := w.manager.Log.With("receiver", w.receiver.Name)
	if result.Err == nil {
		if w.queue.Done(time.Now()); w.queue.CanSave() {
			w.save()
		}
		if w.failing {
			log.Info("alerts delivered again", "attempts", d.Attempt)
		}
		w.failing = false
		w.note(func(s *Status) {
			s.Delivered++
			s.Failures, s.LastSuccess, s.RetryAt = 0, began, time.Time{}
		})
		return
	}
	now := time.Now()
	if errors.Is(result.Err, ErrEnding) {
		w.queue.Failed(now, 1) // a successor tries again
		return
	}
	retry := w.queue.Failed(now, rand.Float64())
	if refused, ok := errors.AsType[*refusal](result.Err); ok && refused.after > 0 {
		retry = w.queue.Postpone(now.Add(refused.after))
	}
	if !w.failing {
		log.Warn("alerts not delivered; superd tries again, with longer and longer pauses",
			"error", result.Err, "output", result.Output, "alerts", d.Summary())
	} else {
		log.Debug("alerts not delivered", "error", result.Err, "attempt", d.Attempt)
	}
	w.failing = true
	w.note(func(s *Status) {
		s.Failures++
		s.LastError, s.LastErrorAt, s.RetryAt = result.Err.Error(), now, retry
	})
}

// test makes a test delivery. It ends when nobody waits for it any more, or the worker ends.
func (w *worker) test(ctx context.Context, t testRequest) {
	if t.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	t.result <- w.send(ctx, alerts.TestDelivery(w.receiver, w.manager.Machine, time.Now()))
}

// send sends a delivery.
func (w *worker) send(ctx context.Context, d *alerts.Delivery) (result TestResult) {
	began := time.Now()
	defer func() { result.Duration = time.Since(began) }()
	body, err := w.body(d)
	if err != nil {
		return TestResult{Err: err}
	}
	if w.webhook != nil {
		status, answer, err := w.webhook.send(ctx, d.Key(), body)
		return TestResult{Err: err, Status: status, Output: oneLine(answer)}
	}
	output, err := w.manager.execute(ctx, w, d.Key(), body)
	result = TestResult{Err: err, Output: oneLine(output)}
	if err == nil && output != "" && !d.Test {
		w.manager.Log.Info("output of the command of a receiver", "receiver", w.receiver.Name, "output", result.Output)
	}
	return result
}

// body returns what is sent.
func (w *worker) body(d *alerts.Delivery) ([]byte, error) {
	text, err := escape.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("make delivery: %w", err)
	}
	if w.receiver.Template == "" {
		return append(text, '\n'), nil
	}
	body, err := receiver.Render(w.receiver.Template, text)
	if err != nil {
		// A delivery that fails for ever would hold up those after it
		w.manager.Log.Warn("template not filled: the receiver gets JSON", "receiver", w.receiver.Name, "error", err)
		return append(text, '\n'), nil
	}
	return body, nil
}

// save saves the state. A failure is logged once, and superd tries again later: until then, a
// successor may deliver again what has arrived.
func (w *worker) save() {
	state := w.queue.State()
	state.Tree = w.saved.Tree
	if w.put(state) {
		w.queue.Saved()
	}
}

// put saves a state, and reports whether it is saved.
func (w *worker) put(state alerts.State) (ok bool) {
	if err := w.manager.files.save(w.receiver.Name, state); err != nil {
		if !w.saveFailing {
			w.manager.Log.Warn("a successor of superd may repeat alerts", "error", err)
		}
		w.saveFailing, w.saveAgain = true, time.Now().Add(readPause)
		return false
	}
	w.saved, w.saveFailing, w.saveAgain = state, false, time.Time{}
	return true
}

// saveTree saves the path of the process tree of the command, by which a successor finds processes
// that are left. If it fails, the path is in what is saved next.
func (w *worker) saveTree(path string) {
	if w.saved.Tree != path {
		w.saved.Tree = path
		w.put(w.saved)
	}
}

// note changes the status.
func (w *worker) note(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// publish puts the progress into the status.
func (w *worker) publish() {
	w.note(func(s *Status) { s.Cursor, s.Pending = w.queue.Cursor(), w.queue.Pending() })
}

// oneLine returns a text as valid UTF-8 without what affects a terminal, at most maxShown bytes.
func oneLine(text string) string {
	const maxShown = 1 << 10
	text = strings.ReplaceAll(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), "\n", "; ")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return terminal.Sanitize(text)
}
