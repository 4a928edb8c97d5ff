package listener

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"superd/compat/supervisor"
	"superd/control"
)

func TestSubscribe(t *testing.T) {
	tests := []struct {
		name, events string
		has, hasNot  string
	}{
		{"one event", "PROCESS_STATE_EXITED", "PROCESS_STATE_EXITED", "PROCESS_STATE_FATAL"},
		{"an abstract event has those below it", "PROCESS_STATE", "PROCESS_STATE_EXITED PROCESS_STATE_UNKNOWN", "PROCESS_LOG_STDOUT"},
		{"the root has all", "EVENT", "TICK_5 REMOTE_COMMUNICATION PROCESS_GROUP_ADDED", ""},
		{"in any case, with blanks", " tick_60 ,process_log", "TICK_60 PROCESS_LOG_STDERR", "TICK_5 TICK_3600"},
		{"former names", "PROCESS_STATE_CHANGE_EXITED_OR_STOPPED", "PROCESS_STATE_EXITED PROCESS_STATE_STOPPED", "PROCESS_STATE_RUNNING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Subscribe(strings.Split(tt.events, ","))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range strings.Fields(tt.has) {
				if !s.Has(name) {
					t.Errorf("Subscribe(%q) has not %s", tt.events, name)
				}
			}
			for _, name := range strings.Fields(tt.hasNot) {
				if s.Has(name) {
					t.Errorf("Subscribe(%q) has %s", tt.events, name)
				}
			}
		})
	}
	for _, events := range [][]string{nil, {"NONE"}, {"TICK_60", ""}} {
		if s, err := Subscribe(events); err == nil {
			t.Errorf("Subscribe(%q) = %q, want an error", events, s)
		}
	}
}

// step is what a listener writes, and what comes of it. An event is sent when it is ready.
type step struct {
	writes string
	result string // "": none
	phase  phase
	err    string
}

func TestProtocol(t *testing.T) {
	tests := []struct {
		name  string
		steps []step
	}{
		{"one event after the other", []step{{"READY\n", "", ready, ""}, {"RESULT 2\nOK", "OK", acknowledged, ""},
			{"READY\n", "", ready, ""}, {"RESULT 4\nFAIL", "FAIL", acknowledged, ""}}},
		{"in parts", []step{{"REA", "", acknowledged, ""}, {"DY\n", "", ready, ""}, {"RES", "", busy, ""},
			{"ULT 2\nO", "", busy, ""}, {"K", "OK", acknowledged, ""}}},
		{"result and the next readiness at once", []step{{"READY\n", "", ready, ""}, {"RESULT 2\nOKREADY\n", "OK", ready, ""}}},
		{"result and a part of the next readiness", []step{{"READY\n", "", ready, ""}, {"RESULT 2\nOKREA", "OK", acknowledged, ""},
			{"DY\n", "", ready, ""}}},
		{"an empty result", []step{{"READY\n", "", ready, ""}, {"RESULT 0\nREADY\n", "", ready, ""}}},
		{"text before it is ready", []step{{"hello\n", "", acknowledged, `it wrote "hello\n" where READY was due`}}},
		{"ready twice", []step{{"READY\nREADY\n", "", ready, `it wrote "READY\n" before it got an event`}}},
		{"no result", []step{{"READY\n", "", ready, ""}, {"OK\n", "", busy, `it wrote "OK" where RESULT and a length were due`}}},
		{"a result of no length", []step{{"READY\n", "", ready, ""}, {"RESULT x\n", "", busy, `it wrote "RESULT x" where RESULT and a length were due`}}},
		{"a negative length", []step{{"READY\n", "", ready, ""}, {"RESULT -1\n", "", busy, `it wrote "RESULT -1" where RESULT and a length were due`}}},
		{"a result that is too long", []step{{"READY\n", "", ready, ""}, {"RESULT 99999999\n", "", busy,
			`it wrote "RESULT 99999999" where RESULT and a length were due`}}},
		{"a line that never ends", []step{{"READY\n", "", ready, ""}, {strings.Repeat("x", 100), "", busy,
			`it wrote "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… where RESULT and a length were due`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p protocol
			for i, s := range tt.steps {
				if p.phase == ready {
					p.sent()
				}
				result, _, err := p.read([]byte(s.writes))
				text := ""
				if err != nil {
					text = err.Error()
				}
				if result != s.result && err == nil || p.phase != s.phase || text != s.err {
					t.Errorf("%d: read(%q) = %q, %q in phase %d, want %q, %q in %d", i, s.writes, result, text, p.phase,
						s.result, s.err, s.phase)
				}
			}
		})
	}
}

// TestQueue: a full queue drops its oldest event, also for one that is put back, which keeps its
// numbers.
func TestQueue(t *testing.T) {
	q := queue{limit: 2}
	for i := range 3 {
		q.add(Event{Name: fmt.Sprint(i)})
	}
	first, _ := q.next()
	q.add(Event{Name: "3"})
	q.putBack(first)
	var got []string
	for e, ok := q.next(); ok; e, ok = q.next() {
		got = append(got, fmt.Sprintf("%s as %d", e.Name, e.serial))
	}
	if want := []string{"1 as 1", "3 as 3"}; !slices.Equal(got, want) || q.takeDropped() != 2 || q.takeDropped() != 0 {
		t.Errorf("the queue has %q, %d dropped, want %q, 2", got, q.dropped, want)
	}
}

func TestEnvelope(t *testing.T) {
	e := numbered{Event{"PROCESS_LOG_STDOUT", "a:b\né\n"}, 21, 10}
	want := "ver:3.0 server:superd serial:21 pool:l poolserial:10 eventname:PROCESS_LOG_STDOUT len:6\na:b\né\n"
	if got := string(e.envelope("superd", "l")); got != want {
		t.Errorf("envelope = %q, want %q", got, want)
	}
}

func TestCapture(t *testing.T) {
	tests := []struct {
		name string
		text []string
		want []string
	}{
		{"in one piece", []string{"a" + beginToken + "x" + endToken + "b" + beginToken + "y" + endToken}, []string{"x", "y"}},
		{"in parts", []string{"a<!--XSUPER", "VISOR:BEGIN-->x\n", "y<!--XSUPERVISOR:E", "ND-->"}, []string{"x\ny"}},
		{"an end without a begin", []string{endToken + beginToken, endToken}, []string{""}},
		{"a message that is too long keeps its end", []string{beginToken + strings.Repeat("é", maxMessage), "z" + endToken},
			[]string{strings.Repeat("é", maxMessage/2) + "z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c capture
			var got []string
			for _, text := range tt.text {
				got = append(got, c.feed(text)...)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("feed(%.60q) = %.60q, want %.60q", tt.text, got, tt.want)
			}
		})
	}
}

// event returns an event of superd: its kind, the states before and after, and what more it has in
// JSON.
func event(t *testing.T, kind, from, to, more string) *control.Event {
	t.Helper()
	e := &control.Event{}
	if more != "" {
		if err := json.Unmarshal([]byte(more), e); err != nil {
			t.Fatal(err)
		}
	}
	e.Kind, e.From, e.State = kind, from, to
	if kind != control.KindSuperd && kind != control.KindShutdown {
		e.Instance, e.Program = "web@2", "web"
	}
	return e
}

func TestTranslate(t *testing.T) {
	start := []string{"state stopped starting", `start - - {"pid":7}`, "state starting running"}
	started := []string{"STARTING STOPPED tries:0", "RUNNING STARTING pid:7"}
	tests := []struct {
		name         string
		events, want []string
	}{
		{"start and stop", []string{"state running stopping", `exit - - {"pid":7}`, "state stopping stopped"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7"}},
		{"a stop that needs SIGKILL", []string{"state running stopping", "state stopping stopping", "state stopping stopped"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7"}},
		{"a restart", []string{"state running stopping", `exit - - {"pid":7}`, "state stopping starting"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7", "STARTING STOPPED tries:0"}},
		{"a crash is EXITED until the next start", []string{`exit - - {"pid":7,"exit":{"code":3}}`, "state running backoff",
			"state backoff starting"}, []string{"EXITED RUNNING expected:0 pid:7", "STARTING EXITED tries:0"}},
		{"a crash that leaves processes", []string{`exit - - {"pid":7,"exit":{"code":3}}`, "state running stopping",
			"state stopping backoff"}, []string{"EXITED RUNNING expected:0 pid:7"}},
		{"a success", []string{`exit - - {"pid":7,"exit":{"code":0}}`, "state running exited"}, []string{"EXITED RUNNING expected:1 pid:7"}},
		{"a status that the configuration calls success", []string{`exit - - {"pid":7,"exit":{"code":5}}`, "state running backoff"},
			[]string{"EXITED RUNNING expected:1 pid:7"}},
		{"a signal", []string{`exit - - {"pid":7,"exit":{"code":null,"signal":"SIGKILL"}}`, "state running backoff"},
			[]string{"EXITED RUNNING expected:0 pid:7"}},
		{"an end without a restart", []string{`exit - - {"pid":7,"exit":{"code":3}}`, `state running failed {"reason_kind":"exited"}`},
			[]string{"EXITED RUNNING expected:0 pid:7"}},
		{"the start limit", []string{`exit - - {"pid":7,"exit":{"code":3}}`, `state running failed {"reason_kind":"start-limit-hit"}`},
			[]string{"EXITED RUNNING expected:0 pid:7", "FATAL EXITED"}},
		{"ended before it was ready", []string{"state running stopping", "state stopping stopped", "state stopped starting",
			`start - - {"pid":8}`, `exit - - {"pid":8,"exit":{"code":1}}`, "state starting backoff", "state backoff starting", "no-start - -",
			"state starting backoff", "state backoff starting", `start - - {"pid":9}`, "state starting running"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7", "STARTING STOPPED tries:0", "BACKOFF STARTING tries:1",
				"STARTING BACKOFF tries:1", "BACKOFF STARTING tries:2", "STARTING BACKOFF tries:2", "RUNNING STARTING pid:9"}},
		{"stopped in its backoff", []string{"state running stopping", "state stopping stopped", "state stopped starting",
			"no-start - -", "state starting backoff", "state backoff stopped"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7", "STARTING STOPPED tries:0", "BACKOFF STARTING tries:1",
				"STOPPED BACKOFF pid:0"}},
		{"ended as unhealthy", []string{"state running stopping", `exit - - {"pid":7}`, "state stopping backoff", "state backoff starting"},
			[]string{"STOPPING RUNNING pid:7", "STOPPED STOPPING pid:7", "STARTING STOPPED tries:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTranslator()
			tr.activate(map[string]supervisor.Program{"web": supervisor.NewProgram("g", []int{0, 5})})
			var got []string
			for _, text := range slices.Concat(start, tt.events) {
				kind, rest, _ := strings.Cut(text, " ")
				from, rest, _ := strings.Cut(rest, " ")
				to, more, _ := strings.Cut(rest, " ")
				for _, e := range tr.translate(event(t, kind, from, to, more)) {
					name := strings.TrimPrefix(e.Name, "PROCESS_STATE_")
					payload := strings.TrimPrefix(e.Payload, "processname:web_01 groupname:g from_state:")
					got = append(got, name+" "+payload)
				}
			}
			if want := slices.Concat(started, tt.want); !slices.Equal(got, want) {
				t.Errorf("events\n%q, want\n%q", got, want)
			}
		})
	}
}

// TestGroups: a reload adds and removes groups. A program that was removed keeps its group while it
// stops.
func TestGroups(t *testing.T) {
	tr := newTranslator()
	tr.activate(map[string]supervisor.Program{"a": supervisor.NewProgram("g", nil), "b": supervisor.NewProgram("b", nil)})
	got := tr.activate(map[string]supervisor.Program{"a": supervisor.NewProgram("g", nil), "c": supervisor.NewProgram("c", nil)})
	want := []Event{{"PROCESS_GROUP_ADDED", "groupname:c\n"}, {"PROCESS_GROUP_REMOVED", "groupname:b\n"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("activate = %q, want %q", got, want)
	}
	if got := tr.activate(map[string]supervisor.Program{"b": supervisor.NewProgram("b", nil)}); len(got) != 3 {
		t.Errorf("b is back, a and c are gone: activate = %q", got)
	}
	if group := tr.group("a"); group != "g" {
		t.Errorf("the group of a, which was removed, is %q, want g", group)
	}
}

func TestSupervisorStates(t *testing.T) {
	tr := newTranslator()
	got := slices.Concat(tr.translate(event(t, control.KindSuperd, "", "started", "")),
		tr.translate(event(t, control.KindShutdown, "", "", "")), tr.translate(event(t, control.KindSuperd, "", "ended", "")))
	want := []Event{{Name: "SUPERVISOR_STATE_CHANGE_RUNNING"}, {Name: "SUPERVISOR_STATE_CHANGE_STOPPING"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
