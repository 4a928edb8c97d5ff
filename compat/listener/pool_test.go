package listener

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// poolOf returns a pool whose processes are only channels.
func poolOf(t *testing.T, processes, buffer int) *pool {
	t.Helper()
	p := newPool(t.Context(), &Options{Processes: processes, Buffer: buffer, Pool: "l", Process: "l", Log: t.Logf})
	for _, m := range p.members {
		m.run()
	}
	return p
}

func (m *member) run() { m.child, m.protocol = &child{input: make(chan []byte, 1)}, protocol{} }

// writes has a process write a text, and returns which events the processes get then.
func (p *pool) writes(process int, text string) (sent []string) {
	m := p.members[process]
	p.read(m, m.child, []byte(text))
	return p.sent()
}

// sent dispatches events, and returns them with the processes that get them.
func (p *pool) sent() (sent []string) {
	p.dispatch()
	for _, m := range p.members {
		if m.child == nil {
			continue
		}
		select {
		case text := <-m.child.input:
			_, name, _ := strings.Cut(string(text), "eventname:")
			name, _, _ = strings.Cut(name, " ")
			sent = append(sent, m.name+" "+name)
		default:
		}
	}
	return sent
}

// TestPool: each event goes to the first process that is ready, and goes back to the queue when it
// is rejected or its process ends.
func TestPool(t *testing.T) {
	const accept, reject = "RESULT 2\nOK", "RESULT 4\nFAIL"
	p := poolOf(t, 2, 10)
	add := func(names ...string) {
		for _, name := range names {
			p.queue.add(Event{Name: name})
		}
	}
	check := func(step string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%s: sent %q, want %q", step, got, want)
		}
	}
	add("A")
	check("none is ready", p.sent())
	check("the second is ready", p.writes(1, "READY\n"), "l_01 A")
	check("the first is ready, and nothing waits", p.writes(0, "READY\n"))
	add("B", "C", "D")
	check("the second is busy", p.sent(), "l_00 B")
	check("rejected, and none is ready", p.writes(0, reject))
	check("the other takes what was rejected", p.writes(1, accept+"READY\n"), "l_01 B")
	check("the next one", p.writes(0, "READY\n"), "l_00 C")

	p.ended(p.members[1], 1)
	check("the second ends with B", p.writes(0, accept+"READY\n"), "l_00 B")
	check("of what is late from it nothing counts", p.writes(0, accept))
	p.members[1].run()
	check("started again it is not ready yet", p.sent())
	check("it is ready", p.writes(1, "READY\n"), "l_01 D")
	if p.over {
		t.Error("the pool has ended with one of its processes")
	}
	if got := p.queue.serial; got != 4 {
		t.Errorf("%d events have numbers, want 4", got)
	}
}

// TestPoolBuffer: what comes back to a full queue displaces the oldest event.
func TestPoolBuffer(t *testing.T) {
	p := poolOf(t, 2, 2)
	p.queue.add(Event{Name: "A"})
	if got := p.writes(0, "READY\n"); !slices.Equal(got, []string{"l_00 A"}) {
		t.Fatalf("sent %q", got)
	}
	p.queue.add(Event{Name: "B"})
	p.queue.add(Event{Name: "C"})
	p.ended(p.members[0], 1)
	if got := p.writes(1, "READY\n"); !slices.Equal(got, []string{"l_01 A"}) {
		t.Errorf("sent %q, want A", got)
	}
	if got := p.writes(1, "RESULT 2\nOKREADY\n"); !slices.Equal(got, []string{"l_01 C"}) {
		t.Errorf("sent %q, want C, for which B was dropped", got)
	}
}

// TestPoolEnds: a pool ends when a signal has stopped its processes, and that of one process ends
// with it.
func TestPoolEnds(t *testing.T) {
	tests := []struct {
		name      string
		processes int
		signal    syscall.Signal // 0: none
		status    []int          // of the processes that end, in order
		over      bool
	}{
		{"the only process", 1, 0, []int{3}, true},
		{"one of two", 2, 0, []int{3}, false},
		{"both crash", 2, 0, []int{3, 0}, false},
		{"one of two is stopped", 2, syscall.SIGTERM, []int{0}, false},
		{"both are stopped", 2, syscall.SIGTERM, []int{0, 143}, true},
		{"any signal may stop", 2, syscall.SIGHUP, []int{129, 0}, true},
		{"a signal that they survive", 2, syscall.SIGHUP, []int{3, 3}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := poolOf(t, tt.processes, 10)
			children := make([]*child, len(p.members))
			for i, m := range p.members { // they get no signal
				children[i], m.child = m.child, nil
			}
			if tt.signal != 0 {
				p.signal(tt.signal)
				p.over = false
			}
			for i, m := range p.members {
				m.child = children[i]
			}
			for i, status := range tt.status {
				p.ended(p.members[i], status)
			}
			if p.over != tt.over || p.over && p.status != tt.status[len(tt.status)-1] {
				t.Errorf("over = %v with status %d, want %v", p.over, p.status, tt.over)
			}
		})
	}
}

// TestPoolRestarts: the pauses between starts grow, and a run that lasts resets them.
func TestPoolRestarts(t *testing.T) {
	p := poolOf(t, 2, 10)
	m := p.members[0]
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		m.started = time.Now()
		if p.ended(m, 1); m.pause != want*time.Second {
			t.Errorf("after %d crashes the next pause is %v, want %v s", i+1, m.pause, want)
		}
	}
	m.started = time.Now().Add(-steadyRun)
	if p.ended(m, 1); m.pause != 2*firstRestart {
		t.Errorf("after a long run the next pause is %v", m.pause)
	}
}
