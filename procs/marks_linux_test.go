package procs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// markedProcess starts a process that carries the marks, in a session of its own.
func markedProcess(t *testing.T, m marks, argv ...string) procStat {
	t.Helper()
	env := []string{"FIRST=" + strings.Repeat("x", 20_000), // so that the marks are not in what is read first
		"SUPERD_OWNER=" + m.owner, "SUPERD_INVOCATION_ID=" + m.run, "SUPERD_INSTANCE=" + m.instance}
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
	s, err := readStat(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A process may claim any place for its environment (PR_SET_MM_MAP), and need not be root for that.
func TestMarksOfAnEnvironmentThatCannotBe(t *testing.T) {
	s, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s.environ = 1 << 47
	if m, told, err := s.readMarks(); m != (marks{}) || !told || err != nil {
		t.Errorf("readMarks = %+v, %v, %v, want that it has none", m, told, err)
	}
}

// TestMarksInAnExec: who executes one program after the other has marks at all times, and has no environment for a part of them.
func TestMarksInAnExec(t *testing.T) {
	want := marks{owner: "/run/superd", run: "r1", instance: "web"}
	s := markedProcess(t, want, "sh", "-c", `exec sh -c "$0" "$0"`, `exec sh -c "$0" "$0"`)
	heard, bare := 0, 0
	for i := 0; i < 1000 || bare == 0 || heard == 0; i++ {
		if i == 1_000_000 {
			t.Fatalf("it was met %d times in the midst of an exec, and %d times it told its marks", bare, heard)
		}
		if now, err := readStat(s.pid); err == nil && now.bare {
			bare++
		}
		if got, told, err := readMarks(s.pid); told && got != want || err != nil {
			t.Fatalf("readMarks = %+v, %v, %v, want %+v if they are told", got, told, err, want)
		} else if told {
			heard++
		}
	}
}

// TestOutsidersAreExaminedAgain where superd has learned since to whom they could belong.
func TestOutsidersAreExaminedAgain(t *testing.T) {
	const nobody = 1 << 30
	dir := t.TempDir()
	c := newCensus(&Kernel{}, dir, nil)
	c.self, c.keeper = nobody, nobody
	s := markedProcess(t, marks{owner: dir, run: "r1", instance: "late"}, "sleep", "100")
	unmarked := markedProcess(t, marks{}, "sh", "-c", "(sleep 100 &); exec sleep 100")
	orphan := 0
	for deadline := time.Now().Add(treePatience); orphan == 0; {
		if time.Now().After(deadline) {
			t.Fatal("there is no orphan")
		}
		pids, err := allPids()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if s, err := readStat(pid); err == nil && s.session == unmarked.pid && s.pid != unmarked.pid && s.command == "sleep" && s.parent != unmarked.pid {
				orphan = pid
			}
		}
	}
	web := c.newTree("web", true)
	meets := func(tree *censusTree, pids ...int) {
		t.Helper()
		w, err := c.walk()
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range w.members[tree] {
			got = append(got, m.pid)
		}
		if fmt.Sprint(got) != fmt.Sprint(pids) {
			t.Errorf("members of %s: %v, want %v", tree.instance, got, pids)
		}
	}
	meets(web)
	late := c.newTree("late", true)
	meets(late, s.pid)
	// Who has lost his parent, and has no marks, is in the session of one who becomes known.
	c.mu.Lock()
	web.know(unmarked.key())
	c.mu.Unlock()
	meets(web, unmarked.pid, orphan)
}

// TestEldest: of several who lead sessions and were started under one run, the main process is the one of whom the others descend.
func TestEldest(t *testing.T) {
	traceOf := func(pid int) *trace {
		s, err := readStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		return &trace{stat: s}
	}
	main := traceOf(markedProcess(t, marks{}, "sh", "-c", "setsid sleep 100 & exec sleep 100").pid)
	other := traceOf(markedProcess(t, marks{}, "sleep", "100").pid)
	child := 0
	for deadline := time.Now().Add(treePatience); child == 0; {
		if time.Now().After(deadline) {
			t.Fatal("there is no child")
		}
		for pid := range childrenOf(main.stat.pid) {
			if s, err := readStat(pid); err == nil && s.session == pid {
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
		all  []*trace
		want *trace
	}{
		{"one", []*trace{other}, other},
		{"a child, too", []*trace{traceOf(child), main}, main},
		{"two of which neither descends from the other", []*trace{main, other}, nil},
		{"none", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := eldest(tt.all); got != tt.want {
				t.Errorf("eldest = %+v, want %+v", got, tt.want)
			}
		})
	}
}
