package linux

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
	"superd/config/codec"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/cgroup"
	"superd/procs/linux/linuxtest"
)

// A treeBed is a bed with a [Host].
type treeBed struct {
	*linuxtest.Bed
	kernel *Host
}

// newTreeBed makes a bed with cgroups or with process scans. Without the right to make cgroups it
// skips the test.
func newTreeBed(t testing.TB, noCgroup bool) *treeBed {
	t.Helper()
	b := &treeBed{}
	var said bytes.Buffer
	b.Bed = linuxtest.NewBed(t, func(l *loop.Loop, dir string) host.Host {
		var err error
		b.kernel, err = New(l, Options{
			RuntimeDir: dir, FIFODir: filepath.Join(dir, "fifo"), NoCgroup: noCgroup,
			Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.kernel
	}, nil)
	if !noCgroup && b.kernel.cgroups == nil {
		t.Skip(said.String())
	}
	return b
}

// bothKinds runs test with cgroups and with process scans.
func bothKinds(t *testing.T, test func(t *testing.T, b *treeBed)) {
	for _, kind := range []string{"cgroup", "scan"} {
		t.Run(kind, func(t *testing.T) { test(t, newTreeBed(t, kind == "scan")) })
	}
}

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
	{"forks faster than a scan", linuxtest.Chain, false, false},
	{"forks fast, several at a time", linuxtest.WideChain, false, false},
	{"forks and begins sessions", linuxtest.SessionChain, false, false},
	{"multiplies", `for i in 1 2 3 4 5 6 7 8; do (setsid -f sh -c 'sleep MARK & sleep MARK & sleep MARK'); done`, false, false},
}

func TestNothingEscapes(t *testing.T) {
	bothKinds(t, func(t *testing.T, b *treeBed) {
		bystander := b.NewTree("bystander")
		other := b.Start(bystander, "bystander", "/bin/sh", "-c", "setsid -f sleep 60; sleep 60; :")
		b.AwaitPids(bystander, "three processes", linuxtest.Count(3))
		for i, e := range escapes {
			if e.cgroupOnly && b.kernel.cgroups == nil {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				b.T = t
				mark := fmt.Sprintf("30.%d%03d", os.Getpid(), i)
				tree := b.NewTree("escape")
				if !tree.Empty() {
					t.Fatal("a new tree is not empty")
				}
				script := strings.ReplaceAll(e.script, "MARK", mark)
				main := b.Start(tree, "escape", "/bin/sh", "-c", script, mark, script).Process.Pid()
				b.AwaitPids(tree, "a process that escaped", func(pids []int) bool {
					return len(pids) > 0 && (e.stays || !slices.Contains(pids, main))
				})
				b.End(tree)
				for range 10 { // a process that forks fast is not always seen
					if left := linuxtest.Running(t, mark); len(left) > 0 {
						t.Fatalf("processes %v have escaped", left)
					}
				}
				b.On(func() {
					if !tree.Empty() {
						t.Error("the tree is not empty")
					}
					tree.Remove()
				})
			})
		}
		b.T = t
		if pids := b.AwaitPids(bystander, "three processes", linuxtest.Count(3)); !slices.Contains(pids, other.Process.Pid()) {
			t.Errorf("the bystander has %v, want %d among them", pids, other.Process.Pid())
		}
		b.End(bystander)
	})
}

// TestOutputsAreStoredBeforeTheFork: early output survives if superd is killed just after the
// start.
func TestOutputsAreStoredBeforeTheFork(t *testing.T) {
	b := newTreeBed(t, true)
	spec := b.Spec(b.NewTree("web"), &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{}})
	spawned, stored := false, -1
	spec.StoreFDs = func(_, _ int, outputs []int) {
		if !spawned {
			stored = outputs[0]
		}
	}
	spec.LogSpawned = func(pidfd.Identity, time.Duration) error { spawned = true; return nil }
	results := make(chan linuxtest.Result, 1)
	b.On(func() { b.Spawn(spec, results) })
	started := linuxtest.Await(t, results, "the start")
	if started.Err != nil {
		t.Fatal(started.Err)
	}
	child := started.Child
	if stored < 0 || stored != child.ReadFDs[0] {
		t.Errorf("stored before the fork: descriptor %d, want %d", stored, child.ReadFDs[0])
	}
	for _, fd := range child.ReadFDs {
		unix.Close(fd)
	}
}

// TestLimitsWithoutController: a limit whose controller is missing is a final error.
func TestLimitsWithoutController(t *testing.T) {
	const one = 1 << 30
	half, n := 0.5, int64(one)
	missing, _ := cgroup.Try()
	bothKinds(t, func(t *testing.T, b *treeBed) {
		for controller, limits := range map[string]config.Limits{"memory": {Swap: &n}, "cpu": {CPU: &half}, "pids": {Tasks: &n}, "io": {IO: []codec.IOLimit{{Path: "/", Read: &n}}}} {
			if b.kernel.cgroups != nil && missing[controller] == nil {
				t.Skip("there are controllers")
			}
			_, err := b.Try(b.NewTree("web"), &config.Program{Name: "web", Command: []string{"/bin/true"}, Settings: &config.Settings{Limits: limits}})
			se, ok := errors.AsType[*host.SpawnError](err)
			want := fmt.Sprintf("no cgroup v2 controller %s here: ", controller)
			if !ok || se.Fault != host.FaultFinal || !strings.Contains(err.Error(), want) {
				t.Errorf("start with %+v: %v, want %q for good", limits, err, want)
			}
		}
	})
}

// TestKillSparesLaterProcesses: a process spawned after the call of Kill survives.
func TestKillSparesLaterProcesses(t *testing.T) {
	bothKinds(t, func(t *testing.T, b *treeBed) {
		tree := b.NewTree("web")
		for range 20 {
			old := b.Start(tree, "web", "/bin/sleep", "60").Process.Pid()
			b.On(func() {
				if err := tree.Kill(); err != nil {
					t.Error(err)
				}
			})
			if b.kernel.cgroups == nil {
				b.AwaitPids(tree, "no process", linuxtest.Count(0)) // a spawn cancels a kill
			}
			next := startWhenFree(b, tree).Process.Pid()
			b.AwaitPids(tree, fmt.Sprintf("%d and not %d", next, old), func(pids []int) bool { return slices.Equal(pids, []int{next}) })
			b.End(tree)
		}
	})
}

// startWhenFree starts a process in a tree: again while what was killed there is about to end.
func startWhenFree(b *treeBed, tree host.Tree) host.Child {
	program := &config.Program{Name: "web", Command: []string{"/bin/sleep", "60"}, Settings: &config.Settings{}}
	for deadline := time.Now().Add(linuxtest.Patience); ; {
		child, err := b.Try(tree, program)
		if err == nil {
			return child
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			b.T.Fatal(err)
		}
	}
}

func TestLookOpensALimitedNumber(t *testing.T) {
	bothKinds(t, func(t *testing.T, b *treeBed) {
		var before unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		low := before
		low.Cur = 200
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
		tree := b.NewTree("web")
		b.Start(tree, "web", "/bin/sh", "-c", `i=0; while [ $i -lt 80 ]; do sleep 60 & i=$((i+1)); done; wait`)
		b.AwaitPids(tree, "50 of 81", linuxtest.Count(50))
		b.End(tree)
	})
}
