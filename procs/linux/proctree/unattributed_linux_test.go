package proctree

import (
	"os/exec"
	"runtime"
	"testing"

	"superd/internal/procfs"
	"superd/procs/host"
)

// TestChildThatExecutesIsNoStranger: a child that executes its program during a scan is not taken
// for one without tags.
func TestChildThatExecutesIsNoStranger(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		"read x; SUPERD_OWNER="+dir+" SUPERD_INVOCATION_ID=1 exec sleep 60")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	proceed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	child, err := procfs.ReadStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{RuntimeDir: dir, IsNew: func(pid int) bool {
		proceed.Close()
		for {
			if tags, readable, _ := readTags(pid); readable && tags.Run != "" || t.Context().Err() != nil {
				return false
			}
			runtime.Gosched()
		}
	}})
	if c.isUnattributed(&child, []*procfs.Stat{&child}, &scan{unreadable: map[host.ProcessKey]bool{}}) {
		t.Error("a child that executed a program with tags is taken for an unattributed process")
	}
}
