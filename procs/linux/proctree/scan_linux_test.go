package proctree

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/linuxtest"
)

// TestEmptyTreeTakesTwoScans: a tree counts as empty after two scans without a process of it, if no
// orphan ended in between.
func TestEmptyTreeTakesTwoScans(t *testing.T) {
	other := &Tree{}
	first := map[host.ProcessKey]*Tree{{Pid: 7, Start: 1}: nil}
	second := map[host.ProcessKey]*Tree{{Pid: 7, Start: 1}: nil, {Pid: 8, Start: 1}: nil}
	tests := []struct {
		name          string
		before, after scan
		want          bool
	}{
		{"nothing has happened", scan{zombies: first, from: 3, to: 3}, scan{zombies: first, from: 3, to: 3}, true},
		{"an orphan has ended", scan{zombies: first, from: 3, to: 3}, scan{zombies: second, from: 3, to: 3}, false},
		{"one was reaped in the first scan", scan{zombies: first, from: 3, to: 4}, scan{zombies: first, from: 4, to: 4}, false},
		{"one was reaped in the second scan", scan{zombies: first, from: 3, to: 3}, scan{zombies: first, from: 3, to: 4}, false},
		{"another has its pid", scan{zombies: first, from: 3, to: 3}, scan{zombies: map[host.ProcessKey]*Tree{{Pid: 7, Start: 2}: nil}, from: 3, to: 3}, false},
		{"one of another tree has ended", scan{zombies: first, from: 3, to: 3}, scan{zombies: map[host.ProcessKey]*Tree{{Pid: 7, Start: 1}: nil, {Pid: 8, Start: 1}: other}, from: 3, to: 3}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.after.follows(&tt.before, &Tree{}); got != tt.want {
				t.Errorf("follows = %v, want %v", got, tt.want)
			}
			c := New(Options{})
			q := &memberRequest{tree: c.NewTree("web", false), before: &tt.before, done: func([]host.Member) {}}
			q.tree.mayHaveProcesses = true
			// A further scan would be answered on the loop.
			if !tt.want && (c.answer(q, &tt.after) || !q.tree.mayHaveProcesses) {
				t.Error("it was answered that the tree is empty")
			}
		})
	}
}

// nextTick waits until a new process has a later start time than the present ones: start times
// count in clock ticks.
func nextTick() {
	for now := procfs.BootTicks(); procfs.BootTicks() == now; time.Sleep(time.Millisecond) {
	}
}

// TestHasNoProcess: superd's children show that a tree is empty, without a scan, and only if it is.
func TestHasNoProcess(t *testing.T) {
	b := newBed(t)
	if _, ok := procfs.ConsistentChildren(os.Getpid()); !ok {
		t.Skip("the kernel does not list children")
	}
	mark := fmt.Sprintf("33.%d", os.Getpid())
	hasNoProcess := func(tree *Tree) bool {
		b.scanner.mu.Lock()
		spawns := tree.spawns
		b.scanner.mu.Unlock()
		return tree.hasNoProcess(spawns)
	}
	awaitEnd := func(pid int) {
		t.Helper()
		for deadline := time.Now().Add(linuxtest.Patience); ; {
			if _, err := procfs.ReadStat(pid); err != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	// A daemon and a main process of other programs are children of superd.
	daemon, other := b.NewTree("daemon").(*Tree), b.NewTree("other").(*Tree)
	awaitEnd(b.Start(daemon, "daemon", "/bin/sh", "-c", "setsid -f sleep "+mark).Process.Pid())
	nextTick()
	b.Start(other, "other", "sleep", mark)

	tests := []struct {
		name, script string
		empty        bool
	}{
		{"it leaves nothing", "true", true},
		{"it leaves a session", "setsid -f sleep " + mark, false},
		{"it leaves a process below another one", "setsid -f sh -c 'sleep " + mark + "; true'", false},
		{"it leaves one of its group", "sleep " + mark + " &", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := b.NewTree("web").(*Tree)
			awaitEnd(b.Start(tree, "web", "/bin/sh", "-c", tt.script).Process.Pid())
			nextTick()
			b.Start(other, "other", "sleep", mark) // younger, and a root
			if got := hasNoProcess(tree); got != tt.empty {
				t.Errorf("hasNoProcess = %v, want %v", got, tt.empty)
			}
			if n := len(b.Members(tree)); n > 0 == tt.empty {
				t.Errorf("a scan finds %d", n)
			}
			if tree.Empty() != tt.empty || tt.empty && len(tree.roots) > 0 {
				t.Errorf("Empty = %v, with %d roots; want %v", tree.Empty(), len(tree.roots), tt.empty)
			}
			b.End(tree)
			b.On(tree.Remove)
		})
	}
	tree := b.NewTree("web").(*Tree)
	main := b.Start(tree, "web", "sleep", mark).Process.Pid()
	if hasNoProcess(tree) {
		t.Error("its main process lives")
	}
	if _, err := tree.PrepareSpawn(&config.Limits{}); err != nil { // a start in progress
		t.Fatal(err)
	}
	if err := unix.Kill(main, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(main)
	if hasNoProcess(tree) {
		t.Error("a start is in progress, whose process is not registered yet")
	}
	for _, tree := range []*Tree{tree, daemon, other} {
		b.End(tree)
	}
	if alive := linuxtest.Running(t, mark); len(alive) > 0 {
		t.Errorf("%v still live", alive)
	}
}

// BenchmarkProcessScan searches an empty tree, which takes two scans, among 1,000 processes of
// another program.
func BenchmarkProcessScan(b *testing.B) {
	bed := newBed(b)
	crowd := bed.NewTree("crowd")
	bed.Start(crowd, "crowd", "/bin/sh", "-c", `i=1; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); done; wait`)
	bed.AwaitPids(crowd, "a crowd", func(pids []int) bool { return len(pids) >= 1000 })
	web := bed.NewTree("web").(*Tree)
	for b.Loop() {
		web.mayHaveProcesses, web.unregistered = true, 1 // so that superd's children do not suffice
		if n := len(bed.Members(web)); n != 0 {
			b.Fatalf("%d live", n)
		}
	}
	bed.End(crowd)
}

// TestByFIFO: a process belongs to the tree whose output it has open, under the name of the
// instance or another one.
func TestByFIFO(t *testing.T) {
	dir := t.TempDir()
	c := New(Options{})
	for i, names := range [][]string{{"web"}, {"db", "db:stderr"}} {
		tree := c.NewTree(names[0], false)
		var outputs []int
		var last *os.File
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			fifo, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			outputs, last = append(outputs, int(fifo.Fd())), fifo
		}
		tree.RegisterSpawned(pidfd.Identity{Pid: i + 1, Start: 1}, outputs)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo up; read line")
		cmd.Stdout = last
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer input.Close()
		// Start returns during the exec, when the descriptors are not readable yet.
		if _, err := io.ReadFull(last, make([]byte, len("up\n"))); err != nil {
			t.Fatal(err)
		}
		if got, _ := c.byFIFO(cmd.Process.Pid); got != tree {
			t.Errorf("a process with the FIFO %s is of tree %v, want %s", names[len(names)-1], got, names[0])
		}
	}
}
