package tests

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestUnattributedProcess: without cgroups, a process that has cleared its environment, left its
// session and its parents and closed its output can't be attributed. superd reports it with the
// program that it may belong to, and ends it at the shutdown.
func TestUnattributedProcess(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.hides]
		command = ["sh", "-c", "setsid -f env -i sh -c 'echo $$$$ >DIR/pid; exec sleep 1000' </dev/null >/dev/null 2>&1; exec sleep infinity"]
		[program.good]
		command = "sleep infinity"
		`)
	d := s.Start(harness.NoCgroups)
	s.WaitState("good", "running")
	harness.Until(t, "a process hides", func() bool { return strings.HasSuffix(s.Read("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(s.Read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	tracked := s.Track(pid)
	s.MustCtl("stop", "hides")
	want := fmt.Sprintf("Process %d (sleep) can't be attributed", pid)
	if why := s.MustCtl("why", "hides").Out; !strings.Contains(why, want) {
		t.Errorf("ctl why: no %q in\n%s", want, why)
	}
	if why := s.MustCtl("why", "good").Out; strings.Contains(why, "can't be attributed") {
		t.Errorf("ctl why of another program:\n%s", why)
	}
	const unattributed = "not attributed to a program:\n"
	for _, args := range [][]string{{"tree"}, {"tree", "hides"}, {"tree", "--json"}} {
		wants := []string{unattributed, fmt.Sprintf(" %d S ", pid), "  sleep 1000  (possibly of hides)"}
		if args[len(args)-1] == "--json" {
			wants = []string{`"unattributed":true`, fmt.Sprintf(`"pid":%d`, pid), `"perhaps_of":["hides"]`}
		}
		tree := s.MustCtl(args...).Out
		for _, want := range wants {
			if !strings.Contains(strings.ReplaceAll(tree, `": `, `":`), want) {
				t.Errorf("ctl %v: no %q in\n%s", args, want, tree)
			}
		}
	}
	if tree := s.MustCtl("tree", "good").Out; strings.Contains(tree, unattributed) {
		t.Errorf("ctl tree of another program:\n%s", tree)
	}
	if !tracked.Alive() {
		t.Error("it is killed while superd runs, though it may belong to any program")
	}
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if tracked.Alive() {
		t.Errorf("it has outlived superd:\n%s", d.ErrOut)
	}
	if messages := d.ErrOut.String(); strings.Count(messages, "unattributed process") != 2 || !strings.Contains(messages, "perhaps_of=[hides]") {
		t.Errorf("want the process to be named when it was met and when it is ended:\n%s", messages)
	}
}

// TestUnattributedProcessMayBeSpared: if a kill_mode spares processes, an unattributed one may be
// of those: it is left alone.
func TestUnattributedProcessMayBeSpared(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.hides]
		kill_mode = "process"
		command = ["sh", "-c", "setsid -f env -i sh -c 'echo $$$$ >DIR/pid; exec sleep 1000' </dev/null >/dev/null 2>&1; exec sleep infinity"]
		`)
	d := s.Start(harness.NoCgroups)
	harness.Until(t, "a process hides", func() bool { return strings.HasSuffix(s.Read("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(s.Read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if !harness.Alive(pid) {
		t.Error("superd has ended what kill_mode spares")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestGoesToBackground: a main process that exits at once and leaves processes runs in the
// background: the reason says so, and how to keep it in the foreground.
func TestGoesToBackground(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[defaults]
			command = ["sh", "-c", "sleep 1000 & exit 0"]
			backoff = { initial = "1h", max = "1h" }
			[program.tree]
			[program.group]
			kill_mode = "group"
			[program.once]
			restart = "on-failure"
			[program.spared]
			kill_mode = "process"
			[program.oneshot]
			type = "oneshot"
			restart = "never"
			[program.alone]
			command = "true"
			[program.fails]
			command = ["sh", "-c", "sleep 1000 & exit 1"]
			`)
		s.Start(options...)
		const hint = "stay in the foreground"
		for _, name := range []string{"tree", "group", "once", "spared"} {
			s.WaitStatus(name, "says that it goes to the background", func(st harness.Status) bool {
				return (st.State == "backoff" || st.State == "exited") && strings.Contains(st.Reason, hint)
			})
			if why := s.MustCtl("why", name).Out; !strings.Contains(why, "--foreground") {
				t.Errorf("ctl why %s: no way to keep it in the foreground:\n%s", name, why)
			}
		}
		for _, name := range []string{"oneshot", "alone", "fails"} {
			st := s.WaitStatus(name, "has ended", func(st harness.Status) bool { return st.State == "backoff" || st.State == "exited" })
			if strings.Contains(st.Reason, hint) {
				t.Errorf("%s: %v", name, st)
			}
		}
		for _, p := range s.Processes() { // spared by kill_mode
			if strings.Contains(p.Command, "sleep") {
				p.Kill()
			}
		}
	})
}
