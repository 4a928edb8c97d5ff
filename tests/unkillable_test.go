package tests

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// unkillablePrograms are a program that is unkillable, as it waits for a file system that has its
// request and does not answer; one with such a process left by its main process; one with such a
// hook; and one without any trouble.
const unkillablePrograms = `
	[defaults]
	stop_timeout = "200ms"
	[program.main]
	command = ["sh", "-c", "echo ready; exec cat %[1]s/main"]
	[program.left]
	command = ["sh", "-c", "cat %[1]s/left & echo ready; exec sleep infinity"]
	[program.hook]
	command = ["sleep", "infinity"]
	pre_start = [["sh", "-c", "echo ready; exec cat %[1]s/hook"]]
	[program.web]
	command = "sleep infinity"
	`

var survives = regexp.MustCompile(`process (\d+) survives SIGKILL: state D \(disk sleep\)( in \w+)?`)

// unkillablePid returns the pid in a message of superd about an unkillable process.
func unkillablePid(t *testing.T, text string) int {
	t.Helper()
	m := survives.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%q: want it to name a process that does not die and what it waits in", text)
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || string(command) != "cat\n" {
		t.Errorf("process %d, which does not die, is %q, %v; want cat", pid, command, err)
	}
	// Not every kernel reports it.
	if in, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err != nil || string(in) != "0" && m[2] != " in "+string(in) {
		t.Errorf("%q: want it to say that the process waits in %s, %v", text, in, err)
	}
	return pid
}

// TestUnkillable: no signal ends a process that waits in the kernel. Commands that wait for its end
// get an error; other programs, and superd's own end, do not wait.
func TestUnkillable(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, "")
		mount, waitRequested, release := s.UnkillableMount("dead")
		s.Configure(fmt.Sprintf(unkillablePrograms, mount))
		d := s.Start(options...)
		names := []string{"main", "left", "hook"}
		for _, name := range names {
			s.WaitLog(name, "ready\n")
		}
		s.WaitState("web", "running")
		waitRequested(len(names))

		r := s.Ctl(append([]string{"stop"}, names...)...)
		if r.Exit != 1 {
			t.Errorf("ctl stop: %v, want exit status 1", r)
		}
		pids := map[string]int{}
		for _, name := range names {
			pids[name] = unkillablePid(t, regexp.MustCompile(name+`: .*`).FindString(r.Out+r.ErrOut))
			st := s.Status(name)
			if st.State == "stopped" || unkillablePid(t, st.Reason) != pids[name] {
				t.Errorf("after ctl stop: %v, want it not stopped, because of process %d", st, pids[name])
			}
			if why := s.MustCtl("why", name).Out; unkillablePid(t, why) != pids[name] {
				t.Errorf("ctl why %s: no process %d in\n%s", name, pids[name], why)
			}
		}
		s.MustCtl("restart", "web")

		d.Signal(syscall.SIGTERM)
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
		for _, name := range names {
			leftover := regexp.MustCompile(fmt.Sprintf(`process left behind.*%s.*process %d survives SIGKILL`, name, pids[name]))
			if !leftover.MatchString(d.ErrOut.String()) {
				t.Errorf("superd's last messages don't match %v:\n%s", leftover, d.ErrOut)
			}
			if !harness.Alive(pids[name]) {
				t.Errorf("process %d has died after all", pids[name])
			}
		}
		release()
		for _, pid := range pids {
			harness.Until(t, "it dies when the file system has gone", func() bool { return !harness.Alive(pid) })
		}
		if hasCgroups := !strings.Contains(d.ErrOut.String(), "no cgroups"); hasCgroups != (len(s.Cgroups()) > 0) {
			t.Errorf("superd had cgroups: %v, and has left %v", hasCgroups, s.Cgroups())
		}
		s.Configure("[program.web]\ncommand = 'sleep infinity'\n")
		s.Start() // it finds the processes that its predecessor had to leave
		s.WaitState("web", "running")
	})
}

// TestShutdownPastUnkillable: a shutdown stops the other programs while one is unkillable, and
// waits for that one only until it is reported.
func TestShutdownPastUnkillable(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, "")
		mount, waitRequested, release := s.UnkillableMount("dead")
		s.Configure(fmt.Sprintf(unkillablePrograms, mount))
		d := s.Start(options...)
		for _, name := range []string{"main", "left", "hook"} {
			s.WaitLog(name, "ready\n")
		}
		s.WaitState("web", "running")
		waitRequested(3)
		d.Signal(syscall.SIGTERM)
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
		messages := d.ErrOut.String()
		stopped, unkillable := strings.Index(messages, "program stopped"), strings.Index(messages, "program is unkillable")
		if stopped < 0 || unkillable < stopped || !strings.Contains(messages[stopped:unkillable], "web") {
			t.Errorf("want web to be stopped before the unkillable ones are named:\n%s", messages)
		}
		leftovers := survives.FindAllStringSubmatch(messages[strings.Index(messages, "process left behind"):], -1)
		if len(leftovers) != 3 {
			t.Errorf("%d processes are named as left behind, want 3:\n%s", len(leftovers), messages)
		}
		release()
		for _, m := range leftovers {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			harness.Until(t, "it dies when the file system has gone", func() bool { return !harness.Alive(pid) })
		}
		s.Configure("[program.web]\ncommand = 'sleep infinity'\n")
		s.Start()
	})
}
