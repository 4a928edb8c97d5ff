package tests

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// boss has a worker that prints each SIGTERM, and lives until its work is done or it is killed. At
// SIGTERM it waits for the worker, if its argument says so, or ends at once.
const boss = `#!/bin/sh
setsid=$1 at_term=$2
$setsid sh -c '
	trap "echo worker: signalled" TERM
	echo worker: $$
	while [ ! -e "DIR/done.$SUPERD_NAME" ]; do sleep 0.02; done
	echo worker: done' &
worker=$!
trap 'signalled=yes' TERM
while [ -z "$signalled" ]; do wait; done
echo boss: signalled
if [ $at_term = waits ]; then
	while kill -0 $worker 2>/dev/null; do wait $worker; done
	echo boss: the worker has ended
fi
`

// TestKillModeTargets: which processes the stop signal and SIGKILL reach in each kill_mode, for a
// main process that waits for a worker of its group, one that ends before it, and one whose worker
// has a session of its own.
func TestKillModeTargets(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		var programs strings.Builder
		table := func(name, mode, setsid, atTerm, more string) {
			if mode != "" {
				mode = fmt.Sprintf("kill_mode = '%s'\n", mode)
			}
			fmt.Fprintf(&programs, "[program.%s]\ncommand = ['DIR/boss', '%s', '%s']\n%s%s\n",
				name, setsid, atTerm, mode, more)
		}
		const brief = "stop_timeout = '1s'"
		for _, mode := range []string{"default", "mixed", "process"} {
			table(mode+"-waits", strings.TrimPrefix(mode, "default"), "env", "waits", "")
		}
		table("tree-waits", "tree", "env", "waits", "")
		table("group-waits", "group", "env", "waits", "")
		table("tree-apart", "tree", "setsid", "waits", "")
		table("default-ends", "", "env", "ends", "")
		table("apart-ends", "", "setsid", "ends", "")
		table("mixed-ends", "mixed", "env", "ends", "stop_timeout = '1h'")
		table("process-ends", "process", "env", "ends", "")
		table("default-late", "", "env", "waits", brief)
		table("process-late", "process", "env", "waits", brief)
		s := harness.NewSite(t, programs.String())
		s.Write("boss", strings.ReplaceAll(boss, "DIR", s.Dir))
		s.Start(options...)
		worker := map[string]*harness.Tracked{}
		for _, st := range s.All() {
			var pid int
			line := s.WaitLog(st.Name, "worker: ")
			if _, err := fmt.Sscanf(line, "worker: %d\n", &pid); err != nil {
				t.Fatalf("%s: %q", st.Name, line)
			}
			worker[st.Name] = s.Track(pid)
		}
		s.MustCtl("stop", "--no-wait", "*")
		for _, tt := range []struct{ name, signalled, then string }{
			// While the main process lives, the signal goes to it alone, or to the group; each
			// worker can end its work.
			{"default-waits", "boss", "boss: signalled\nworker: done\nboss: the worker has ended\n"},
			{"mixed-waits", "boss", "boss: signalled\nworker: done\nboss: the worker has ended\n"},
			{"process-waits", "boss", "boss: signalled\nworker: done\nboss: the worker has ended\n"},
			{"tree-apart", "boss", "boss: signalled\nworker: done\nboss: the worker has ended\n"},
			{"tree-waits", "worker", "worker: done\nboss: the worker has ended\n"},
			{"group-waits", "worker", "worker: done\nboss: the worker has ended\n"},
			// When it has ended, remaining processes get the signal, are killed or left alone.
			{"default-ends", "worker", "boss: signalled\nworker: signalled\nworker: done\n"},
			{"apart-ends", "worker", "boss: signalled\nworker: signalled\nworker: done\n"},
			{"mixed-ends", "boss", "boss: signalled\n"},
			{"process-ends", "boss", "boss: signalled\n"},
			// After the time-out all processes are killed, or only the main process.
			{"default-late", "boss", "boss: signalled\n"},
			{"process-late", "boss", "boss: signalled\n"},
		} {
			s.WaitLog(tt.name, tt.signalled+": signalled\n")
			if strings.HasSuffix(tt.name, "waits") || strings.HasPrefix(tt.name, "tree") {
				if st := s.Status(tt.name); st.State != "stopping" {
					t.Errorf("%v: want it to wait for its worker", st)
				}
			}
			switch tt.name {
			case "mixed-ends", "process-ends", "default-late", "process-late":
				s.WaitState(tt.name, "stopped")
				spared := strings.HasPrefix(tt.name, "process")
				if worker[tt.name].Alive() != spared {
					t.Errorf("%s: its worker lives: %v, want %v", tt.name, !spared, spared)
				}
			default:
				s.Write("done."+tt.name, "")
				s.WaitState(tt.name, "stopped")
			}
			// Printed for a worker's sleep
			log := strings.ReplaceAll(s.Log(tt.name), "Terminated\n", "")
			if !strings.HasSuffix(log, tt.then) {
				t.Errorf("%s: its log is %q, want it to end in %q", tt.name, log, tt.then)
			}
			group := tt.name == "tree-waits" || tt.name == "group-waits"
			after := strings.HasSuffix(tt.then, "worker: signalled\nworker: done\n")
			if got := strings.Contains(log, "worker: signalled"); got != (group || after) {
				t.Errorf("%s: the worker was signalled: %v, %q", tt.name, got, log)
			}
		}
		// Workers left by kill_mode = "process" can end their work.
		for _, name := range []string{"process-ends", "process-late"} {
			s.Write("done."+name, "")
			harness.Until(t, "the worker of "+name+" has ended", func() bool { return !worker[name].Alive() })
			if log := s.WaitLog(name, "worker: done\n"); strings.Contains(log, "worker: signalled") {
				t.Errorf("%s: its worker was signalled: %q", name, log)
			}
		}
	})
}

// TestStopWakesTheGroup: a stopped process of the group, for which the main process waits, is
// continued so that it can end.
func TestStopWakesTheGroup(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["DIR/boss", "env", "waits"]
		`)
	s.Write("boss", strings.ReplaceAll(boss, "DIR", s.Dir))
	s.Start()
	var pid int
	if _, err := fmt.Sscanf(s.WaitLog("web", "worker: "), "worker: %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	s.Kill(pid, syscall.SIGSTOP)
	s.Write("done.web", "")
	s.MustCtl("stop", "web")
	if log := s.Log("web"); !strings.Contains(log, "worker: done\n") || !strings.Contains(log, "boss: the worker has ended\n") {
		t.Errorf("its log is %q, want the worker's work done", log)
	}
}
