package tests

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

func TestHooks(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.web]
			command = ["sh", "-c", "echo main; exec sleep infinity"]
			pre_start = [["sh", "-c", "echo first of $SUPERD_NAME"], "sh -c 'echo second; sleep 1000 & echo $! > DIR/left'"]
			post_stop = [["sh", "-c", "echo after; sleep 1000 & echo $! >> DIR/left"]]
			`)
		s.Start(options...)
		s.WaitLog("web", "main\n")
		s.WaitState("web", "running")
		s.MustCtl("stop", "web")
		const run = "first of web\nsecond\nmain\nafter\n"
		if got := s.WaitLog("web", "after\n"); got != run {
			t.Errorf("log = %q, want %q", got, run)
		}
		if processes := s.Programs(); len(processes) != 0 || strings.Count(s.Read("left"), "\n") != 2 {
			t.Errorf("after the stop: %v, want none, and not the two that the hooks have left: %q", processes, s.Read("left"))
		}
		s.MustCtl("start", "web")
		s.WaitLog("web", run+"first of web\nsecond\nmain\n")
		s.MustCtl("signal", "KILL", "web")
		s.WaitLog("web", run+run+"first of web\nsecond\nmain\n")
	})
}

// TestHooksUser: hooks run as their own user, with that user's variables, in the output of a
// program of another user.
func TestHooksUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		directory = "/"
		user = "daemon"
		hooks_user = "root"
		command = ["sh", "-c", "id -un; echo $HOME; echo again > /dev/stdout"]
		pre_start = [["sh", "-c", "id -un; echo $HOME; echo again > /dev/stdout"]]
		post_stop = [["id", "-un"]]
		restart = "never"
		`)
	s.Start()
	s.WaitState("web", "exited")
	if got, want := s.Log("web"), "root\n/root\nagain\ndaemon\n/usr/sbin\nagain\nroot\n"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

func TestPreStartFails(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = ["sh", "-c", "echo main; exec sleep infinity"]
		backoff = { initial = "1ms", max = "1ms" }
		start_limit = { failures = 3, within = "1h", retry_after = "0s" }
		[program.fails]
		pre_start = [["sh", "-c", "echo not today; exit 3"], ["echo", "never"]]
		[program.missing]
		pre_start = [["DIR/none"]]
		[program.hangs]
		pre_start = [["sh", "-c", "sleep 1000 & echo waiting; wait"]]
		start_timeout = "100ms"
		[program.killed]
		pre_start = [["sh", "-c", "sleep 1000 & echo waiting; wait"]]
		start_timeout = "100ms"
		start_limit.failures = 0 # it may be killed before it has printed something
		[program.mended]
		pre_start = [["cat", "DIR/there"]]
		start_limit.failures = 0
		`)
	s.Start()
	for name, parts := range map[string][]string{
		"fails":   {"pre_start", "exit status 3"},
		"missing": {"pre_start", s.Path("none"), "no such file"},
		"hangs":   {"pre_start", "sleep 1000", "100ms"},
	} {
		st := s.WaitState(name, "failed")
		for _, part := range parts {
			if !strings.Contains(st.Reason, part) {
				t.Errorf("reason of %s = %q, want %q in it", name, st.Reason, part)
			}
		}
		if st.Restarts != 2 {
			t.Errorf("%v: want 3 failed starts to be the limit", st)
		}
	}
	if got, want := s.WaitLog("fails", strings.Repeat("not today\n", 3)), strings.Repeat("not today\n", 3); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if got := s.Log("hangs"); len(got) > len("waiting\n")*3 || strings.ReplaceAll(got, "waiting\n", "") != "" {
		t.Errorf("log = %q, want what three hooks have printed, and nothing of the program", got)
	}
	s.WaitLog("killed", strings.Repeat("waiting\n", 3))
	s.Write("there", "there\n")
	s.WaitLog("mended", "there\nmain\n")
	s.MustCtl("stop", "*")
	if processes := s.Programs(); len(processes) != 0 {
		t.Errorf("after the stop: %v, want none", processes)
	}
}

// TestStopDuringHooks: a stop ends a hook that hangs.
func TestStopDuringHooks(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = ["sh", "-c", "echo main; exec sleep infinity"]
		stop_timeout = "200ms"
		[program.before]
		pre_start = [["sh", "-c", "echo waiting; exec sleep infinity"]]
		[program.deaf]
		pre_start = [["child", "deaf"]]
		[program.after]
		post_stop = [["sh", "-c", "echo waiting; exec sleep infinity"]]
		start_timeout = "200ms"
		`)
	s.Start()
	s.WaitLog("before", "waiting")
	s.WaitLog("deaf", "ready")
	s.WaitLog("after", "main")
	if st := s.Status("before"); st.State != "starting" || !strings.Contains(st.Reason, "pre_start") {
		t.Errorf("in a hook: %v, want starting and the hook as the reason", st)
	}
	s.MustCtl("stop", "*")
	s.WaitAll("stopped", func(st harness.Status) bool { return st.State == "stopped" })
	for _, name := range []string{"before", "deaf"} {
		if log := s.Log(name); strings.Contains(log, "main") {
			t.Errorf("%s was started after its stop: %q", name, log)
		}
	}
	harness.Until(t, "a hook has printed something before its time was over", func() bool {
		if strings.Contains(s.Log("after"), "main\nwaiting\n") {
			return true
		}
		s.Ctl("start", "after") // its time-out may be too short for that, too
		s.MustCtl("stop", "after")
		return false
	})
	if processes := s.Programs(); len(processes) != 0 {
		t.Errorf("after the stop: %v, want none", processes)
	}
}

// TestHookEndsUnwatched: a hook ends while no superd runs. With the keeper, the next superd learns
// how it has ended and starts the program. Without, that is unknown, and the hook runs once more.
// It is never taken for one that still runs, nor is the program started beside it.
func TestHookEndsUnwatched(t *testing.T) {
	t.Parallel()
	const pid = "hook [0-9]+\n"
	tests := []struct {
		name string
		end  func(s *harness.Site, d *harness.Superd, hook *harness.Tracked, open func()) *harness.Superd
		log  string
	}{
		{"with its keeper", func(s *harness.Site, d *harness.Superd, hook *harness.Tracked, open func()) *harness.Superd {
			s.Kill(d.Pid, syscall.SIGSTOP)
			open()
			harness.Until(s.T, "the hook has ended", func() bool { return !hook.Alive() })
			s.Kill(d.Pid, syscall.SIGKILL)
			d.FindSupervisor()
			return d
		}, pid + "main\n"},
		{"without a keeper", func(s *harness.Site, d *harness.Superd, hook *harness.Tracked, open func()) *harness.Superd {
			d.Kill()
			open()
			harness.Until(s.T, "the hook is reaped", func() bool {
				return errors.Is(syscall.Kill(hook.Pid, 0), syscall.ESRCH)
			})
			return s.Start()
		}, pid + pid + "main\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[program.web]
				command = ["sh", "-c", "echo main; exec sleep infinity"]
				pre_start = [["sh", "-c", "echo hook $$$$; read line < DIR/gate; exit 0"]]
				backoff.initial = "1ms"
				`)
			open := s.Gate("gate")
			d := s.Start()
			var hook int
			if _, err := fmt.Sscanf(s.WaitLog("web", "\n"), "hook %d", &hook); err != nil {
				t.Fatal(err)
			}
			d = tt.end(s, d, s.Track(hook), open)
			s.WaitLog("web", "main\n")
			web := s.WaitState("web", "running").Pid
			if log := s.Log("web"); !regexp.MustCompile("^" + tt.log + "$").MatchString(log) {
				t.Errorf("log %q, want %s", log, tt.log)
			}
			harness.Until(t, "web runs alone", func() bool {
				all := s.Programs()
				return len(all) == 1 && all[0].Pid == web
			})
			if log := d.ErrOut.String(); strings.Contains(log, "still running") {
				t.Error("the hook counts as running")
			}
		})
	}
}

// TestOneshots: the start of a one-shot returns when its run has ended, with its outcome.
func TestOneshots(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		type = "oneshot"
		autostart = false
		[program.good]
		command = ["sh", "-c", "read line < DIR/gate; echo done"]
		[program.bad]
		command = ["sh", "-c", "exit 3"]
		[program.retried]
		command = "DIR/retried"
		restart = "on-failure"
		backoff = { initial = "1ms", max = "1ms" }
		`)
	s.Write("retried", "#!/bin/sh\necho try\ntest -e there\n")
	open := s.Gate("gate")
	s.Start()
	answers := make(chan harness.Result, 1)
	go func() { answers <- s.Ctl("start", "good") }()
	s.WaitState("good", "running")
	open()
	if r := <-answers; r.Exit != 0 || !strings.Contains(r.Out, "exit status 0") {
		t.Errorf("ctl start of a one-shot: %v, want exit status 0 and how it ended: it waits for that", r)
	}
	if log := s.WaitLog("good", "done"); log != "done\n" {
		t.Errorf("log = %q, want one run", log)
	}
	if st := s.Status("good"); st.State != "exited" || st.Exit.String() != "0" {
		t.Errorf("%v: want exited, exit 0", st)
	}
	if r := s.Ctl("start", "bad"); r.Exit != 1 || !strings.Contains(r.Out+r.ErrOut, "exit status 3") {
		t.Errorf("ctl start of a one-shot that fails: %v, want exit status 1 and the reason", r)
	}
	s.MustCtl("start", "good") // and once more
	s.MustCtl("start", "--no-wait", "retried")
	s.WaitLog("retried", "try\ntry\ntry\n")
	s.Write("there", "")
	s.WaitState("retried", "exited")
}
