package top

import (
	"slices"
	"strings"
	"testing"
	"time"

	"superd/control"
)

// testList returns a list with programs in each kind of state.
func testList(t *testing.T) *list {
	t.Helper()
	l := newList()
	pid := 7
	var briefs []control.Brief
	var statuses []control.Status
	for _, p := range []struct {
		name, state string
		restarts    int
		rss         int64
		group       string
	}{
		{"web@1", control.StateRunning, 0, 30, "front"}, {"web@2", control.StateRunning, 4, 20, "front"},
		{"db", control.StateFailed, 9, 0, "data"}, {"api", control.StateWaiting, 0, 0, "front"},
		{"cron", control.StateStopped, 1, 0, ""}, {"mail", control.StateRunning, 2, 90, ""},
	} {
		s := control.Status{Name: p.name, State: p.state, Restarts: p.restarts, Groups: []string{p.group}}
		b := control.Brief{Name: p.name, State: p.state}
		if p.state == control.StateRunning {
			b.Pid, s.Pid, s.RSS = &pid, &pid, &p.rss
		}
		if p.name == "mail" {
			s.Healthy = new(false)
		}
		briefs, statuses = append(briefs, b), append(statuses, s)
	}
	if changed := l.setBrief(0, "", briefs); len(changed) != len(briefs) {
		t.Fatalf("setBrief() = %q, want all", changed)
	}
	l.setStatus(0, statuses, time.Unix(100, 0))
	l.arrange()
	return l
}

func names(all []*program) string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return strings.Join(names, " ")
}

func TestArrange(t *testing.T) {
	tests := []struct {
		name     string
		order    order
		reversed bool
		filter   string
		want     string
	}{
		{"by name", byName, false, "", "api cron db mail web@1 web@2"},
		{"by name, reversed", byName, true, "", "web@2 web@1 mail db cron api"},
		{"what needs attention comes first", byState, false, "", "db mail api web@1 web@2 cron"},
		{"most memory first, then by name", byMemory, false, "", "mail web@1 web@2 api cron db"},
		{"most restarts first", byRestarts, false, "", "db web@2 mail cron api web@1"},
		{"a part of the name", byName, false, "EB@", "web@1 web@2"},
		{"a group", byName, false, "front", "api web@1 web@2"},
		{"a state", byName, false, "wait", "api"},
		{"each word matches", byName, false, "front run", "web@1 web@2"},
		{"characters of the name in their order", byName, false, "ml", "mail"},
		{"nothing", byName, false, "lm", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testList(t)
			l.order, l.reversed, l.filter = tt.order, tt.reversed, tt.filter
			l.arrange()
			if got := names(l.shown); got != tt.want {
				t.Errorf("arrange() shows %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSetBrief(t *testing.T) {
	l := testList(t)
	l.setBrief(1, "other", []control.Brief{{Name: "web@1", State: control.StateStopped}})
	pid, next := 7, 8
	changed := l.setBrief(0, "", []control.Brief{
		{Name: "web@1", State: control.StateRunning, Pid: &next},
		{Name: "web@2", State: control.StateRunning, Pid: &pid},
		{Name: "db", State: control.StateFailed}, {Name: "new", State: control.StateWaiting},
	})
	slices.Sort(changed)
	if want := []string{"new", "web@1"}; !slices.Equal(changed, want) {
		t.Errorf("setBrief() = %q, want %q", changed, want)
	}
	l.arrange()
	if got, want := names(l.shown), "db new web@1 web@1 web@2"; got != want {
		t.Errorf("after setBrief there are %q, want %q: only its source has changed", got, want)
	}
}

func TestCPU(t *testing.T) {
	l := newList()
	pid := 7
	l.setBrief(0, "", []control.Brief{{Name: "web", State: control.StateRunning, Pid: new(7)}})
	read := func(cpu float64, at int64) float64 {
		l.setStatus(0, []control.Status{{Name: "web", State: control.StateRunning, Pid: new(pid), CPU: &cpu}}, time.Unix(at, 0))
		return l.all[id{0, "web"}].cpu
	}
	if got := read(5, 100); got >= 0 {
		t.Errorf("after one reading the CPU is %v, want unknown", got)
	}
	if got := read(6, 102); got != 50 {
		t.Errorf("a second in two is %v %%, want 50", got)
	}
	pid = 8
	l.setBrief(0, "", []control.Brief{{Name: "web", State: control.StateRunning, Pid: new(pid)}})
	if got := l.all[id{0, "web"}].cpu; got >= 0 {
		t.Errorf("the CPU of a new process is %v, want unknown", got)
	}
	if got := read(1, 104); got >= 0 {
		t.Errorf("after one reading of a new process the CPU is %v, want unknown", got)
	}
}

// TestDiffers: nothing differs when only time passes.
func TestDiffers(t *testing.T) {
	base := func() control.Status {
		return control.Status{Name: "web", State: control.StateRunning, Pid: new(7), CPU: new(1.0), RSS: new(int64(5)), Uptime: new(1.0)}
	}
	tests := []struct {
		name   string
		change func(*control.Status)
		want   bool
	}{
		{"time", func(s *control.Status) { s.Uptime = new(3.0) }, false},
		{"a line", func(s *control.Status) { s.LastLine = new("x") }, true},
		{"memory", func(s *control.Status) { s.RSS = new(int64(6)) }, true},
		{"processor time", func(s *control.Status) { s.CPU = new(2.0) }, true},
		{"health", func(s *control.Status) { s.Healthy = new(true) }, true},
	}
	for _, tt := range tests {
		l := newList()
		l.setBrief(0, "", []control.Brief{{Name: "web", State: control.StateRunning, Pid: new(7)}})
		l.setStatus(0, []control.Status{base()}, time.Unix(1, 0))
		l.setStatus(0, []control.Status{base()}, time.Unix(2, 0))
		s := base()
		tt.change(&s)
		if got := l.setStatus(0, []control.Status{s}, time.Unix(3, 0)); got != tt.want {
			t.Errorf("%s: differs is %v, want %v", tt.name, got, tt.want)
		}
	}
}
