package listener

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"superd/compat/supervisor"
	"superd/control"
)

// log is an API with an event log.
type log struct {
	API
	events []control.Event
}

func (l *log) Events(ctx context.Context, q control.EventQuery, f func(line []byte) error) error {
	for _, e := range l.events {
		if e.Cursor <= q.After {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
	}
	if q.Follow {
		<-ctx.Done()
	}
	return ctx.Err()
}

// events returns events of superd, numbered from 1, a second after the other unless at says when.
func events(all ...control.Event) []control.Event {
	began := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	for i := range all {
		all[i].Cursor = uint64(i + 1)
		if all[i].At.IsZero() {
			all[i].At = began.Add(time.Duration(i) * time.Second)
		}
	}
	return all
}

func superd(state string) control.Event { return control.Event{Kind: "superd", State: state} }

func change(instance, run, from, to string) control.Event {
	return control.Event{Kind: "state", Instance: instance, Program: instance, Run: run, From: from, State: to}
}

func ended(instance, run string) control.Event {
	return control.Event{Kind: "exit", Instance: instance, Program: instance, Run: run, Pid: 7}
}

// TestLog: what a listener gets depends on what the log has of it. Earlier events only say in which
// states the processes are.
func TestLog(t *testing.T) {
	later := change("l", "2", "stopped", "starting")
	later.At = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		events []control.Event
		want   []string // payloads
	}{
		{"first run: from the start of superd", events(superd("ended"), superd("started"), change("web", "1", "stopped", "starting"),
			change("l", "2", "stopped", "starting")), []string{"", "web from_state:STOPPED tries:0", "l from_state:STOPPED tries:0"}},
		{"added later: from its own start", events(superd("started"), change("web", "1", "stopped", "starting"), later,
			change("web", "1", "starting", "running")), []string{"l from_state:STOPPED tries:0", "web from_state:STARTING pid:0"}},
		{"a log that begins later", events(change("web", "1", "starting", "running"), later, change("web", "1", "running", "stopping")),
			[]string{"l from_state:STOPPED tries:0", "web from_state:RUNNING pid:0"}},
		{"second run: from the end of the first", events(superd("started"), change("l", "1", "stopped", "starting"),
			change("l", "1", "starting", "running"), change("web", "1", "stopped", "starting"), ended("l", "1"),
			change("web", "1", "starting", "running"), change("l", "1", "running", "backoff"), change("l", "2", "backoff", "starting")),
			[]string{"web from_state:STARTING pid:0", "l from_state:RUNNING expected:0 pid:7", "l from_state:EXITED tries:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan Event)
			s := &source{events: got, api: &log{events: tt.events}, Options: &Options{
				Subscription: Subscription{"EVENT"}, Instance: "l", Run: "2", Log: t.Logf,
				Programs: func(context.Context) (map[string]supervisor.Program, error) {
					return map[string]supervisor.Program{}, nil
				},
			}}
			done := make(chan struct{})
			go func() { s.log(ctx); close(done) }()
			var payloads []string
			for range tt.want {
				var e Event
				select {
				case e = <-got:
				case <-time.After(time.Minute):
					t.Fatalf("after %q nothing comes, want %q", payloads, tt.want)
				}
				payload := e.Payload
				if len(payload) > 0 {
					payload = payload[len("processname:"):]
					name := payload[:len("l")]
					if payload[0] == 'w' {
						name = "web"
					}
					payload = name + payload[len(name+" groupname:"+name):]
				}
				payloads = append(payloads, payload)
			}
			if !slices.Equal(payloads, tt.want) {
				t.Errorf("events %q, want %q", payloads, tt.want)
			}
			select {
			case e := <-got:
				t.Errorf("there is also %q", e)
			case <-time.After(10 * time.Millisecond):
			}
			cancel()
			<-done
		})
	}
}
