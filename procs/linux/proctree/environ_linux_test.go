package proctree

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/linux/linuxtest"
)

// taggedProcess starts a process with environment tags, in a session of its own.
func taggedProcess(t *testing.T, m Tags, argv ...string) procfs.Stat {
	t.Helper()
	// So that the tags are beyond the first read
	env := []string{"FIRST=" + strings.Repeat("x", 20_000),
		"SUPERD_OWNER=" + m.Owner, "SUPERD_INVOCATION_ID=" + m.Run, "SUPERD_INSTANCE=" + m.Instance}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := pidfd.Spawn(&pidfd.Attr{Path: path, Args: argv, Env: env, CgroupFD: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.SignalGroup(unix.SIGKILL); err != nil {
			t.Error(err)
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}, -1); err != nil {
			t.Error(err)
		}
		if _, _, err := p.Wait(); err != nil {
			t.Error(err)
		}
		p.Close()
	})
	s, err := procfs.ReadStat(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTagsOfAnImpossibleEnvironment: a process may set any address of its environment
// (PR_SET_MM_MAP), even without root.
func TestTagsOfAnImpossibleEnvironment(t *testing.T) {
	s, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s.EnvironSize = math.MaxInt
	if m, readable, err := readTagsOf(&s); m != (Tags{}) || !readable || err != nil {
		t.Errorf("readTagsOf = %+v, %v, %v, want no tags", m, readable, err)
	}
}

// TestTagsDuringAnExec: a process that executes one program after another has its tags at all
// times, though for a moment no readable environment.
func TestTagsDuringAnExec(t *testing.T) {
	want := Tags{Owner: "/run/superd", Run: "r1", Instance: "web"}
	s := taggedProcess(t, want, "sh", "-c", `exec sh -c "$0" "$0"`, `exec sh -c "$0" "$0"`)
	readTimes, inExec := 0, 0
	for i := 0; i < 1000 || inExec == 0 || readTimes == 0; i++ {
		if i == 1_000_000 {
			t.Fatalf("%d reads during an exec, %d with tags; want both", inExec, readTimes)
		}
		if now, err := procfs.ReadStat(s.Pid); err == nil && now.InExec {
			inExec++
		}
		if got, readable, err := readTags(s.Pid); readable && got != want || err != nil {
			t.Fatalf("readTags = %+v, %v, %v, want %+v if readable", got, readable, err, want)
		} else if readable {
			readTimes++
		}
	}
}

// TestOutsidersAreExaminedAgain: the scan examines a process again when superd has outsidersStale
// of a tree that it could belong to.
func TestOutsidersAreExaminedAgain(t *testing.T) {
	const noPid = 1 << 30
	dir := t.TempDir()
	c := New(Options{RuntimeDir: dir})
	c.self, c.keeper = noPid, noPid
	s := taggedProcess(t, Tags{Owner: dir, Run: "r1", Instance: "late"}, "sleep", "100")
	untagged := taggedProcess(t, Tags{}, "sh", "-c", "(sleep 100 &); exec sleep 100")
	orphan := 0
	for deadline := time.Now().Add(linuxtest.Patience); orphan == 0; {
		if time.Now().After(deadline) {
			t.Fatal("there is no orphan")
		}
		pids, err := procfs.Pids()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if s, err := procfs.ReadStat(pid); err == nil && s.Session == untagged.Pid && s.Pid != untagged.Pid && s.Command == "sleep" && s.Parent != untagged.Pid {
				orphan = pid
			}
		}
	}
	web := c.NewTree("web", true)
	wantMembers := func(tree *Tree, pids ...int) {
		t.Helper()
		w, err := c.scan(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range w.members[tree] {
			got = append(got, m.Pid)
		}
		if fmt.Sprint(got) != fmt.Sprint(pids) {
			t.Errorf("members of %s: %v, want %v", tree.instance, got, pids)
		}
	}
	wantMembers(web)
	late := c.NewTree("late", true)
	wantMembers(late, s.Pid)
	// An orphan without tags is in the session of a process that becomes roots.
	c.mu.Lock()
	web.addRoot(keyOf(&untagged))
	c.mu.Unlock()
	wantMembers(web, untagged.Pid, orphan)
}

// TestEldest: if several session leaders were started under one run, the main process is the common
// ancestor.
func TestEldest(t *testing.T) {
	processOf := func(pid int) *TaggedProcess {
		s, err := procfs.ReadStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		return &TaggedProcess{Stat: s}
	}
	main := processOf(taggedProcess(t, Tags{}, "sh", "-c", "setsid sleep 100 & exec sleep 100").Pid)
	other := processOf(taggedProcess(t, Tags{}, "sleep", "100").Pid)
	child := 0
	for deadline := time.Now().Add(linuxtest.Patience); child == 0; {
		if time.Now().After(deadline) {
			t.Fatal("there is no child")
		}
		for pid := range procfs.Children(main.Stat.Pid) {
			if s, err := procfs.ReadStat(pid); err == nil && s.Session == pid {
				child = pid
			}
		}
	}
	p, err := pidfd.Open(child)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer p.Signal(unix.SIGKILL)
	tests := []struct {
		name string
		all  []*TaggedProcess
		want *TaggedProcess
	}{
		{"one", []*TaggedProcess{other}, other},
		{"a child, too", []*TaggedProcess{processOf(child), main}, main},
		{"two of which neither descends from the other", []*TaggedProcess{main, other}, nil},
		{"none", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Eldest(tt.all); got != tt.want {
				t.Errorf("eldest = %+v, want %+v", got, tt.want)
			}
		})
	}
}
