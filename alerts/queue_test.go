package alerts

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config/receiver"
	"superd/procs/eventlog"
)

// A site is a queue with a clock.
type site struct {
	t       *testing.T
	r       *receiver.Receiver
	q       *Queue
	now     time.Time
	number  uint64
	program Program
}

func newSite(t *testing.T, change func(*receiver.Receiver)) *site {
	s := &site{t: t, now: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC), program: Program{SuccessCodes: []int{0}}}
	s.r = &receiver.Receiver{Name: "ops", On: receiver.Conditions(), Timeout: time.Second}
	if change != nil {
		change(s.r)
	}
	s.continueFrom(State{})
	return s
}

func (s *site) continueFrom(state State) {
	s.number = max(s.number, state.Cursor)
	s.q = NewQueue(s.r, Scope{
		Includes: func(program, instance string) bool { return Selects(s.r.Programs, program, instance, nil) },
		Program: func(name string) *Program {
			if name == "gone" {
				return nil
			}
			return &s.program
		},
	}, state, s.now)
}

// add adds the event that text describes, of the instance web:
//
//	FROM>STATE [REASON]  exit CODE  health STATE  flapping STATE  outage STATE  skip  gap N
func (s *site) add(text string) {
	s.number++
	e := eventlog.Event{Cursor: s.number, At: s.now, Instance: "web", Program: "web"}
	words := strings.Fields(text)
	if from, to, isState := strings.Cut(words[0], ">"); isState {
		e.Kind, e.From, e.State, e.Reason = eventlog.State, from, to, "why"
		if len(words) > 1 {
			e.ReasonKind = words[1]
		}
	} else {
		switch e.Kind = eventlog.Kind(words[0]); e.Kind {
		case eventlog.Exit:
			var code int
			fmt.Sscan(words[1], &code)
			e.Exit = &Exit{Code: &code, Known: true}
		case eventlog.Gap:
			fmt.Sscan(words[1], &e.Lost)
			s.number += e.Lost - 1
			e.Cursor, e.Instance, e.Reason = s.number, "", "missing"
		case eventlog.Output:
			e.Output = words[1:]
			if words[1] == "lost" {
				e.Output, e.ReasonKind = nil, "output-lost"
			}
		case eventlog.Skip:
		default:
			e.State = words[1]
		}
	}
	s.q.Add(&e, s.now)
}

// take returns the delivery that is due now as text: a line for each alert.
func (s *site) take() string {
	d := s.q.Take("host", s.now)
	if d == nil {
		return ""
	}
	var lines []string
	for _, a := range d.Alerts {
		if a.Condition == EventsLost {
			continue // see Lost
		}
		line := fmt.Sprintf("%d %s %s", a.Number, a.Condition, a.Instance)
		if a.Reminder > 0 {
			line += fmt.Sprintf(" r%d", a.Reminder)
		}
		for _, over := range a.Recovers {
			line += " after " + string(over)
		}
		lines = append(lines, line)
	}
	for _, m := range d.More {
		lines = append(lines, fmt.Sprintf("+%d %s %d-%d", m.Count, m.Condition, m.First, m.Last))
	}
	if d.Lost != nil && d.Lost.Events != nil {
		lines = append(lines, fmt.Sprintf("lost %d up to %d", *d.Lost.Events, d.Lost.UpTo))
	} else if d.Lost != nil {
		lines = append(lines, "lost unknown")
	}
	return strings.Join(lines, "\n")
}

// want checks what is due now, and acknowledges it.
func (s *site) want(lines ...string) {
	s.t.Helper()
	if got, want := s.take(), strings.Join(lines, "\n"); got != want {
		s.t.Fatalf("at %v the delivery is\n%s\nwant\n%s", s.now.Format(time.TimeOnly), got, want)
	}
	s.q.Done(s.now)
}

// save saves the state.
func (s *site) save() State {
	s.q.Saved()
	return s.q.State()
}

func (s *site) after(d time.Duration) { s.now = s.now.Add(d) }

// TestConditions: what follows from events, whenever superd is killed meanwhile.
func TestConditions(t *testing.T) {
	tests := []struct {
		name, events string // separated by commas; a duration passes time
		oneShot      bool
		want         string
	}{
		{"a failure, once", "running>failed,failed>starting,starting>failed", false, "1 failed web"},
		{"a restart is none", "exit 1,running>backoff,backoff>starting,starting>running", false, ""},
		{"it has recovered when it was ready for a while", "running>failed,failed>starting,starting>running,10s", false,
			"1 failed web\n3 recovered web after failed"},
		{"not before", "running>failed,failed>starting,starting>running,9s,running>backoff,20s", false, "1 failed web"},
		{"nor if it fails again", "running>failed,failed>starting,starting>running,running>failed,20s", false, "1 failed web"},
		{"a stop ends it silently", "running>failed,failed>stopped,stopped>starting,starting>running,20s", false, "1 failed web"},
		{"then it can fail again", "running>failed,failed>stopped,starting>failed", false, "1 failed web\n3 failed web"},
		{"each run of a task counts", "running>failed,failed>starting,starting>running,20s,running>failed", true,
			"1 failed web\n4 failed web"},
		{"a task that succeeds has recovered", "running>failed,starting>exited", true, "1 failed web\n2 recovered web after failed"},
		{"a scheduled run that fails", "running>stopping,exit 3,stopping>waiting", true, "3 failed web"},
		{"a scheduled run that can't be started", "no-start x,starting>waiting", true, "2 failed web"},
		{"a scheduled run that succeeds", "exit 0,running>waiting", true, ""},
		{"it has recovered", "exit 1,running>waiting,waiting>starting,exit 0,running>waiting", true,
			"2 failed web\n5 recovered web after failed"},
		{"it waits for another one", "stopped>waiting", false, ""},
		{"a service that is stopped for a dependency", "running>stopping dependency-lost,exit 143,stopping>waiting,waiting>starting", false, ""},
		{"a service that ends while its dependency is down", "exit 1,running>waiting", false, ""},
		{"a task that is stopped for a dependency", "running>stopping dependency-lost,exit 143,stopping>waiting", true, ""},
		{"nor has it succeeded", "exit 1,running>waiting,waiting>starting,running>stopping stopping-to-restart,exit 0,stopping>waiting", true,
			"2 failed web"},
		{"its next run counts", "running>stopping dependency-lost,exit 143,stopping>waiting,waiting>starting,exit 1,running>waiting", true,
			"6 failed web"},
		{"a task that superd ends for a failure", "running>stopping unhealthy,exit 143,stopping>waiting", true, "3 failed web"},
		{"unhealthy, once", "health unhealthy,running>backoff,health unhealthy", false, "1 unhealthy web"},
		{"healthy", "health healthy,health unhealthy,health healthy,health healthy", false,
			"2 unhealthy web\n3 recovered web after unhealthy"},
		{"flapping", "flapping begun,flapping over", false, "1 flapping web\n2 recovered web after flapping"},
		{"flapping until it has failed", "flapping begun,backoff>failed,flapping over", false, "1 flapping web\n2 failed web"},
		{"flapping until it is stopped", "flapping begun,backoff>stopped,flapping over", false, "1 flapping web"},
		{"out of memory", "running>stopping out-of-memory,stopping>backoff out-of-memory", false, "1 oom web"},
		{"a scheduled run out of memory", "exit 137,running>waiting out-of-memory", true, "2 oom web\n2 failed web"},
		{"a schedule", "skip", true, "1 schedule-missed web"},
		{"a log", "outage begun,outage over", false, "1 log-lost web\n2 recovered web after log-lost"},
		{"lost output", "output lost", false, "1 log-lost web"},
	}
	for _, tt := range tests {
		events := strings.Split(tt.events, ",")
		for killed := range events { // before that event, superd is killed
			t.Run(fmt.Sprintf("%s/%d", tt.name, killed), func(t *testing.T) {
				s := newSite(t, func(r *receiver.Receiver) { r.Batch = time.Hour })
				s.program.OneShot = tt.oneShot
				for i, event := range events {
					if i == killed && s.q.CanSave() {
						s.continueFrom(throughJSON(t, s.save()))
					}
					if d, err := time.ParseDuration(event); err == nil {
						s.after(d)
						s.take() // alerts that follow from the time are put into the queue
						continue
					}
					s.add(event)
				}
				if s.after(time.Hour); tt.want == "" {
					if got := s.take(); got != "" {
						t.Fatalf("got %s, want nothing", got)
					}
					return
				}
				s.want(tt.want)
			})
		}
	}
}

// throughJSON returns a state as it is read from a file.
func throughJSON(t *testing.T, state State) (read State) {
	t.Helper()
	text, err := json.Marshal(state)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestBatch: alerts gather from the first one on; without batch each event is delivered at once.
func TestBatch(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Batch = 5 * time.Second })
	if _, ok := s.q.Due(); ok {
		t.Error("something is due before the first event")
	}
	s.add("skip")
	s.after(4 * time.Second)
	s.add("skip")
	if at, ok := s.q.Due(); !ok || at != s.now.Add(time.Second) || s.take() != "" {
		t.Errorf("due at %v, want 5s after the first alert", at)
	}
	s.after(time.Second)
	s.want("1 schedule-missed web", "2 schedule-missed web")
	if _, ok := s.q.Due(); ok {
		t.Error("something is due when all is delivered")
	}

	s.r.Batch = 0
	s.add("skip")
	if s.q.Reads(s.now) {
		t.Error("it reads on while an alert is due")
	}
	s.want("3 schedule-missed web")
}

// TestSingle: without batch each alert is a delivery of its own, also when several follow from one
// event, and across attempts that fail.
func TestSingle(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Rate = 10 })
	s.add("gap 2")
	s.add("running>failed out-of-memory")
	for _, want := range []string{"lost 2 up to 2", "3 oom web", "3 failed web"} {
		if s.q.CanSave() || s.q.Reads(s.now) {
			t.Error("the state may be saved, or events are read, while an alert waits")
		}
		if got := s.take(); got != want {
			t.Fatalf("the delivery is %s, want %s", got, want)
		}
		s.now = s.q.Failed(s.now, 0.5)
		s.want(want)
	}
	if !s.q.MustSave() {
		t.Error("the state is not to be saved when all is delivered")
	}
}

// TestStall: while nothing is read, it is unknown whether a condition lasts. So nothing follows
// from the time before what came meanwhile is read.
func TestStall(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Repeat, r.Batch = time.Hour, time.Second })
	s.add("running>failed")
	s.after(time.Second)
	s.want("1 failed web")
	s.add("failed>starting")
	s.add("starting>running")
	s.add("health unhealthy")
	s.after(time.Second)
	s.take()
	for range 20 { // meanwhile it fails again, and is healthy
		s.now = s.q.Failed(s.now, 0.5)
		s.take()
	}
	s.q.Done(s.now)
	if reminded := s.q.Reminded(s.now); len(reminded) > 0 {
		t.Errorf("there are reminders of %v", reminded)
	}
	if at, ok := s.q.Due(); ok && at.Before(s.now.Add(time.Second)) {
		t.Errorf("something is due at %v when reading resumes at %v", at, s.now)
	}
	s.want()
	s.add("running>failed")
	s.add("health healthy")
	s.after(time.Second)
	s.want("6 recovered web after unhealthy", "1 failed web r1") // it is down, and an hour is over
}

// TestKey: deliveries that differ have different keys.
func TestKey(t *testing.T) {
	d := Delivery{ID: "1-7", Alerts: []Alert{{ID: "1-7"}}}
	tests := []struct {
		alerts []Alert
		more   []More
		want   string
	}{
		{d.Alerts, nil, "1-7"},
		{[]Alert{{ID: "1-7"}, {ID: "2-8"}}, nil, "1-7..2-8"},
		{[]Alert{{ID: "1-7"}, {ID: "2-8"}}, []More{{Last: 9}, {Last: 5}}, "1-7..2-8+9"},
		{d.Alerts, []More{{Last: 4}}, "1-7+4"},
	}
	for _, tt := range tests {
		if d.Alerts, d.More = tt.alerts, tt.more; d.Key() != tt.want {
			t.Errorf("the key is %s, want %s", d.Key(), tt.want)
		}
	}
}

// TestFull: a delivery that is full does not wait, and nothing more is read.
func TestFull(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Batch = time.Hour })
	n := 0
	for ; s.q.Reads(s.now); n++ {
		s.add("skip")
	}
	if d := s.q.Take("host", s.now); d == nil || len(d.Alerts) != maxAlerts || n != maxAlerts {
		t.Errorf("%d events were read, the delivery is %v", n, d)
	}
}

// TestRate: at most so many deliveries a minute. What comes meanwhile is counted when there is no
// more room, and nothing is lost.
func TestRate(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Rate, r.Batch = 2, time.Second })
	for i := range 2 {
		s.add("skip")
		s.after(time.Second)
		s.want(fmt.Sprintf("%d schedule-missed web", i+1))
	}
	const beyond = 7
	for range maxAlerts + beyond {
		if !s.q.Reads(s.now) {
			t.Fatal("it does not read while the rate prevents a delivery")
		}
		s.add("skip")
	}
	at, _ := s.q.Due()
	if want := s.now.Add(59 * time.Second); at != want || s.take() != "" {
		t.Fatalf("the next one is due at %v, want %v", at, want)
	}
	s.now = at
	got := strings.Split(s.take(), "\n")
	if len(got) != maxAlerts+1 || got[maxAlerts] != fmt.Sprintf("+%d schedule-missed %d-%d", beyond, maxAlerts+3, maxAlerts+2+beyond) {
		t.Errorf("the delivery has %d lines, the last is %q", len(got), got[len(got)-1])
	}
	s.q.Done(s.now)
	if state := s.save(); state.Cursor != maxAlerts+2+beyond {
		t.Errorf("the cursor is %d, want that of the newest event", state.Cursor)
	}
}

// TestRepeat: a reminder comes while the condition lasts, also under a successor.
func TestRepeat(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Repeat = time.Hour })
	s.add("running>failed")
	s.want("1 failed web")
	for i := range 3 {
		s.after(time.Hour - time.Second)
		if got := s.take(); got != "" {
			t.Fatalf("%s comes too early", got)
		}
		if i == 1 {
			text, err := json.Marshal(s.save())
			var state State
			if err != nil || json.Unmarshal(text, &state) != nil {
				t.Fatalf("the state is %s, %v", text, err)
			}
			s.continueFrom(state)
		}
		s.after(time.Second)
		if instances := s.q.Reminded(s.now); !slices.Equal(instances, []string{"web"}) {
			t.Errorf("there are reminders of %v", instances)
		}
		s.want(fmt.Sprintf("1 failed web r%d", i+1))
	}
	s.add("failed>stopped")
	if at, ok := s.q.Due(); ok {
		t.Errorf("something is due at %v when the condition is over", at)
	}
	s.add("starting>failed")
	s.want("3 failed web")
	s.q.Drop(func(_, instance string) bool { return instance == "web" })
	if _, ok := s.q.Due(); ok {
		t.Error("something is due of an instance that is no more")
	}
}

// TestRetry: a delivery that fails is tried again with longer and longer pauses, and nothing is
// read meanwhile.
func TestRetry(t *testing.T) {
	s := newSite(t, nil)
	s.add("skip")
	var pauses []time.Duration
	for range 12 {
		if s.take() != "1 schedule-missed web" {
			t.Fatal("the delivery is another one")
		}
		at := s.q.Failed(s.now, 0.5)
		if due, _ := s.q.Due(); due != at || s.q.Reads(s.now) {
			t.Fatalf("due at %v, want %v; reads: %v", due, at, s.q.Reads(s.now))
		}
		pauses = append(pauses, at.Sub(s.now))
		s.now = at
	}
	if pauses[0] != firstPause || pauses[1] != 2*firstPause || pauses[11] != maxPause {
		t.Errorf("the pauses are %v", pauses)
	}
	for _, random := range []float64{0, 1} {
		s.take()
		if pause := s.q.Failed(s.now, random).Sub(s.now); pause < maxPause*4/5 || pause > maxPause*6/5 {
			t.Errorf("with %v the pause is %v", random, pause)
		}
	}
	until := s.now.Add(time.Hour)
	if at := s.q.Postpone(until); at != until {
		t.Errorf("postponed to %v, want %v", at, until)
	}
	s.now = until
	s.want("1 schedule-missed web")
	if !s.q.Reads(s.now) {
		t.Error("it does not read when all is delivered")
	}
}

// TestLost: a delivery says which events are missing.
func TestLost(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.On = []receiver.Condition{receiver.OOM} })
	s.add("gap 3")
	s.add("skip")
	s.add("gap 2")
	s.want("lost 5 up to 6")
	s.q.Add(&eventlog.Event{Kind: eventlog.Gap, At: s.now}, s.now)
	s.want("lost unknown")
	if s.q.Cursor() != 0 {
		t.Error("the cursor of another event log is kept")
	}
}

// TestState: what was read and needs no delivery is saved now and then.
func TestState(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.On = []receiver.Condition{receiver.OOM} })
	for range saveEvery - 1 {
		s.add("skip")
	}
	if s.q.MustSave() || !s.q.CanSave() {
		t.Error("the state is to be saved too early")
	}
	if s.add("skip"); !s.q.MustSave() {
		t.Error("the state is not to be saved")
	}
	if got := s.save(); got.Cursor != saveEvery || got.At != s.now || s.q.CanSave() {
		t.Errorf("the state is %+v", got)
	}
	s.add("running>failed")
	if !s.q.MustSave() {
		t.Error("a condition that began is not to be saved")
	}
	state := s.save()
	state.Active = append(state.Active, Active{Instance: "gone", Program: "gone", Condition: receiver.Failed})
	s.continueFrom(state)
	if all := s.q.State().Active; len(all) != 1 || all[0].Instance != "web" {
		t.Errorf("a successor has %+v, want what is in the configuration", all)
	}
}

// TestOutput: the last lines of a run come into the alert that waits.
func TestOutput(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Batch = time.Second })
	s.add("exit 1")
	s.add("running>failed")
	s.add("output no such table")
	s.after(time.Second)
	d := s.q.Take("host", s.now)
	if d == nil || len(d.Alerts) != 1 || !reflect.DeepEqual(d.Alerts[0].Output, []string{"no", "such", "table"}) || *d.Alerts[0].Exit.Code != 1 {
		t.Errorf("the delivery is %+v", d)
	}
}

// TestFailedStart: the output of a start that failed comes into its alert, that of another run does
// not. Two alerts of one event have ids of their own.
func TestFailedStart(t *testing.T) {
	s := newSite(t, func(r *receiver.Receiver) { r.Batch = time.Second })
	for _, e := range []eventlog.Event{
		{Kind: eventlog.NoStart, Run: "b"},
		{Kind: eventlog.State, From: "starting", State: "failed", ReasonKind: "out-of-memory"},
		{Kind: eventlog.Output, Run: "a", Output: []string{"of another run"}},
		{Kind: eventlog.Output, Run: "b", Output: []string{"no such file"}},
	} {
		s.number++
		e.Cursor, e.At, e.Instance, e.Program = s.number, s.now, "web", "web"
		s.q.Add(&e, s.now)
	}
	s.after(time.Second)
	d := s.q.Take("host", s.now)
	if d == nil || len(d.Alerts) != 2 {
		t.Fatalf("the delivery is %+v", d)
	}
	for _, a := range d.Alerts {
		if a.Run != "b" || !slices.Equal(a.Output, []string{"no such file"}) {
			t.Errorf("the alert %s of run %q has the output %q", a.Condition, a.Run, a.Output)
		}
	}
	if d.Alerts[0].ID != d.Alerts[1].ID+"-oom" {
		t.Errorf("the ids are %q and %q", d.Alerts[0].ID, d.Alerts[1].ID)
	}
}

// TestSelects: names, groups and globs.
func TestSelects(t *testing.T) {
	tests := []struct {
		names string
		want  bool
	}{
		{"", true}, {"web", true}, {"web@2", true}, {"front", true}, {"w*", true}, {"web@?", true},
		{"web@1", false}, {"db back", false}, {"fron*", false},
	}
	for _, tt := range tests {
		if got := Selects(strings.Fields(tt.names), "web", "web@2", []string{"front"}); got != tt.want {
			t.Errorf("Selects(%q): %v, want %v", tt.names, got, tt.want)
		}
	}
}

// TestSample: the delivery that templates are tried with has the keys of one, and no others.
func TestSample(t *testing.T) {
	s := newSite(t, nil)
	s.add("exit 1")
	s.add("running>failed")
	d := s.q.Take("host", s.now)
	d.More, d.Lost = []More{{Programs: []string{"web"}}}, &Lost{Events: new(uint64)}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var own, sample map[string]any
	if err := json.Unmarshal(text, &own); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(receiver.Sample), &sample); err != nil {
		t.Fatal(err)
	}
	var compare func(at string, a, b any)
	compare = func(at string, a, b any) {
		switch a := a.(type) {
		case map[string]any:
			other, ok := b.(map[string]any)
			for key := range a {
				if !ok || !has(other, key) {
					t.Errorf("only one has %s.%s", at, key)
					continue
				}
				compare(at+"."+key, a[key], other[key])
			}
		case []any:
			if other, ok := b.([]any); ok && len(a) > 0 && len(other) > 0 {
				compare(at, a[0], other[0])
			}
		}
	}
	compare("delivery", own, sample)
	compare("sample", sample, own)
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }
