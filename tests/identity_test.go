package tests

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// TestIdentity: user, groups and privileges of a program, seen from outside and by itself.
func TestIdentity(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "id -u; id -g; id -G; umask; ulimit -n; ulimit -Hn; ulimit -c; ulimit -l; echo $HOME $USER $LOGNAME; echo over > /dev/stdout; exec sleep infinity"]
		user = "daemon"
		supplementary_groups = ["nogroup", "7"]
		umask = "027"
		directory = "/"
		limits = { nofile = "123:200", core = 0, memlock = "4KiB" }
		pre_start = [["sh", "-c", "echo hook $(id -u) $(umask) $(ulimit -n)"]]
		[program.group]
		command = ["sh", "-c", "id -G; exec sleep infinity"]
		user = "daemon"
		directory = "/"
		supplementary_groups = []
		[program.plain]
		command = ["sh", "-c", "ulimit -n; exec sleep infinity"]
		[program.private]
		command = "sleep infinity"
		directory = "DIR/private"
		user = "daemon"
		restart = "never"
		`)
	s.Mkdir("private")
	s.Chmod("private", 0o700)
	s.Start(harness.Under("ulimit -S -n 500"))
	want := []string{"hook 1 0027 123", "1", "1", "1 65534 7", "0027", "123", "200", "0", "4", "/usr/sbin daemon daemon", "over"}
	lines := strings.Fields(strings.ReplaceAll(s.WaitLog("web", "over\n"), " ", "_"))
	for i, line := range want {
		line = strings.ReplaceAll(line, " ", "_")
		if i >= len(lines) || !sameWords(lines[i], line) {
			t.Errorf("line %d of the program is not %q in %q", i, line, lines)
		}
	}
	pid := s.WaitState("web", "running").Pid
	for key, want := range map[string]string{"Uid": "1\t1\t1\t1", "Gid": "1\t1\t1\t1", "Umask": "0027"} {
		if got := s.Field(pid, "status", key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := s.WaitLog("group", "\n"); got != "1\n" {
		t.Errorf("groups with supplementary_groups = []: %q, want 1", got)
	}
	if got := s.WaitLog("plain", "\n"); got != "500\n" {
		t.Errorf("limit of a program without limits: %q, want superd's own soft one, 500", got)
	}
	if st := s.WaitState("private", "failed"); !strings.Contains(st.Reason, s.Path("private")) || !strings.Contains(st.Reason, "daemon") {
		t.Errorf("a directory that the user may not enter: %v, want the path and the user in the reason", st)
	}
}

// TestAttributes: attributes hold for a program, its hooks and the commands of its checks, and not
// for superd or other programs. What can't be set fails the start with the key.
func TestAttributes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.web]
		command = ["sh", "-c", "echo program $(DIR/show); exec sleep infinity"]
		nice = 11
		ionice = "best-effort:6"
		cpu_affinity = "0"
		scheduling = "batch"
		oom_score_adj = 300
		pre_start = [["sh", "-c", "echo hook $(DIR/show)"]]
		ready = { exec = ["sh", "-c", "DIR/show > DIR/check"] }
		[program.plain]
		command = ["sh", "-c", "DIR/show; exec sleep infinity"]
		[program.elsewhere]
		command = "true"
		cpu_affinity = "8000"
		`)
	s.Write("show", "#!/bin/sh\nset -- $(cat /proc/self/stat)\necho nice=${19} policy=${41} $(ionice | tr -d ' ') $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status) $(cat /proc/self/oom_score_adj)\n")
	s.Chmod("show", 0o755)
	d := s.Start()
	const want = "nice=11 policy=3 best-effort:prio6 0 300\n"
	if got := s.WaitLog("web", "program "); got != "hook "+want+"program "+want {
		t.Errorf("web says %q, want %q twice", got, want)
	}
	s.WaitState("web", "running")
	if got := s.Read("check"); got != want {
		t.Errorf("the command of a check says %q, want %q", got, want)
	}
	if got := s.WaitLog("plain", "\n"); strings.Contains(got, "nice=11") || strings.Contains(got, "policy=3") || strings.Contains(got, " 300") {
		t.Errorf("a program without attributes says %q", got)
	}
	if got := s.Field(d.Pid, "status", "Cpus_allowed_list"); got == "0" {
		t.Errorf("superd itself may use the CPUs %s", got)
	}
	if st := s.WaitState("elsewhere", "failed"); !strings.Contains(st.Reason, "set cpu_affinity: to 8000") {
		t.Errorf("a CPU that does not exist: %v, want the key and the CPU in the reason", st)
	}
}

// sameWords compares lists such as those of groups, in any order.
func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, w := range strings.Split(a, "_") {
		count[w]++
	}
	for _, w := range strings.Split(b, "_") {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// TestOtherUserWithoutRoot: only root can change users; others get an error that says so.
func TestOtherUserWithoutRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		command = "sleep infinity"
		restart = "never"
		[program.other]
		user = "daemon"
		[program.high]
		limits.nofile = 100000
		[program.endless]
		limits.nofile = "10:infinity"
		[program.urgent]
		nice = -5
		[program.own]
		user = "nobody"
		limits.nofile = 50
		`)
	s.Chmod(".", 0o777)
	d := s.Start(harness.Under("ulimit -n 1000"), harness.As(65534))
	if st := s.WaitState("other", "failed"); !strings.Contains(st.Reason, "daemon") || !strings.Contains(st.Reason, "root") {
		t.Errorf("another user: %v, want the user and root in the reason", st)
	}
	if st := s.WaitState("high", "failed"); !strings.Contains(st.Reason, "100000") || !strings.Contains(st.Reason, "hard limit") {
		t.Errorf("a limit above the hard limit: %v, want both in the reason", st)
	}
	if st := s.WaitState("endless", "failed"); !strings.Contains(st.Reason, "set limits.nofile: infinity is") {
		t.Errorf("no hard limit: %v, want the key and the value in the reason", st)
	}
	if st := s.WaitState("urgent", "failed"); !strings.Contains(st.Reason, "set nice: -5 is below") || !strings.Contains(st.Reason, "CAP_SYS_NICE") {
		t.Errorf("a lower nice value: %v, want the key and what is missing in the reason", st)
	}
	st := s.WaitState("own", "running")
	if got := s.Field(st.Pid, "status", "Uid"); !strings.HasPrefix(got, "65534") {
		t.Errorf("Uid = %s, want 65534\n%s", got, d.ErrOut)
	}
}

// TestDirectLogBelongsToItsUser: a program of another user that writes its log file itself may
// reopen /dev/stdout, as it may if that is a pipe. An existing file keeps its owner: its name may
// be a link.
func TestDirectLogBelongsToItsUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		directory = "/"
		user = "daemon"
		restart = "never"
		command = ["sh", "-c", "echo one; echo two >> /dev/stdout; echo three; echo four >> /dev/stderr"]
		[program.direct]
		log = { format = "direct" }
		[program.separate]
		log = { format = "direct", stderr = "separate" }
		[program.given]
		log = { format = "direct", owner = "root" }
		[program.linked]
		log = { format = "direct", file = "DIR/linked.log" }
		`)
	s.Write("victim", "")
	s.Link("linked.log", s.Path("victim"))
	s.Start()
	for name, want := range map[string]string{"direct": "one\ntwo\nthree\nfour\n", "separate": "one\ntwo\nthree\n"} {
		s.WaitState(name, "exited")
		if got := s.Log(name); got != want {
			t.Errorf("the log of %s is %q, want %q", name, got, want)
		}
	}
	if got := s.Read("log/separate.err.log"); got != "four\n" {
		t.Errorf("the log of standard error is %q, want four", got)
	}
	for name, owner := range map[string]uint32{"given": 0, "linked": 0, "direct": 1} {
		st := s.WaitStatus(name, "has ended", func(st harness.Status) bool { return st.Exit != nil })
		info, err := os.Stat(st.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != owner {
			t.Errorf("the log file of %s belongs to user %d, want %d", name, uid, owner)
		}
	}
}

// TestCapabilitiesOfSuperd: a superd that is not root may have inheritable capabilities. Programs
// of other users don't get them.
func TestCapabilitiesOfSuperd(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		directory = "/"
		command = ["sh", "-c", "grep -h -e CapPrm -e CapEff -e CapAmb /proc/self/status; id -u; exec sleep infinity"]
		[program.other]
		user = "daemon"
		[program.limited]
		user = "daemon"
		umask = "022"
		[program.own]
		`)
	s.Chmod(".", 0o777)
	d := s.Start(harness.As(65534), func(cmd *exec.Cmd) {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE}
	})
	for _, name := range []string{"other", "limited"} {
		log := s.WaitLog(name, "\n1\n")
		if strings.Count(log, ":\t0000000000000000\n") != 3 {
			t.Errorf("capabilities of %s:\n%swant none\n%s", name, log, d.ErrOut)
		}
	}
	if log := s.WaitLog("own", "\n65534\n"); strings.Count(log, ":\t0000000000000000\n") != 0 {
		t.Errorf("capabilities of superd's own user:\n%swant those of superd", log)
	}
}
