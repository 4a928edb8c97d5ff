package tests

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestHealth: an unhealthy program is restarted, or only reported, and the results are shown.
func TestHealth(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		if sick.Load() {
			http.Error(w, "out of order", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(web.Close)
	s := harness.NewSite(t, `
		[defaults]
		health = { http = "`+web.URL+`", interval = "50ms", failures = 2 }
		[program.web]
		command = "sleep infinity"
		[program.told]
		command = "sleep infinity"
		health.action = "none"
		[program.reloads]
		command = ["child", "notify", "/dev/null", "RELOADING=1"]
		watchdog = "1h"
		`)
	s.Start()
	healthy := func(want bool) func(harness.Status) bool {
		return func(st harness.Status) bool { return st.State == "running" && st.Healthy != nil && *st.Healthy == want }
	}
	before := s.WaitStatus("web", "is healthy", healthy(true))
	healthyInstance := s.WaitStatus("told", "is healthy", healthy(true))
	reloads := s.WaitStatus("reloads", "reads its configuration", func(st harness.Status) bool { return strings.Contains(st.Reason, "it reloads its configuration") })
	sick.Store(true)
	st := s.WaitStatus("web", "is started again", func(st harness.Status) bool { return st.Restarts > 0 })
	if !strings.Contains(st.Reason, "unhealthy: 2 failed checks in a row: http "+web.URL+": HTTP 500") && !strings.Contains(st.Reason, "unhealthy: 2") {
		t.Errorf("reason %q, was %q", st.Reason, before.Reason)
	}
	st = s.WaitStatus("told", "is unhealthy", healthy(false))
	if st.Pid != healthyInstance.Pid || st.HealthCheck == nil || st.HealthCheck.Passed == nil || *st.HealthCheck.Passed || !strings.Contains(st.HealthCheck.Reason, "out of order") {
		t.Errorf("unhealthy, with action = none: %+v, %+v", st, st.HealthCheck)
	}
	if out := s.MustCtl("why", "told").Out; !strings.Contains(out, "unhealthy") {
		t.Errorf("why: %s", out)
	}
	if st := s.Status("reloads"); st.Pid != reloads.Pid {
		t.Errorf("it was started again while it read its configuration: %q", st.Reason)
	}
	if out := s.MustCtl("events", "--json").Out; !strings.Contains(out, `"kind":"health"`) {
		t.Error("no event reports it")
	}
	sick.Store(false)
	s.WaitStatus("told", "is healthy again", healthy(true))
}

// TestHangingChecksAreKilled: a check that hangs, forks and leaves children is killed with all of
// them, without effect on others.
func TestHangingChecksAreKilled(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.web]
			command = "sleep 3601"
			health = { exec = ["sh", "-c", "setsid sleep 3602 & sleep 3603 & echo x >> DIR/checks; sleep 3604"], interval = "100ms", timeout = "100ms", failures = 1000 }
			[program.leaves]
			command = "sleep 3605"
			health = { exec = ["sh", "-c", "sleep 3606 & setsid -f sleep 3608; echo x >> DIR/passed; true"], interval = "50ms", failures = 1000 }
			[program.other]
			command = "sleep 3607"
			health = { exec = "true", interval = "50ms", failures = 1000 }
			`)
		d := s.Start(options...)
		lines := func(name string) int {
			text, _ := os.ReadFile(s.Path(name))
			return strings.Count(string(text), "\n")
		}
		few := func() bool {
			count := 0
			for _, p := range s.Processes() {
				if strings.HasPrefix(p.Command, "sleep") || strings.HasPrefix(p.Command, "sh ") {
					count++
				}
			}
			return count <= 3+2*4
		}
		for _, want := range []int{3, 8} {
			harness.Until(t, "checks were made", func() bool { return lines("checks") >= want && lines("passed") >= want })
			harness.Until(t, "nothing is left of checks but of the last one", few)
			if want == 3 {
				s.Track(d.Pid).Kill()
				d.FindSupervisor()
			}
		}
		for _, name := range []string{"leaves", "other"} {
			s.WaitStatus(name, "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy && st.Restarts == 0 })
		}
		if st := s.WaitStatus("web", "was checked", func(st harness.Status) bool { return st.HealthCheck != nil }); !strings.Contains(st.HealthCheck.Reason, "no answer within 100ms") &&
			!strings.Contains(st.HealthCheck.Reason, "the previous check") {
			t.Errorf("the last check: %+v", st.HealthCheck)
		}
	})
}

// TestWatchdogOfAProgram: a program that misses its watchdog time-out gets SIGABRT and is
// restarted.
func TestWatchdogOfAProgram(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		ready = { notify = true }
		watchdog = "500ms"
		[program.fed]
		command = ["sh", "-c", "systemd-notify --ready; while systemd-notify WATCHDOG=1; do sleep 0.05; done"]
		watchdog = "20s"
		[program.starved]
		command = ["sh", "-c", "systemd-notify --ready; exec sleep infinity"]
		`)
	d := s.Start()
	st := s.WaitStatus("starved", "is started again", func(st harness.Status) bool { return st.Restarts > 0 })
	if st.Exit == nil || st.Exit.Signal == nil || *st.Exit.Signal != "SIGABRT" {
		t.Errorf("it ended by %v", st.Exit)
	}
	pinging := s.WaitState("fed", "running")
	s.Track(d.Pid).Kill()
	d.FindSupervisor()
	if st := s.WaitState("fed", "running"); st.Pid != pinging.Pid || st.Restarts != 0 {
		t.Errorf("the program that pinged: %+v", st)
	}
	s.WaitStatus("starved", "is started again by the next superd", func(now harness.Status) bool { return now.Restarts > st.Restarts })
}

// TestHealthWhileStopping: the health of a stopping program is not checked, and the result of a
// check under way is ignored.
func TestHealthWhileStopping(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "trap 'read x < DIR/gate; exit 0' TERM; echo up; while :; do sleep 0.05; done"]
		stop_timeout = "1h"
		health = { exec = ["sh", "-c", "echo asked >> DIR/asked; test ! -e DIR/sick"], interval = "20ms", failures = 1 }
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("web", "up\n")
	st := s.WaitStatus("web", "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
	s.MustCtl("stop", "--no-wait", "web")
	s.WaitState("web", "stopping")
	s.Write("sick", "")
	probes := len(s.Read("asked"))
	harness.Window(t, 500*time.Millisecond) // 25 intervals
	if now := len(s.Read("asked")); now > probes+len("asked\n") {
		t.Errorf("it was asked %d times while it was stopping, want once at most, by a check that was under way", (now-probes)/len("asked\n"))
	}
	if now := s.Status("web"); now.State != "stopping" || now.Pid != st.Pid || now.Restarts != 0 || strings.Contains(now.Reason, "unhealthy") {
		t.Errorf("%v, want it stopping with pid %d", now, st.Pid)
	}
	open()
	if st := s.WaitState("web", "stopped"); st.Restarts != 0 || st.Exit.String() != "0" {
		t.Errorf("%v, want an end by the stop signal", st)
	}
	if n := len(eventsOf(s, "web", "start")); n != 1 {
		t.Errorf("it was started %d times, want once", n)
	}
}

// TestThousandsOfChecks: after thousands of checks that flood, hang and fail, superd uses no more
// resources.
func TestThousandsOfChecks(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		var requests atomic.Int64
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n := requests.Add(1); n%3 == 0 {
				http.Error(w, strings.Repeat("out of order\n", 1000), http.StatusInternalServerError)
			}
		}))
		t.Cleanup(web.Close)
		s := harness.NewSite(t, `
			[defaults]
			command = "sleep infinity"
			health = { failures = 1000000, interval = "2ms" }
			[program.asked]
			health.http = "`+web.URL+`"
			[program.again]
			health.http = "`+web.URL+`"
			[program.silent]
			health = { tcp = "127.0.0.1:1" }
			[program.fails]
			health = { exec = ["sh", "-c", "echo x >> DIR/checks; exit 1"], interval = "10ms" }
			[program.floods]
			health = { exec = ["sh", "-c", "echo x >> DIR/floods; yes; yes >&2"], interval = "200ms", timeout = "30ms" }
			`)
		d := s.Start(options...)
		s.WaitRunning()
		done := func(exec, web int) func() bool {
			return func() bool {
				return strings.Count(s.Read("checks"), "\n") >= exec && strings.Count(s.Read("floods"), "\n") >= exec/50 && int(requests.Load()) >= web
			}
		}
		harness.Until(t, "all kinds of checks were made", done(50, 500))
		few := func(most int) func() bool { return func() bool { return len(s.FDs(d.Pid)) <= most } }
		fds, memory, processes := len(s.FDs(d.Pid)), s.KiB(d.Pid, "status", "VmRSS"), 5+2*4
		harness.Until(t, "thousands of checks were made", done(200, 3000))
		// A check under way has some.
		harness.Until(t, "superd has no more descriptors than before", few(fds+10))
		harness.Until(t, "no more processes are left", func() bool { return len(s.Programs()) <= processes })
		harness.Until(t, "no zombies are left", func() bool { return len(s.Zombies(d.Pid)) <= 4 })
		if now := s.KiB(d.Pid, "status", "VmRSS"); now > memory+16<<10 {
			t.Errorf("superd has %d KiB, after the first checks it had %d", now, memory)
		}
		for _, st := range s.All() {
			if st.Restarts != 0 || st.State != "running" {
				t.Errorf("%v, want it left alone", st)
			}
		}
	})
}
