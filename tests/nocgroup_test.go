package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// setLimit writes one of a cgroup's own limits: cgroup.max.descendants or cgroup.max.depth.
func setLimit(t *testing.T, dir, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// inOwnCgroup reports whether a process is in the cgroup of the instance.
func inOwnCgroup(t *testing.T, pid int, instance string) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "/program-"+instance+"\n")
}

// TestNoMoreCgroups: when a limit allows no more cgroups, programs without limits still start, lose
// no process, and are adopted. superd's message names the limit. When more cgroups are allowed, the
// next start uses one.
func TestNoMoreCgroups(t *testing.T) {
	t.Parallel()
	dir, inside := harness.OwnCgroup(t)
	s := harness.NewSite(t, `
		[defaults]
		stop_timeout = "300ms"
		backoff.initial = "1ms"
		[program.first]
		command = "sleep infinity"
		[program.daemon]
		command = "child escapes daemon"
		autostart = false
		pre_start = [["true"]]
		`)
	d := s.Start(inside)
	if pid := s.WaitState("first", "running").Pid; !inOwnCgroup(t, pid, "first") {
		t.Skip("superd has no cgroups here")
	}
	stat, err := os.ReadFile(filepath.Join(dir, "cgroup.stat"))
	if err != nil {
		t.Fatal(err)
	}
	there := regexp.MustCompile(`nr_descendants (\d+)`).FindStringSubmatch(string(stat))
	setLimit(t, dir, "cgroup.max.descendants", there[1])

	escaped := regexp.MustCompile(`daemon escaped (\d+)\n`)
	track := func(count int) *harness.Tracked {
		var found [][]string
		harness.Until(t, "a process has escaped", func() bool {
			found = escaped.FindAllStringSubmatch(s.Log("daemon"), -1)
			return len(found) == count
		})
		pid, err := strconv.Atoi(found[count-1][1])
		if err != nil {
			t.Fatal(err)
		}
		return s.Track(pid)
	}
	wantGone := func(when string, h *harness.Tracked) {
		t.Helper()
		if h.Alive() {
			t.Errorf("%s: the process that escaped lives, pid %d", when, h.Pid)
		}
	}
	s.MustCtl("start", "daemon")
	for count := 1; count <= 2; count++ {
		tracked := track(count)
		pid := s.WaitState("daemon", "running").Pid
		s.Kill(pid, syscall.SIGKILL)
		s.WaitStatus("daemon", "is started again", func(st harness.Status) bool { return st.State == "running" && st.Pid != pid })
		wantGone("at the next start", tracked)
	}
	tracked := track(3)
	if why := s.MustCtl("why", "daemon").Out; !strings.Contains(why, dir+"/cgroup.max.descendants") {
		t.Errorf("ctl why does not name the limit:\n%s", why)
	}
	if why := s.MustCtl("why", "first").Out; strings.Contains(why, "cgroup") {
		t.Errorf("ctl why of a program that has a cgroup:\n%s", why)
	}
	pid := s.Status("daemon").Pid
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	if now := s.WaitState("daemon", "running").Pid; now != pid {
		t.Errorf("after superd was killed: pid %d, want %d", now, pid)
	}
	s.MustCtl("stop", "daemon")
	wantGone("after the stop", tracked)
	if n := strings.Count(d.ErrOut.String(), "no cgroups can be made"); n > 2 {
		t.Errorf("two supervisors say %d times that no cgroups can be made, want once each", n)
	}

	setLimit(t, dir, "cgroup.max.descendants", "max")
	s.MustCtl("start", "daemon")
	if pid := s.WaitState("daemon", "running").Pid; !inOwnCgroup(t, pid, "daemon") {
		t.Error("when cgroups may be made again, the next start makes none")
	}
	tracked = track(4)
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	wantGone("after the shutdown", tracked)
}

// TestNoCgroupsAtFirst: the same holds for a limit that exists when superd begins.
func TestNoCgroupsAtFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, value string }{
		{"cgroup.max.descendants", "0"}, // not even one for all programs
		{"cgroup.max.descendants", "1"},
		{"cgroup.max.depth", "1"},
	} {
		t.Run(tt.name+" "+tt.value, func(t *testing.T) {
			t.Parallel()
			dir, inside := harness.OwnCgroup(t)
			setLimit(t, dir, tt.name, tt.value)
			s := harness.NewSite(t, `
				[program.web]
				command = "sleep infinity"
				`)
			d := s.Start(inside)
			pid := s.WaitState("web", "running").Pid
			if inOwnCgroup(t, pid, "web") {
				t.Fatal("there is a cgroup beyond the limit")
			}
			if want := dir + "/" + tt.name; !strings.Contains(d.ErrOut.String(), want) {
				t.Errorf("superd does not name %s:\n%s", want, d.ErrOut)
			}
			setLimit(t, dir, tt.name, "max")
			s.MustCtl("restart", "web")
			if pid := s.WaitState("web", "running").Pid; !inOwnCgroup(t, pid, "web") {
				t.Errorf("when cgroups may be made again, the next start makes none:\n%s", d.ErrOut)
			}
			d.Signal(syscall.SIGTERM)
			if exit := d.Wait(); exit != 0 {
				t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
			}
		})
	}
}
