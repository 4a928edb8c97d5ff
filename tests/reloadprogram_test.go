package tests

import (
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestReloadProgram: a program reloads by a signal or a command, unless its check_command fails.
// Then the command's own words are in the answer and in the event, and nothing happens; a restart
// is refused, too.
func TestReloadProgram(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.signal]
		command = "child signals DIR/gate"
		reload_signal = "HUP"
		check_command = ["sh", "-c", "if test -e DIR/broken; then seq 20000; echo first; echo 'line 3: unknown directive' >&2; exit 2; fi"]
		[program.command]
		command = "child signals DIR/gate"
		reload_command = ["sh", "-c", "kill -USR1 ${MAINPID} && echo $SUPERD_INSTANCE > DIR/reloaded"]
		[program.none]
		command = "sleep infinity"
		`)
	open := s.Gate("gate")
	defer open()
	s.Start()
	s.WaitLog("signal", "ready")
	s.WaitLog("command", "ready")

	if r := s.MustCtl("reload", "signal", "command"); !strings.Contains(r.Out, "signal: reloaded: SIGHUP sent to process") || !strings.Contains(r.Out, "command: reloaded\n") {
		t.Errorf("reload: %q", r.Out)
	}
	s.WaitLog("signal", "got hangup\n")
	s.WaitLog("command", "got user defined signal 1\n")
	if got := s.Read("reloaded"); got != "command\n" {
		t.Errorf("reload_command has written %q", got)
	}
	if r := s.Ctl("reload", "none"); r.Exit != 1 || !strings.Contains(r.ErrOut, "no reload_signal and no reload_command") {
		t.Errorf("reload of a program that cannot: %v", r)
	}

	s.Write("broken", "")
	pid := s.Status("signal").Pid
	for _, verb := range []string{"reload", "restart"} {
		r := s.Ctl(verb, "signal")
		if r.Exit != 1 || !strings.Contains(r.ErrOut, "exit status 2\n  19983\n  19984\n") ||
			!strings.Contains(r.ErrOut, "\n  20000\n  first\n  line 3: unknown directive\n") {
			t.Errorf("%s with a broken configuration: exit status %d, %q", verb, r.Exit, r.ErrOut)
		}
	}
	if st := s.Status("signal"); st.State != "running" || st.Pid != pid {
		t.Errorf("after that: %v, want running as process %d", st, pid)
	}
	if n := strings.Count(s.Log("signal"), "got hangup"); n != 1 {
		t.Errorf("%d hangups, want one", n)
	}
	r := s.MustCtl("events", "--json", "signal")
	if !strings.Contains(r.Out, `"20000","first","line 3: unknown directive"]`) || !strings.Contains(r.Out, `"program-not-reloaded"`) {
		t.Errorf("events: %s", r.Out)
	}
}

// TestConfirmedReload: a program with reload_notify confirms its reload.
func TestConfirmedReload(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["bash", "-c", '''
			trap 'systemd-notify RELOADING=1; cat DIR/gate; systemd-notify --ready' HUP
			systemd-notify --ready
			while true; do sleep 0.1; done''']
		ready.notify = true
		reload_signal = "HUP"
		reload_notify = true
		[program.silent]
		command = ["bash", "-c", "trap '' HUP; systemd-notify --ready; exec sleep infinity"]
		ready.notify = true
		reload_signal = "HUP"
		reload_notify = true
		start_timeout = "2s"
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitState("web", "running")
	s.WaitState("silent", "running")
	answer := make(chan harness.Result, 1)
	go func() { answer <- s.Ctl("reload", "web") }()
	s.WaitStatus("web", "reloads", func(st harness.Status) bool { return strings.Contains(st.Reason, "waits for READY=1") })
	select {
	case r := <-answer:
		t.Errorf("answered before READY=1: %v", r)
	default:
	}
	open()
	if r := <-answer; r.Exit != 0 || r.Out != "web: reloaded\n" {
		t.Errorf("reload: %v", r)
	}
	if r := s.Ctl("reload", "silent"); r.Exit != 1 || !strings.Contains(r.ErrOut, "remove reload_notify") {
		t.Errorf("reload without confirmation: %v", r)
	}
}

// TestCrashDuringReload: a successor begins a reload again whose check was under way, and reports
// that a reload_command was ended. No process of them is left.
func TestCrashDuringReload(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = "child signals DIR/gate"
		[program.checked]
		reload_signal = "HUP"
		check_command = ["sh", "-c", "echo check >> DIR/checks; cat DIR/check"]
		[program.command]
		reload_command = ["sh", "-c", "echo reload >> DIR/reloads; exec sleep infinity"]
		`)
	gate, check := s.Gate("gate"), s.Gate("check")
	defer gate()
	d := s.Start()
	s.WaitLog("checked", "ready")
	s.WaitLog("command", "ready")
	for _, name := range []string{"checked", "command"} {
		go s.Ctl("reload", "--timeout", "1s", name)
		s.WaitStatus(name, "reloads", func(st harness.Status) bool { return strings.Contains(st.Reason, "reload: running") })
	}
	d.Kill()
	s.Start()
	check()
	s.WaitLog("checked", "got hangup\n")
	waitEvents(s, "command", "reload", 1)
	if e := eventsOf(s, "command", "reload")[0]; !strings.Contains(e.Reason, "superd was restarted during reload_command") {
		t.Errorf("event %+v", e)
	}
}

// TestStopCommandAndPostStart: post_start precedes readiness, stop_command the stop signal.
func TestStopCommandAndPostStart(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		command = "child signals DIR/gate"
		ready.line = "ready"
		post_start = [["sh", "-c", "kill -USR1 ${MAINPID}; echo created"], ["sh", "-c", "cat DIR/created"]]
		stop_command = ["sh", "-c", "kill -USR2 ${MAINPID}; echo stopping"]
		stop_timeout = "500ms"
		[program.app]
		command = "sleep infinity"
		requires = ["db"]
		[program.broken]
		command = "sleep infinity"
		post_start = ["false"]
		restart = "never"
		`)
	gate, created := s.Gate("gate"), s.Gate("created")
	defer gate()
	s.Start()
	s.WaitLog("db", "created\n")
	s.WaitLog("db", "got user defined signal 1\n")
	if st := s.WaitState("broken", "failed"); !strings.Contains(st.Reason, "post_start false: exit status 1") {
		t.Errorf("a hook failed: %v", st)
	}
	if db, app := s.Status("db"), s.Status("app"); db.State != "starting" || app.State != "waiting" {
		t.Errorf("during post_start: %v, %v; want starting and waiting", db, app)
	}
	created()
	s.WaitState("app", "running")
	s.MustCtl("stop", "db")
	log := s.Log("db")
	if !strings.Contains(log, "got user defined signal 2\n") || !strings.Contains(log, "stopping\n") || !strings.HasSuffix(log, "got terminated\n") {
		t.Errorf("stop_command and then the stop signal: log %q", log)
	}
}
