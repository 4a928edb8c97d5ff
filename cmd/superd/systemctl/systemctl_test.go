package systemctl

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"superd/control"
)

func status(state string, more ...func(*control.Status)) control.Status {
	s := control.Status{Name: "web", Program: "web", State: state, Groups: []string{}}
	for _, f := range more {
		f(&s)
	}
	return s
}

func because(kind string) func(*control.Status) {
	return func(s *control.Status) { s.ReasonKind = &kind }
}

func TestStates(t *testing.T) {
	tests := []struct {
		name string
		all  []control.Status
		want string
	}{
		{"running", []control.Status{status("running")}, "active"},
		{"starting", []control.Status{status("starting")}, "activating"},
		{"in its backoff, as auto-restart of systemd", []control.Status{status("backoff")}, "activating"},
		{"waits for a dependency", []control.Status{status("waiting", because("waits-for-dependency"))}, "activating"},
		{"waits for its schedule, as the service of a timer", []control.Status{status("waiting", because("waits-for-schedule"))}, "inactive"},
		{"waits for a connection", []control.Status{status("waiting", because("waits-for-connection"))}, "inactive"},
		{"stopping", []control.Status{status("stopping")}, "deactivating"},
		{"stopped", []control.Status{status("stopped")}, "inactive"},
		{"exited", []control.Status{status("exited")}, "inactive"},
		{"failed", []control.Status{status("failed")}, "failed"},
		{"all run", []control.Status{status("running"), status("running")}, "active"},
		{"one has failed", []control.Status{status("running"), status("failed"), status("starting")}, "failed"},
		{"one is down", []control.Status{status("running"), status("stopped")}, "inactive"},
		{"none", nil, "inactive"},
	}
	for _, tt := range tests {
		if got := joined(tt.all); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestShow: the keys are always the same, and a value is on one line.
func TestShow(t *testing.T) {
	since := time.Date(2026, 11, 21, 7, 20, 45, 250e6, time.UTC)
	s := status("running", func(s *control.Status) {
		s.Groups, s.Pid, s.Since, s.CPU = []string{"a", "b"}, new(7), &since, new(0.25)
		s.Reason, s.Exit = new("one\ntwo\x1b"), &control.Exit{Signal: new("SIGKILL"), At: since}
	})
	all := propertyKeys()
	got := map[string]string{}
	for i, p := range properties(&s) {
		if p.key != all[i] {
			t.Fatalf("key %d is %q, in another status %q", i, p.key, all[i])
		}
		got[p.key] = p.value
	}
	for key, want := range map[string]string{
		"name": "web", "groups": "a b", "pid": "7", "since": "2026-11-21T07:20:45.25Z", "cpu_s": "0.25", "ready": "false",
		"exit.code": "", "exit.signal": "SIGKILL", "exit.known": "false", "rolling.stage": "", "rolling.extra": "",
		"reason": `one; two\x1b`, "log_outage.since": "", "healthy": "",
	} {
		if value, ok := got[key]; !ok || value != want {
			t.Errorf("%s is %q, want %q", key, value, want)
		}
	}
	var out bytes.Buffer
	if err := show(&out, []control.Status{s, s}, []string{"pid", "state"}, true); err != nil || out.String() != "7\nrunning\n\n7\nrunning\n" {
		t.Errorf("show: %q, %v", out.String(), err)
	}
}

// TestTree: a diamond is expanded once, and a cycle ends.
func TestTree(t *testing.T) {
	g := graph{
		requires: map[string][]string{"web": {"db", "cache"}, "db": {"net"}, "cache": {"net"}, "net": {"dev"}, "a": {"b"}, "b": {"a"}},
		after:    map[string][]string{"web": {"log", "db"}},
		states: map[string][]control.Status{"web": {status("running")}, "db": {status("running"), status("failed")},
			"net": {status("running")}, "dev": {status("running")}, "cache": {status("stopped")}, "a": {status("failed")}, "b": {status("failed")}},
	}
	var out bytes.Buffer
	if err := printTrees(&out, []node{g.tree("web", map[string]bool{}), g.tree("a", map[string]bool{})}); err != nil {
		t.Fatal(err)
	}
	want := `web: running
├─cache: stopped
│ └─net: running
│   └─dev: running
├─db: failed
│ └─net: running, see above
└─log (after): no instances
a: failed
└─b: failed
  └─a: failed, see above
`
	if out.String() != want {
		t.Errorf("trees\n%s\nwant\n%s", out.String(), want)
	}
}

func TestDetail(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 30, 0, 0, time.Local)
	since := now.Add(-90 * time.Second)
	zone := since.Format("MST")
	tests := []struct {
		name       string
		s          control.Status
		trees      []control.ProcessTree
		configured string
		want       string
	}{
		{"running", status("running", func(s *control.Status) {
			s.Name, s.Groups, s.Since, s.Pid, s.Uptime, s.Restarts = "web@1", []string{"front"}, &since, new(7), new(90.0), 2
			s.Reason, s.Healthy = new("started by the configuration"), new(false)
			s.HealthCheck = &control.HealthCheck{At: now.Add(-time.Second), Reason: new("no answer")}
			s.StatusText, s.RSS, s.CPU, s.LogFile, s.Stderr = new("busy"), new(int64(5<<20)), new(0.5), new("/l/web.log"), "/l/web.err"
			s.Autostart = true
		}), []control.ProcessTree{{Name: "web@1", State: "running", Pid: new(7), Cgroup: "/s/web", Processes: []control.Process{
			{Pid: 7, Parent: 1, State: "S", Command: "web: master", RSS: 4 << 20, Threads: 3},
			{Pid: 8, Parent: 7, State: "S", Command: "web: \x1bworker", RSS: 1 << 20, Threads: 1}}}},
			"[program.web]\nlimits = { memory = \"512MB\", tasks = 100 }\n",
			`● web@1
    Defined: /etc/superd/superd.toml:12; starts with superd
      State: running since Sat 2026-11-21 07:28:30 ZONE (1m30s ago): started by the configuration
    Problem: unhealthy: no answer
     Groups: front
     Health: unhealthy, checked 1s ago
     Status: "busy"
   Main PID: 7, up 1m30s
   Restarts: 2
      Tasks: 4 in 2 processes (limit: 100)
     Memory: 5.0M (limit: 512MB)
        CPU: 0.50s
        Log: /l/web.log, /l/web.err
  Processes: cgroup /s/web
             *7 S 4.0M  web: master
                8 S 1.0M  web: \x1bworker
`},
		{"in its backoff", status("backoff", func(s *control.Status) {
			s.Since, s.Reason, s.Exit = &since, new("exit status 3 after 1s"), &control.Exit{Code: new(3), At: since, Known: true}
			s.NextIn, s.Enablement, s.LogSink = new(5.25), "disabled", "journald"
		}), nil, "[program.web]\n", `● web
    Defined: /etc/superd/superd.toml:12; does not start with superd (disabled by an operator)
      State: backoff since Sat 2026-11-21 07:28:30 ZONE (1m30s ago): exit status 3 after 1s
  Last exit: status 3, Sat 2026-11-21 07:28:30 ZONE (1m30s ago)
 Next start: in 5.25s
        Log: journald
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := control.Configured{Program: "web", Text: tt.configured, File: "/etc/superd/superd.toml", Line: 12}
			got := detail(&tt.s, tt.trees, c, now, false)
			if want := strings.ReplaceAll(tt.want, "ZONE", zone); got != want {
				t.Errorf("detail:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestNames: programs and instances that are named are shown in detail. Names without instances are
// known.
func TestNames(t *testing.T) {
	all := []control.Status{{Name: "web@1", Program: "web", Groups: []string{"front"}}, {Name: "db", Program: "db"}}
	tests := []struct {
		names  string
		single bool
		empty  string
	}{
		{"", false, ""},
		{"web", true, ""},
		{"web@1 db", true, ""},
		{"front", false, ""},
		{"db w*", false, ""},
		{"db none none", false, "none"},
	}
	for _, tt := range tests {
		names := strings.Fields(tt.names)
		if got := Single(names, all); got != tt.single {
			t.Errorf("Single(%q) = %t, want %t", names, got, tt.single)
		}
		if got := strings.Join(Empty(names, all), " "); got != tt.empty {
			t.Errorf("Empty(%q) = %s, want %s", names, got, tt.empty)
		}
	}
}

// TestTreesOf: of the unattributed processes an instance gets those that may be its own.
func TestTreesOf(t *testing.T) {
	all := []control.ProcessTree{{Name: "db"}, {Name: "web"}, {Unattributed: true, Processes: []control.Process{
		{Pid: 7, PerhapsOf: []string{"db"}}, {Pid: 8, PerhapsOf: []string{"db", "web"}}}}}
	for name, want := range map[string]int{"db": 2, "web": 1} {
		got := treesOf(name, all)
		if len(got) != 2 || got[0].Name != name || len(got[1].Processes) != want {
			t.Errorf("treesOf(%s) = %+v, want %d unattributed processes", name, got, want)
		}
	}
}
