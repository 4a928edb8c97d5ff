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

// orphans is a program that repeatedly leaves a child, which ends as a zombie of superd's.
const orphans = `
	[program.orphans]
	command = ["sh", "-c", "while :; do sh -c 'sleep 0.02 &'; sleep 0.05; done"]
	`

// checkRestarts fails the test unless programs that are killed are restarted, one after the other,
// and no orphan stays a zombie.
func checkRestarts(t *testing.T, s *harness.Site, d *harness.Superd, name string) {
	t.Helper()
	pid := s.WaitState(name, "running").Pid
	for range 10 {
		s.Kill(pid, syscall.SIGKILL)
		pid = s.WaitStatus(name, "is restarted", func(st harness.Status) bool {
			return st.State == "running" && st.Pid != pid
		}).Pid
	}
	harness.Until(t, "no orphan is a zombie", func() bool { return len(s.Zombies(d.Pid)) == 0 })
}

// TestExecHangs: an exec that hangs after superd has checked the file affects that start only:
// orphans are reaped and other programs start. Its child is killed at start_timeout, at a stop and
// at the shutdown.
func TestExecHangs(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, "")
		path, waitHung, _ := s.HungExec("m", true)
		s.Configure(fmt.Sprintf(`
			[defaults]
			backoff = { initial = "10ms", factor = 1.0 }
			[program.hung]
			replicas = 2
			command = "%[1]s"
			start_timeout = "1h"
			[program.timed]
			command = "%[1]s"
			start_timeout = "200ms"
			[program.hook]
			command = "sleep infinity"
			pre_start = [["%[1]s"]]
			start_timeout = "200ms"
			[program.good]
			command = "sleep infinity"
			`, path) + orphans)
		d := s.Start(options...)
		waitHung(2)
		for name, stage := range map[string]string{"timed": "execute " + path, "hook": "pre_start " + path + ": execute"} {
			s.WaitStatus(name, "has failed twice with its stage as the reason", func(st harness.Status) bool {
				return st.Restarts > 1 && strings.Contains(st.Reason, stage) && strings.Contains(st.Reason, "no answer")
			})
		}
		checkRestarts(t, s, d, "good")
		s.MustCtl("stop", "hung@1", "timed")
		s.MustCtl("stop", "hook")
		d.Signal(syscall.SIGTERM)
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
		if strings.Contains(d.ErrOut.String(), "left behind") {
			t.Errorf("a child is left behind:\n%s", d.ErrOut)
		}
	})
}

// TestExecHangsUnkillable: if even SIGKILL does not end the child, it is reported, and neither
// other programs nor the shutdown wait for it.
func TestExecHangsUnkillable(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	path, waitHung, release := s.HungExec("m", false)
	s.Configure(fmt.Sprintf(`
		[program.hung]
		command = "%[1]s"
		start_timeout = "200ms"
		[program.good]
		command = "sleep infinity"
		backoff = { initial = "10ms", factor = 1.0 }
		`, path) + orphans)
	d := s.Start()
	pid := waitHung(1)[0]
	s.WaitStatus("hung", "is named", func(st harness.Status) bool {
		return strings.Contains(st.Reason, fmt.Sprintf("process %d survives SIGKILL", pid))
	})
	checkRestarts(t, s, d, "good")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if messages := d.ErrOut.String(); !strings.Contains(messages, "left behind") {
		t.Errorf("want the process to be named as left behind:\n%s", messages)
	}
	release()
	harness.Until(t, "it dies when the file system has gone", func() bool { return !harness.Alive(pid) })
	s.Configure("[program.good]\ncommand = 'sleep infinity'\n")
	s.Start() // it finds the processes that its predecessor had to leave
	s.WaitState("good", "running")
}

// TestStartsStoppedByTheirUser: a user may stop children that are to become their programs, once
// they have its privileges. That affects those starts only; they are killed at the shutdown.
func TestStartsStoppedByTheirUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "")
	path, waitHung, _ := s.HungExec("m", true)
	s.Configure(fmt.Sprintf(`
		[program.victim]
		user = "1"
		command = "%s"
		replicas = 3
		start_timeout = "1h"
		[program.good]
		command = "sleep infinity"
		backoff = { initial = "10ms", factor = 1.0 }
		`, path) + orphans)
	d := s.Start()
	hung := waitHung(3)
	stop := exec.Command("kill", "-STOP")
	for _, pid := range hung {
		stop.Args = append(stop.Args, strconv.Itoa(pid))
	}
	stop.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1, Gid: 1}}
	if out, err := stop.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	harness.Until(t, "the children are stopped before their exec", func() bool {
		return len(s.JustForked(d.Pid, 'T')) == len(hung)
	})
	checkRestarts(t, s, d, "good")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	for _, pid := range hung {
		if harness.Alive(pid) {
			t.Errorf("process %d, which was stopped before its exec, lives", pid)
		}
	}
}
