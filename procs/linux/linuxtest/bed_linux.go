// Package linuxtest runs real processes in process trees, for tests of procs/linux and of its
// trees.
package linuxtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/environ"
	"superd/internal/procfs"
	"superd/loop"
	"superd/procs/host"
)

// Patience bounds every wait for something that is sure to happen.
const Patience = 90 * time.Second

// A Bed is a host on a running loop, with real processes.
type Bed struct {
	T    testing.TB
	Loop *loop.Loop
	Host host.Host
	Dir  string

	byPid map[int]host.Process // the started processes; belongs to the loop
	specs int
}

// NewBed makes a bed with the host that open returns. The process is a child subreaper until the
// test ends. closed, which may be nil, is called when the loop has ended.
func NewBed(t testing.TB, open func(l *loop.Loop, dir string) host.Host, closed func()) *Bed {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bed{T: t, Loop: l, Dir: t.TempDir(), byPid: map[int]host.Process{}}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	b.Host = open(l, b.Dir)
	l.Root().Every(20*time.Millisecond, b.reap)
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Post(l.Stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if closed != nil {
			closed()
		}
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *Bed) reap() {
	b.Host.ReapOrphans(func(pid int) {
		if p := b.byPid[pid]; p != nil {
			if _, ended, _ := p.Wait(); ended {
				delete(b.byPid, pid)
			}
			return
		}
		if _, err := b.Host.ReapUnknown(pid); err != nil {
			b.T.Errorf("ReapUnknown(%d): %v", pid, err)
		}
	})
}

// On runs f on the loop and returns when it has run.
func (b *Bed) On(f func()) {
	b.T.Helper()
	done := make(chan struct{})
	b.Loop.Post(func() { f(); close(done) })
	Await(b.T, done, "the loop")
}

// Await returns what comes from c. It fails the test if nothing does.
func Await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		t.Fatalf("waited %v for %s", Patience, what)
		panic("unreachable")
	}
}

// Spec returns the spec of a program in the tree.
func (b *Bed) Spec(tree host.Tree, program *config.Program) *host.SpawnSpec {
	b.specs++
	if program.Directory == "" {
		program.Directory = "/"
	}
	var own environ.Variables
	own.Set("SUPERD_NAME", program.Name)
	own.Set("SUPERD_INSTANCE", program.Name)
	own.Set("SUPERD_INVOCATION_ID", "id")
	own.Set("SUPERD_OWNER", b.Dir)
	return &host.SpawnSpec{
		Name: program.Name, Tree: tree, Program: program,
		Environment: environ.Inherited(os.Environ()),
		Own:         own,
		Outputs: []host.Outlet{{
			FIFO: filepath.Join(b.Dir, fmt.Sprintf("fifo%d", b.specs)), ReadFD: -1,
		}},
	}
}

// NewTree returns a new tree of the host.
func (b *Bed) NewTree(name string) (tree host.Tree) {
	b.On(func() { tree = b.Host.NewTree(name, "") })
	return tree
}

// A Result is the result of a spawn.
type Result struct {
	Child host.Child
	Err   error
}

// Spawn spawns spec. It is called on the loop. The bed reaps the process.
func (b *Bed) Spawn(spec *host.SpawnSpec, results chan<- Result) host.PendingSpawn {
	return b.Host.Spawn(spec, func(c host.Child, err error) {
		if err == nil {
			b.byPid[c.Process.Pid()] = c.Process
		}
		results <- Result{c, err}
	})
}

// Try starts a program in the tree.
func (b *Bed) Try(tree host.Tree, program *config.Program) (host.Child, error) {
	b.T.Helper()
	results := make(chan Result, 1)
	spec := b.Spec(tree, program)
	b.On(func() { b.Spawn(spec, results) })
	r := Await(b.T, results, "the start of "+program.Name)
	if made := r.Child.ReadFDs; len(made) > 0 && made[0] >= 0 {
		b.T.Cleanup(func() { unix.Close(made[0]) })
	}
	return r.Child, r.Err
}

// Start is Try, but fails the test on an error.
func (b *Bed) Start(tree host.Tree, name string, command ...string) host.Child {
	b.T.Helper()
	child, err := b.Try(tree, &config.Program{Name: name, Command: command, Settings: &config.Settings{}})
	if err != nil {
		b.T.Fatal(err)
	}
	return child
}

// Members returns the processes of the tree, opened.
func (b *Bed) Members(tree host.Tree) []host.Member {
	b.T.Helper()
	found := make(chan []host.Member, 1)
	b.On(func() { tree.Look(func(m []host.Member) { found <- m }) })
	return Await(b.T, found, "a look")
}

// AwaitPids looks until want is true of the pids in the tree.
func (b *Bed) AwaitPids(tree host.Tree, what string, want func(pids []int) bool) []int {
	b.T.Helper()
	for deadline := time.Now().Add(Patience); ; {
		var pids []int
		for _, m := range b.Members(tree) {
			pids = append(pids, m.Process.Pid())
			m.Process.Close()
		}
		if want(pids) {
			return pids
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("the tree has %v, want %s", pids, what)
		}
	}
}

// Count returns a condition for [Bed.AwaitPids]: n processes.
func Count(n int) func([]int) bool { return func(pids []int) bool { return len(pids) == n } }

// End kills the tree as an instance does, until it is empty.
func (b *Bed) End(tree host.Tree) {
	b.T.Helper()
	for deadline := time.Now().Add(Patience); ; {
		b.On(func() {
			if err := tree.Kill(); err != nil {
				b.T.Errorf("Kill: %v", err)
			}
		})
		members := b.Members(tree)
		if len(members) == 0 {
			return
		}
		for _, m := range members {
			m.Process.Signal(unix.SIGKILL)
		}
		for _, m := range members {
			fds := []unix.PollFd{{Fd: int32(m.Process.FD()), Events: unix.POLLIN}}
			unix.Poll(fds, int(Patience.Milliseconds()))
			m.Process.Close()
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("processes still live: %v", members)
		}
	}
}

// Running returns the living processes that have mark in their command line.
func Running(t testing.TB, mark string) (found []int) {
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
	Chain        = `exec perl -e '$end = time + 30; { exit if fork or time > $end; redo }' MARK`
	WideChain    = `exec perl -e '$end = time + 30; for (1 .. 8) { fork or last } { exit if fork or time > $end; redo }' MARK`
	SessionChain = `[ "$2" = 9999 ] || exec setsid -f sh -c "$1" MARK "$1" $(($2 + 1))`
)
