package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"superd/alerts"
	"superd/config"
	"superd/config/receiver"
	"superd/procs/eventlog"
)

// patience is a deadline that only a defect reaches.
const patience = time.Minute

// A site is a manager with the receiver ops, whose command reports the alerts that it gets.
type site struct {
	t       *testing.T
	dir     string
	events  *eventlog.Log
	manager *Manager
	got     chan *alerts.Delivery
	adopted chan string
	tree    string
}

func newSite(t *testing.T) *site {
	s := &site{
		t: t, dir: filepath.Join(t.TempDir(), "alerts"), got: make(chan *alerts.Delivery, 100),
		adopted: make(chan string, 100),
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.events = eventlog.Open(t.TempDir(), 1<<20, log)
	t.Cleanup(func() { s.events.Close(patience) })
	s.manager = New(Options{
		Dir: s.dir, Machine: "host", Events: s.events, Log: log,
		Execute: func(ctx context.Context, c Command) (string, error) {
			if s.tree != "" {
				c.SaveTree(s.tree)
			}
			var d alerts.Delivery
			if err := json.Unmarshal(c.Body, &d); err != nil {
				t.Errorf("the delivery is %s: %v", c.Body, err)
			}
			s.got <- &d
			return "", nil
		},
		Adopt:   func(name, tree string) { s.adopted <- name + " " + tree },
		Release: func(string) {},
		Exists: func(_ context.Context, instances []string) map[string]bool {
			return map[string]bool{"web": slices.Contains(instances, "web")}
		},
		Begun: func() {},
	})
	t.Cleanup(func() { s.manager.Close(patience) })
	return s
}

// begin puts the receiver in force.
func (s *site) begin(mistakes ...*config.KeyError) {
	c := &config.Config{Programs: []*config.Program{config.DefaultProgram("web")}}
	c.Receivers = []*receiver.Receiver{{
		Name: "ops", On: receiver.Conditions(), Exec: []string{"tell"}, Timeout: time.Second, Invalid: mistakes,
	}}
	s.manager.Apply(c)
}

// write writes the state of the receiver.
func (s *site) write(state string) {
	s.t.Helper()
	if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.WriteFile(filepath.Join(s.dir, "ops.json"), []byte(state), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// state returns the state that is saved.
func (s *site) state() (state alerts.State) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "ops.json"))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

func (s *site) fail() {
	s.events.Append(eventlog.Event{
		At: time.Now(), Kind: eventlog.State, Instance: "web", Program: "web", From: "running", State: "failed",
	})
}

// next returns the condition of the only alert of the next delivery.
func (s *site) next() receiver.Condition {
	s.t.Helper()
	select {
	case d := <-s.got:
		if len(d.Alerts) != 1 {
			s.t.Fatalf("a delivery without batch has %d alerts", len(d.Alerts))
		}
		return d.Alerts[0].Condition
	case <-time.After(patience):
		s.t.Fatal("no delivery comes")
		return ""
	}
}

// TestNew: a receiver that is new begins with later events, at one that is written. The process
// tree of its command is in its state.
func TestNew(t *testing.T) {
	s := newSite(t)
	s.tree = "/tree"
	s.fail()
	s.begin()
	<-s.adopted
	if state := s.state(); state.Cursor != 1 || state.At.IsZero() {
		t.Errorf("the state is %+v, want that of the first event", state)
	}
	s.events.Append(eventlog.Event{At: time.Now(), Kind: eventlog.Skip, Instance: "web", Program: "web"})
	if got := s.next(); got != receiver.ScheduleMissed {
		t.Errorf("the first alert is %s", got)
	}
	s.manager.Close(patience)
	if state := s.state(); state.Cursor != 2 || state.Tree != "/tree" {
		t.Errorf("at last the state is %+v", state)
	}
}

// TestArrivesAtTheEnd: what has arrived while the manager was closed is not delivered again.
func TestArrivesAtTheEnd(t *testing.T) {
	s := newSite(t)
	s.manager.Execute = func(ctx context.Context, _ Command) (string, error) {
		s.got <- nil
		<-ctx.Done()
		return "", nil
	}
	s.begin()
	<-s.adopted
	s.fail()
	<-s.got
	s.manager.Close(patience)
	if state := s.state(); state.Cursor != 1 {
		t.Errorf("at last the state is %+v, want that of the first event", state)
	}
}

// TestBrokenState: a state that can't be read loses no alert silently.
func TestBrokenState(t *testing.T) {
	s := newSite(t)
	s.fail()
	s.write(`{"cursor": 7`)
	s.begin()
	for _, want := range []receiver.Condition{alerts.EventsLost, receiver.Failed} {
		if got := s.next(); got != want {
			t.Errorf("the alert is %s, want %s", got, want)
		}
	}
}

// TestUnreadableState: a state that can't be read for now is kept.
func TestUnreadableState(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(s.dir, "ops.json")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.manager.files.load("ops")
	if err == nil || errors.Is(err, errBroken) {
		t.Errorf("load: %v, want an error that may go away", err)
	}
	s.begin()
	for deadline := time.Now().Add(patience); s.manager.Status()[0].LastError == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the status has no error")
		}
	}
	s.manager.Close(patience)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Errorf("the state was replaced: %v", err)
	}
}

// TestMistake: what the command of a receiver with a mistake has left is killed, and its state is
// kept.
func TestMistake(t *testing.T) {
	s := newSite(t)
	s.write(`{"cursor": 7, "tree": "/left"}`)
	s.begin(&config.KeyError{})
	select {
	case got := <-s.adopted:
		if got != "ops /left" {
			t.Errorf("adopted: %q", got)
		}
	case <-time.After(patience):
		t.Fatal("the tree is not adopted")
	}
	s.manager.Close(patience)
	if state := s.state(); state.Cursor != 7 {
		t.Errorf("the state is %+v", state)
	}
}

// TestUnsaved: a state that can't be saved is not taken for a saved one, and the path of the tree
// is saved with the next one.
func TestUnsaved(t *testing.T) {
	s := newSite(t)
	s.write(`{}`)
	s.begin()
	<-s.adopted
	s.manager.Close(patience)
	w := s.manager.workers["ops"]
	if err := os.Mkdir(filepath.Join(s.dir, "ops"+temporary), 0o700); err != nil {
		t.Fatal(err)
	}
	e := eventlog.Event{Cursor: 9, At: time.Now(), Kind: eventlog.Superd}
	w.queue.Add(&e, e.At)
	w.saveTree("/tree")
	if w.save(); !w.queue.CanSave() || w.saveAgain.IsZero() {
		t.Error("a state that could not be saved counts as saved")
	}
	if err := os.Remove(filepath.Join(s.dir, "ops"+temporary)); err != nil {
		t.Fatal(err)
	}
	w.save()
	if state := s.state(); state.Cursor != 9 || state.Tree != "/tree" || w.queue.CanSave() {
		t.Errorf("the state is %+v", state)
	}
}

// TestTestEnds: a test delivery ends with the worker.
func TestTestEnds(t *testing.T) {
	s := newSite(t)
	s.manager.Execute = func(ctx context.Context, _ Command) (string, error) {
		s.got <- nil
		<-ctx.Done()
		return "", ctx.Err()
	}
	s.begin()
	results := make(chan TestResult, 1)
	go func() {
		result, err := s.manager.Test(context.Background(), "ops")
		if err != nil {
			t.Errorf("test: %v", err)
		}
		results <- result
	}()
	<-s.got
	s.manager.Close(patience)
	select {
	case result := <-results:
		if result.Err == nil {
			t.Error("the test has succeeded")
		}
	case <-time.After(patience):
		t.Fatal("the test has outlived its worker")
	}
}

// TestSecretHangs: a file system that hangs holds up a request no longer than its time-out, and the
// next request waits for the same reading.
func TestSecretHangs(t *testing.T) {
	reading := make(chan secret, 1)
	w := &webhook{reading: reading}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.secret(ctx, "/secret"); err == nil || w.reading != reading {
		t.Errorf("secret: %v", err)
	}
	reading <- secret{text: []byte("s")}
	if text, err := w.secret(context.Background(), "/secret"); err != nil || string(text) != "s" || w.reading != nil {
		t.Errorf("secret: %q, %v", text, err)
	}
}
