package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/codec"
	"superd/internal/execshim"
	"superd/internal/passwd"
	"superd/internal/rlimit"
	"superd/pidfd"
	"superd/procs/host"
)

// TestExecuteWithoutRoot: a superd that is not root can name its own user and groups, and reports
// what it may not do.
func TestExecuteWithoutRoot(t *testing.T) {
	user := needUser(t)
	id, err := lookUpRunAs(user, nil, passwd.System())
	if err != nil {
		t.Fatal(err)
	}
	// By this path, since only root can enter the directory of the test binary
	cmd := exec.Command(execshim.Binary, "-test.run=^TestAsOrdinaryUser$", "-test.v")
	cmd.Env = append(os.Environ(), "ORDINARY_USER="+user, "CLOSED="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: id.credential}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestAsOrdinaryUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAsOrdinaryUser runs as a child of TestExecuteWithoutRoot.
func TestAsOrdinaryUser(t *testing.T) {
	user := os.Getenv("ORDINARY_USER")
	if user == "" {
		t.Skip("not started by its test")
	}
	uid, gid := os.Getuid(), os.Getgid()
	show := shell("id -u; umask")
	for _, program := range []config.Program{
		{Settings: &config.Settings{User: user}}, {Settings: &config.Settings{User: strconv.Itoa(uid)}}, {Settings: &config.Settings{SupplementaryGroups: []string{strconv.Itoa(gid)}}},
	} {
		program.Umask, program.Command = ptr(uint32(0o27)), show
		if got, want := first(newStarter(t, &program).run(t)), fmt.Sprintf("%d\n0027\n", uid); got != want {
			t.Errorf("as user %q with groups %q it printed %q, want %q", program.User, program.SupplementaryGroups, got, want)
		}
	}
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		t.Fatal(err)
	}
	closed := os.Getenv("CLOSED")
	tests := []struct {
		program config.Program
		want    string
	}{
		{config.Program{Settings: &config.Settings{User: "root"}}, fmt.Sprintf("change user root: superd runs as user %d and group %d, and may not change to 0 and 0: only root may", uid, gid)},
		{config.Program{Settings: &config.Settings{SupplementaryGroups: []string{"0"}}}, "change groups: superd may not change its supplementary groups: only root may"},
		{config.Program{Settings: &config.Settings{Limits: config.Limits{Rlimits: files(open.Max + 1)}}}, fmt.Sprintf("set limits.nofile: %d is above the hard limit, %d, which only root", open.Max+1, open.Max)},
		{attributes(config.Attributes{Nice: ptr(-5)}), "set nice: -5 is below superd's own nice value, "},
		{attributes(config.Attributes{IONice: &codec.IONice{Class: codec.IORealTime}}), "set ionice: the class realtime needs root"},
		{attributes(config.Attributes{Scheduling: &codec.Scheduling{Policy: codec.PolicyRR, Priority: 5}}), "set scheduling: real-time priority 5 needs root"},
		{attributes(config.Attributes{OOMScoreAdj: ptr(-1000)}), "set oom_score_adj: -1000 is below superd's own oom_score_adj, "},
		{config.Program{Settings: &config.Settings{Directory: closed}}, fmt.Sprintf("enter directory %s: superd (user %d) may not enter /", closed, uid)},
		{config.Program{Command: []string{closed + "/x"}, Settings: &config.Settings{}}, fmt.Sprintf("open executable %s/x: superd (user %d) may not enter /", closed, uid)},
	}
	for _, tt := range tests {
		if tt.program.Command == nil {
			tt.program.Command = []string{"true"}
		}
		if _, err := newStarter(t, &tt.program).start(t); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("start fails with %v, want %s", err, tt.want)
		}
	}
}

// TestExecuteFails: each failure has a distinct reason and leaves nothing behind.
func TestExecuteFails(t *testing.T) {
	user := needUser(t)
	dir := openTemp(t)
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, mode := range map[string]os.FileMode{"private": 0o700, "empty": 0o755} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	hidden := write("private/x", "#!/bin/sh\n", 0o755)
	mine := write("mine", "#!/bin/sh\n", 0o700)
	script := write("script", "#!"+hidden+"\n", 0o755)
	odd := write("odd", "\x7fELF nonsense", 0o755)
	step := config.Limits{Rlimits: noCore}
	tests := []struct {
		name    string
		program config.Program
		want    string
	}{
		{"unknown user", config.Program{Settings: &config.Settings{User: "nobody-here"}}, `look up user nobody-here: there is no user "nobody-here" in /etc/passwd`},
		{"unknown number", config.Program{Settings: &config.Settings{User: "424242"}}, `look up user 424242: there is no user "424242" in /etc/passwd`},
		{"unknown group", config.Program{Settings: &config.Settings{SupplementaryGroups: []string{"none-here"}}}, `look up group none-here: there is no group "none-here" in /etc/group`},
		{"executable in a closed directory", config.Program{Command: []string{hidden}, Settings: &config.Settings{User: user}}, "open executable DIR/private/x: user USER may not enter DIR/private (mode 0700, owner 0:0)"},
		{"executable of root", config.Program{Command: []string{mine}, Settings: &config.Settings{User: user}}, "open executable DIR/mine: user USER may not execute DIR/mine (mode 0700, owner 0:0)"},
		{"executable of root in PATH", config.Program{Command: []string{"mine"}, Environment: map[string]string{"PATH": dir}, Settings: &config.Settings{User: user}}, "open executable DIR/mine: user USER may not execute DIR/mine (mode 0700, owner 0:0)"},
		{"interpreter in a closed directory", config.Program{Command: []string{script}, Settings: &config.Settings{User: user}}, `run script DIR/script: interpreter "DIR/private/x": user USER may not enter DIR/private (mode 0700, owner 0:0)`},
		{"closed directory", config.Program{Settings: &config.Settings{User: user, Directory: dir + "/private"}}, "enter directory DIR/private: user USER may not enter DIR/private (mode 0700, owner 0:0)"},
		{"missing directory", config.Program{Settings: &config.Settings{User: user, Directory: dir + "/none"}}, "enter directory DIR/none: no such file or directory"},
		{"directory that is a file", config.Program{Settings: &config.Settings{User: user, Directory: script}}, "enter directory DIR/script: not a directory"},
		{"too many files", config.Program{Settings: &config.Settings{Limits: config.Limits{Rlimits: files(1 << 30)}}}, "set limits.nofile: 1073741824 is more than fs.nr_open, "},
		{"a CPU that does not exist", attributes(config.Attributes{CPUAffinity: []int{0, 8000}}), "set cpu_affinity: to 0,8000: invalid argument; superd itself may use the CPUs "},
		{"exec fails", config.Program{Command: []string{odd}, Settings: &config.Settings{}}, "execute DIR/odd: neither a script with a #! line nor a binary for this machine"},
		{"exec fails in the step", config.Program{Command: []string{odd}, Settings: &config.Settings{Limits: step}}, "execute DIR/odd: neither a script with a #! line nor a binary for this machine"},
		{"exec fails in the step as user", config.Program{Command: []string{odd}, Settings: &config.Settings{User: user, Limits: step}}, "execute DIR/odd: neither a script with a #! line nor a binary for this machine"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.program.Command == nil {
				tt.program.Command = []string{"true"}
			}
			s := newStarter(t, &tt.program)
			s.start(t) // makes the FIFO
			before := openDescriptors(t)
			child, err := s.start(t)
			if err == nil {
				child.Close()
				t.Fatal("it started")
			}
			want := strings.ReplaceAll(strings.ReplaceAll(tt.want, "DIR", dir), "USER", user)
			if !strings.HasPrefix(err.Error(), want) {
				t.Errorf("start fails with %q, want %q", err, want)
			}
			if se, ok := errors.AsType[*host.SpawnError](err); !ok || se.Fault != host.FaultProgram {
				t.Errorf("%#v is no mistake of the program", err)
			}
			if after := openDescriptors(t); after != before {
				t.Errorf("%d descriptors open, %d before", after, before)
			}
			if pid, ok, err := pidfd.Peek(); err != nil || ok && !isStranger(t, pid) {
				t.Errorf("process %d was not reaped (%v)", pid, err)
			}
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestStepStages covers stages of the exec shim that an earlier check prevents, except in a race or
// a container.
func TestStepStages(t *testing.T) {
	needRoot(t)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	dir := t.TempDir() // accessible to root only
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		step  execshim.Step
		stage execshim.Stage
		errno syscall.Errno
	}{
		{execshim.Step{Attributes: execshim.Attributes{OOMScoreAdj: ptr(5000)}}, execshim.StageOOM, unix.EINVAL},
		{execshim.Step{Attributes: execshim.Attributes{IOPriority: ptr(7 << 13)}}, execshim.StageIO, unix.EINVAL},
		{execshim.Step{Attributes: execshim.Attributes{CPUs: []int{4000}}}, execshim.StageCPUs, unix.EINVAL},
		{execshim.Step{Attributes: execshim.Attributes{Scheduling: &execshim.Scheduling{Policy: 77}}}, execshim.StageScheduling, unix.EINVAL},
		{execshim.Step{Attributes: execshim.Attributes{Limits: files(1 << 40)}}, execshim.StageLimit + execshim.Stage(rlimit.NoFile), unix.EPERM},
		{execshim.Step{Dir: "/nowhere"}, execshim.StageDir, unix.ENOENT},
		{execshim.Step{Dir: dir, Credential: &syscall.Credential{Uid: 1, Gid: 1}}, execshim.StageDir, unix.EACCES},
		{execshim.Step{Path: "/nowhere"}, execshim.StageExecute, unix.ENOENT},
		{execshim.Step{Credential: &syscall.Credential{Groups: []uint32{1<<32 - 1}}}, execshim.StageGroups, unix.EINVAL},
	}
	k := testKernel(null)
	for _, tt := range tests {
		t.Run(tt.stage.String()+" "+tt.errno.Error(), func(t *testing.T) {
			if tt.step.Path == "" {
				tt.step.Path = "/bin/true"
			}
			if tt.step.Dir == "" {
				tt.step.Dir = "/"
			}
			tt.step.Args = []string{"true"}
			_, _, err := k.spawnStep(&attempt{slot: new(startQueue).newSlot(&start{})}, &tt.step, &pidfd.Attr{Files: []int{null, null, null}, CgroupFD: -1}, -1, -1)
			failed, ok := errors.AsType[*execshim.Error](err)
			if !ok || failed.Stage != tt.stage || failed.Errno != tt.errno {
				t.Errorf("step fails with %v, want %s: %v", err, tt.stage, tt.errno)
			}
		})
	}
}

// isStranger reports whether a zombie is an orphan left by another test, and then reaps it. A
// failed start leaves a process that still has the name of this one.
func isStranger(t *testing.T, pid int) bool {
	t.Helper()
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err == nil && (string(name) == string(own) || strings.HasPrefix(string(name), "superd")) {
		return false
	}
	if _, _, err := pidfd.ReapUnknown(pid); err != nil {
		t.Fatal(err)
	}
	return true
}
