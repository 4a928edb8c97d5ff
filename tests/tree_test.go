package tests

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/child"
	"superd/tests/harness"
)

// bothTrees runs a test with cgroups, where superd may make them, and without.
func bothTrees(t *testing.T, test func(t *testing.T, options ...func(*exec.Cmd))) {
	t.Parallel()
	t.Run("cgroups", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("census", func(t *testing.T) {
		t.Parallel()
		test(t, harness.NoCgroups)
	})
}

// escaped waits until each program of an escape has let so many processes escape, and returns the
// last ones.
func escaped(s *harness.Site, times int) map[string]*harness.Tracked {
	s.T.Helper()
	tracked := make(map[string]*harness.Tracked)
	for _, kind := range child.Escapes {
		line := regexp.MustCompile(kind + ` escaped (\d+)\n`)
		var found [][]string
		harness.Until(s.T, kind+" has escaped", func() bool {
			found = line.FindAllStringSubmatch(s.Log(kind), -1)
			return len(found) >= times
		})
		pid, err := strconv.Atoi(found[len(found)-1][1])
		if err != nil {
			s.T.Fatal(err)
		}
		tracked[kind] = s.Track(pid)
	}
	return tracked
}

func wantGone(t *testing.T, when string, tracked map[string]*harness.Tracked) {
	t.Helper()
	for kind, h := range tracked {
		if h.Alive() {
			t.Errorf("%s: the process that escaped by %s lives, pid %d", when, kind, h.Pid)
		}
	}
}

// TestNothingEscapes: no process of a program outlives it: after a stop, before the next start,
// after a shutdown.
func TestNothingEscapes(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		var programs strings.Builder
		programs.WriteString("[defaults]\nstop_timeout = '300ms'\nbackoff.initial = '1ms'\n")
		for _, kind := range child.Escapes {
			fmt.Fprintf(&programs, "[program.%[1]s]\ncommand = 'child escapes %[1]s'\n", kind)
		}
		s := harness.NewSite(t, programs.String())
		d := s.Start(options...)
		tracked := escaped(s, 1)
		s.MustCtl("stop", "*")
		wantGone(t, "after the stop", tracked)
		if programs := s.Programs(); len(programs) != 0 {
			t.Errorf("after the stop: %v, want none", programs)
		}

		s.MustCtl("start", "*")
		tracked = escaped(s, 2)
		before := s.WaitRunning()
		for kind, pid := range before {
			s.Kill(pid, syscall.SIGKILL)
			s.WaitStatus(kind, "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != pid })
			wantGone(t, "at the next start", map[string]*harness.Tracked{kind: tracked[kind]})
		}

		tracked = escaped(s, 3)
		d.Signal(syscall.SIGTERM)
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
		wantGone(t, "after the shutdown", tracked)
	})
}

// TestKillModes: with kill_mode = "process" leftover processes live on, their output is logged, and
// they delay nothing; with "tree" they are gone before the next start.
func TestKillModes(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[defaults]
			command = "child escape DIR/gate"
			backoff = { initial = "50ms", max = "50ms" }
			start_limit = { failures = 3, within = "1h", retry_after = "0s" }
			restart = "on-failure"
			success_exit_codes = [1]
			[program.process]
			kill_mode = "process"
			[program.tree]
			kill_mode = "tree"
			`)
		open := s.Gate("gate")
		s.Start(options...)
		living := func(name string) int {
			n := 0
			for _, p := range s.Processes() {
				if strings.Contains(p.Command, "survivor") && slices.Contains(p.Env, "SUPERD_NAME="+name) {
					n++
				}
			}
			return n
		}
		s.WaitState("process", "failed")
		s.WaitState("tree", "failed")
		s.WaitLog("process", strings.Repeat("survivor ready\n", 3))
		if got := living("process"); got != 3 {
			t.Errorf("kill_mode = process: %d of 3 survivors live", got)
		}
		if got := living("tree"); got != 0 {
			t.Errorf("kill_mode = tree: %d survivors live", got)
		}
		open()
		s.WaitLog("process", "late\nlate\nlate\n")
		for _, p := range s.Processes() {
			if strings.Contains(p.Command, "survivor") {
				p.Kill()
			}
		}
	})
}

// TestCtlTree: the tree shows the processes of each program, and has no effect on their states.
func TestCtlTree(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.forks]
			command = "child forks 3"
			[program.daemon]
			command = "child escapes daemon"
			stop_timeout = "100ms"
			[program.down]
			command = "true"
			autostart = false
			`)
		s.Start(options...)
		s.WaitLog("forks", "ready\n")
		line := regexp.MustCompile(`daemon escaped (\d+)\n`).FindStringSubmatch(s.WaitLog("daemon", "escaped "))
		pids := s.WaitStatus("forks", "runs", func(st harness.Status) bool { return st.State == "running" })
		out := s.MustCtl("tree").Out
		if got := strings.Count(out, "sleep"); got != 3 {
			t.Errorf("ctl tree shows %d of 3 processes that sleep:\n%s", got, out)
		}
		for _, want := range []string{"forks", "daemon", "down", fmt.Sprint(pids.Pid), line[1]} {
			if !strings.Contains(out, want) {
				t.Errorf("ctl tree: no %q in\n%s", want, out)
			}
		}
		if one := s.MustCtl("tree", "daemon").Out; strings.Contains(one, "sleep") || !strings.Contains(one, line[1]) {
			t.Errorf("ctl tree daemon:\n%s", one)
		}
		if r := s.Ctl("tree", "nobody"); r.Exit != 1 && r.Exit != 2 || r.ErrOut == "" {
			t.Errorf("ctl tree of an unknown name: exit status %d, %q", r.Exit, r.ErrOut)
		}
	})
}

// TestUsageOfTree: memory and processor time are those of the whole tree: of children, and of an
// orphan in a session of its own.
func TestUsageOfTree(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.forks]
		command = ["sh", "-c", "(setsid sh burn &); head -c 40000000 /dev/zero | tail -c 40000000 | sleep infinity & exec sleep infinity"]
		directory = "DIR"
		[program.idle]
		command = "sleep infinity"
		`)
	s.Write("burn", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec sleep infinity")
	for _, cgroups := range []string{"auto", "never"} {
		d := s.Start(func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--cgroups="+cgroups) })
		s.WaitStatus("forks", "uses what its children use", func(st harness.Status) bool {
			return st.RSSBytes != nil && *st.RSSBytes > 30e6 && *st.CPUS > 0.1
		})
		if st := s.Status("idle"); st.RSSBytes == nil || *st.RSSBytes > 10e6 || *st.CPUS > 0.1 {
			t.Errorf("idle uses what another one does: %v", st)
		}
		s.MustCtl("shutdown")
		d.Wait()
	}
}
