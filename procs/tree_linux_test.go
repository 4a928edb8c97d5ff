package procs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/loop"
	"superd/pidfd"
)

// treePatience bounds every wait for something that is sure to happen.
const treePatience = 90 * time.Second

// A treeBed is a kernel on a running loop, with real processes.
type treeBed struct {
	t          testing.TB
	loop       *loop.Loop
	kernel     *Kernel
	dir        string
	byPid      map[int]Process // the started processes; belongs to the loop
	noInstance int
}

// newTreeBed makes a bed with cgroups or with process scans. Without the right to make cgroups it
// skips the test.
func newTreeBed(t testing.TB, noCgroup bool) *treeBed {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &treeBed{t: t, loop: l, dir: t.TempDir(), byPid: map[int]Process{}}
	var said bytes.Buffer
	b.kernel, err = NewKernel(l, KernelOptions{RuntimeDir: b.dir, FIFODir: filepath.Join(b.dir, "fifo"), Log: slog.New(slog.NewTextHandler(&said, nil)), NoCgroup: noCgroup})
	if err != nil {
		t.Fatal(err)
	}
	l.Root().Every(20*time.Millisecond, func() {
		b.kernel.ReapOrphans(func(pid int) {
			if p := b.byPid[pid]; p != nil {
				if _, ended, _ := p.Wait(); ended {
					delete(b.byPid, pid)
				}
				return
			}
			if _, err := b.kernel.ReapUnknown(pid); err != nil {
				t.Errorf("ReapStranger(%d): %v", pid, err)
			}
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Post(l.Stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if c := b.kernel.cgroups; c != nil {
			if _, err := os.Stat(c.base); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the cgroups are still there: %v", err)
			}
		}
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	if !noCgroup && b.kernel.cgroups == nil {
		t.Skip(said.String())
	}
	return b
}

// bothKinds runs test with cgroups and with process scans.
func bothKinds(t *testing.T, test func(t *testing.T, b *treeBed)) {
	for _, kind := range []string{"cgroup", "census"} {
		t.Run(kind, func(t *testing.T) { test(t, newTreeBed(t, kind == "census")) })
	}
}

// on runs f on the loop and returns when it has run.
func (b *treeBed) on(f func()) {
	b.t.Helper()
	done := make(chan struct{})
	b.loop.Post(func() { f(); close(done) })
	await(b.t, done, "the loop")
}

func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(treePatience):
		t.Fatalf("waited %v for %s", treePatience, what)
		panic("unreachable")
	}
}

// spec returns the spec of a program in the tree.
func (b *treeBed) spec(tree Tree, program *config.Program) *SpawnSpec {
	b.noInstance++
	if program.Directory == "" {
		program.Directory = "/"
	}
	return &SpawnSpec{
		Name: program.Name, Tree: tree, Program: program,
		Environment: config.Inherited(os.Environ()),
		Own:         variables("SUPERD_NAME", program.Name, "SUPERD_INSTANCE", program.Name, "SUPERD_INVOCATION_ID", "id", "SUPERD_OWNER", b.dir),
		Outputs:     []Outlet{{FIFO: filepath.Join(b.dir, fmt.Sprintf("fifo%d", b.noInstance)), ReadFD: -1}},
	}
}

// variables returns variables from names and values in turn.
func variables(namesAndValues ...string) (v config.Variables) {
	for i := 0; i < len(namesAndValues); i += 2 {
		v.Set(namesAndValues[i], namesAndValues[i+1])
	}
	return v
}

func (b *treeBed) newTree(name string) (tree Tree) {
	b.on(func() { tree = b.kernel.NewTree(name, "") })
	return tree
}

// try starts a program in the tree.
func (b *treeBed) try(tree Tree, program *config.Program) (Child, error) {
	b.t.Helper()
	type result struct {
		child Child
		err   error
	}
	results := make(chan result, 1)
	spec := b.spec(tree, program)
	b.on(func() {
		b.kernel.Spawn(spec, func(c Child, err error) {
			if err == nil {
				b.byPid[c.Process.Pid()] = c.Process
			}
			results <- result{c, err}
		})
	})
	r := await(b.t, results, "the start of "+program.Name)
	if made := r.child.ReadFDs; len(made) > 0 && made[0] >= 0 {
		b.t.Cleanup(func() { unix.Close(made[0]) })
	}
	return r.child, r.err
}

// start is try, but fails the test on an error.
func (b *treeBed) start(tree Tree, name string, command ...string) Child {
	b.t.Helper()
	child, err := b.try(tree, &config.Program{Name: name, Command: command, Settings: &config.Settings{}})
	if err != nil {
		b.t.Fatal(err)
	}
	return child
}

// look returns the members of the tree, opened.
func (b *treeBed) look(tree Tree) []Member {
	b.t.Helper()
	found := make(chan []Member, 1)
	b.on(func() { tree.Look(func(m []Member) { found <- m }) })
	return await(b.t, found, "a look")
}

// meets looks until want is true of the pids in the tree.
func (b *treeBed) meets(tree Tree, what string, want func(pids []int) bool) []int {
	b.t.Helper()
	for deadline := time.Now().Add(treePatience); ; {
		var pids []int
		for _, m := range b.look(tree) {
			pids = append(pids, m.Process.Pid())
			m.Process.Close()
		}
		if want(pids) {
			return pids
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the tree has %v, want %s", pids, what)
		}
	}
}

func many(n int) func([]int) bool { return func(pids []int) bool { return len(pids) == n } }

// end kills the tree as an instance does, until it is empty.
func (b *treeBed) end(tree Tree) {
	b.t.Helper()
	for deadline := time.Now().Add(treePatience); ; {
		b.on(func() {
			if err := tree.Kill(); err != nil {
				b.t.Errorf("Kill: %v", err)
			}
		})
		members := b.look(tree)
		if len(members) == 0 {
			return
		}
		for _, m := range members {
			m.Process.Signal(unix.SIGKILL)
		}
		for _, m := range members {
			fds := []unix.PollFd{{Fd: int32(m.Process.FD()), Events: unix.POLLIN}}
			unix.Poll(fds, int(treePatience.Milliseconds()))
			m.Process.Close()
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("somebody still lives: %v", members)
		}
	}
}

// marked returns the living processes that have mark in their command line.
func marked(t testing.TB, mark string) (found []int) {
	t.Helper()
	pids, err := procfs.Pids()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(text, []byte(mark)) {
			found = append(found, pid)
		}
	}
	return found
}

// Chains of processes, each of which ends as soon as it has a child. They end by themselves if the
// test fails to end them.
const (
	chain        = `exec perl -e '$end = time + 30; { exit if fork or time > $end; redo }' MARK`
	sessionChain = `[ "$2" = 9999 ] || exec setsid -f sh -c "$1" MARK "$1" $(($2 + 1))`
)

// escapes are ways to leave a program's tree. MARK stands for a number of seconds that no other
// process sleeps for.
var escapes = []struct {
	name, script string
	cgroupOnly   bool
	stays        bool // whether the main process stays
}{
	{"forks twice and ends", `(sleep MARK &)`, false, false},
	{"begins a session", `setsid -f sleep MARK`, false, false},
	{"leaves the process group", `exec bash -mc 'sleep MARK & exit'`, false, false},
	{"ignores SIGTERM", `trap "" TERM; sleep MARK & wait`, false, true},
	{"clears its environment too", `(setsid -f env -i sleep MARK)`, false, false},
	{"closes its output too", `(setsid -f env -i sleep MARK >&- 2>&-)`, true, false},
	{"sheds all but its group", `exec bash -c '(exec -c sleep MARK >&- 2>&- &)'`, false, false},
	{"forks faster than a walk", chain, false, false},
	{"forks and begins sessions", sessionChain, false, false},
	{"multiplies", `for i in 1 2 3 4 5 6 7 8; do (setsid -f sh -c 'sleep MARK & sleep MARK & sleep MARK'); done`, false, false},
}

func TestNothingEscapes(t *testing.T) {
	bothKinds(t, func(t *testing.T, b *treeBed) {
		bystander := b.newTree("bystander")
		other := b.start(bystander, "bystander", "/bin/sh", "-c", "setsid -f sleep 60; sleep 60; :")
		b.meets(bystander, "three processes", many(3))
		for i, e := range escapes {
			if e.cgroupOnly && b.kernel.cgroups == nil {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				b.t = t
				mark := fmt.Sprintf("30.%d%03d", os.Getpid(), i)
				tree := b.newTree("escape")
				if !tree.Empty() {
					t.Fatal("a new tree is not empty")
				}
				script := strings.ReplaceAll(e.script, "MARK", mark)
				main := b.start(tree, "escape", "/bin/sh", "-c", script, mark, script).Process.Pid()
				b.meets(tree, "somebody who has got away", func(pids []int) bool {
					return len(pids) > 0 && (e.stays || !slices.Contains(pids, main))
				})
				b.end(tree)
				for range 10 { // a process that forks fast is not always seen
					if left := marked(t, mark); len(left) > 0 {
						t.Fatalf("processes %v have escaped", left)
					}
				}
				b.on(func() {
					if !tree.Empty() {
						t.Error("the tree is not empty")
					}
					tree.Remove()
				})
			})
		}
		b.t = t
		if pids := b.meets(bystander, "three processes", many(3)); !slices.Contains(pids, other.Process.Pid()) {
			t.Errorf("the bystander has %v, want %d among them", pids, other.Process.Pid())
		}
		b.end(bystander)
	})
}

// TestOutputsAreStoredBeforeTheFork: early output survives if superd is killed just after the
// start.
func TestOutputsAreStoredBeforeTheFork(t *testing.T) {
	b := newTreeBed(t, true)
	spec := b.spec(b.newTree("web"), &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{}})
	born, kept := false, -1
	spec.StoreFDs = func(_, _ int, outputs []int) {
		if !born {
			kept = outputs[0]
		}
	}
	spec.LogSpawned = func(pidfd.Identity, time.Duration) error { born = true; return nil }
	results := make(chan Child, 1)
	b.on(func() {
		b.kernel.Spawn(spec, func(c Child, err error) {
			if err != nil {
				t.Error(err)
			} else {
				b.byPid[c.Process.Pid()] = c.Process
			}
			results <- c
		})
	})
	child := await(t, results, "the start")
	if kept < 0 || kept != child.ReadFDs[0] {
		t.Errorf("kept before the birth: descriptor %d, want %d", kept, child.ReadFDs[0])
	}
	for _, fd := range child.ReadFDs {
		unix.Close(fd)
	}
}
