package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

const programsShortOf = `
	[defaults]
	backoff = { initial = "50ms", max = "100ms" }
	start_limit = { failures = 2, within = "1h", retry_after = "0s" }
	[program.web]
	command = "sleep infinity"
	[program.db]
	command = "sleep infinity"
	[program.cache]
	command = "sleep infinity"
	`

// TestOutOfDescriptors: without free descriptors, starts fail with that reason and are retried,
// commands are answered, and the start limit does not count them. When descriptors are free again,
// the programs start by themselves.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, programsShortOf)
	d := s.Start()
	before := s.WaitRunning()
	highest := slices.Max(slices.Collect(maps.Keys(s.FDs(d.Pid))))
	s.LimitFiles(d.Pid, uint64(highest+1)) // those free below are superd's own reserve
	if r := s.Ctl("status"); r.Exit != 0 {
		t.Errorf("ctl status without a descriptor: exit status %d\n%s", r.Exit, r.ErrOut)
	}
	s.Kill(before["web"], syscall.SIGKILL)
	s.WaitStatus("web", "can't be started", func(st harness.Status) bool {
		return st.State == "backoff" && st.Restarts > 3 && strings.Contains(st.Reason, "too many open files")
	})
	if r := s.MustCtl("why", "web"); !strings.Contains(r.Out, "too many open files") {
		t.Errorf("ctl why: %q", r.Out)
	}
	if after := s.Status("db"); after.Pid != before["db"] {
		t.Errorf("another program: %v, want it untouched, pid %d", after, before["db"])
	}
	s.LimitFiles(d.Pid, 1000)
	s.WaitState("web", "running")
}

// TestShutdownWithoutDescriptors: a shutdown needs no further descriptors.
func TestShutdownWithoutDescriptors(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, programsShortOf)
	d := s.Start()
	s.WaitRunning()
	free := 0
	for fds := s.FDs(d.Pid); fds[free] != ""; free++ {
	}
	s.LimitFiles(d.Pid, uint64(free)) // none is free below
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0", exit)
	}
	if log := d.ErrOut.String(); strings.Contains(log, "stuck") || strings.Contains(log, "tree not killed") || strings.Contains(log, "left behind") {
		t.Errorf("without descriptors:\n%s", log)
	}
}

// TestPidsCgroup: at the limit of a pids cgroup, only the starts that exceed it wait, and superd
// needs no new thread.
func TestPidsCgroup(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, programsShortOf)
	d := s.Start()
	before := s.WaitRunning()
	const parent = "/sys/fs/cgroup/pids" // that of v1; tests/limits covers v2
	dir := filepath.Join(parent, filepath.Base(s.Dir))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no pids cgroup of v1: %v", err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	t.Cleanup(func() {
		harness.Until(t, "the cgroup is left", func() bool {
			for pid := range strings.FieldsSeq(read("cgroup.procs")) {
				os.WriteFile(parent+"/cgroup.procs", []byte(pid), 0) // it may have ended
			}
			return os.Remove(dir) == nil
		})
	})
	for _, pid := range []int{d.KeeperPid, d.Pid} {
		write(dir+"/cgroup.procs", fmt.Sprint(pid))
	}
	write(dir+"/pids.max", read("pids.current"))
	s.Kill(before["web"], syscall.SIGKILL)
	s.WaitStatus("web", "can't be started", func(st harness.Status) bool {
		return st.State == "backoff" && st.Restarts > 3 && strings.Contains(st.Reason, "no further process")
	})
	if r := s.MustCtl("why", "web"); !strings.Contains(r.Out, "pids cgroup") {
		t.Errorf("ctl why: %q", r.Out)
	}
	if after := s.Status("db"); after.Pid != before["db"] {
		t.Errorf("another program: %v, want it untouched, pid %d", after, before["db"])
	}
	write(dir+"/pids.max", "max")
	s.WaitState("web", "running")
}

// TestFewDescriptors: with a low limit from the start, as many programs as possible run, and the
// others say why not.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	programs.WriteString("[defaults]\ncommand = 'sleep infinity'\nbackoff = { initial = '50ms', max = '100ms' }\n")
	for i := range 30 {
		fmt.Fprintf(&programs, "[program.p%02d]\n", i)
	}
	s := harness.NewSite(t, programs.String())
	d := s.Start(harness.Under("ulimit -S -n 1024; ulimit -n 70"))
	running, shortages := 0, map[string]bool{} // those that are retried are starting, too
	harness.Until(t, "each runs, or has been out of descriptors", func() bool {
		running = 0
		for _, st := range s.All() {
			if st.State == "running" {
				running++
				delete(shortages, st.Name)
			} else if strings.Contains(st.Reason, "too many open files") {
				shortages[st.Name] = true
			}
		}
		return running+len(shortages) >= 30
	})
	if running == 0 || running == 30 {
		t.Errorf("%d of 30 run with 70 descriptors, want some", running)
	}
	s.MustCtl("stop", "*")
	s.WaitAll("stopped", func(st harness.Status) bool { return st.State == "stopped" })
	if d.Ended() {
		t.Error("superd has ended")
	}
}
