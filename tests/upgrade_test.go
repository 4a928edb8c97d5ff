package tests

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

const laterOnly = "[program.later]\ncommand = 'sleep infinity'\nautostart = false\n"

// TestUpgrade: another binary replaces first the supervisor, then the keeper.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly+`
		[program.counts]
		command = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"]
		`)
	d := s.Start(func(cmd *exec.Cmd) { cmd.Path = s.BuildVersion("one", "1.0") })
	counts := s.WaitState("counts", "running").Pid
	two := s.BuildVersion("two", "2.0")
	if r := s.MustCtl("upgrade", "--binary", two); r.Out != "superd 2.0 runs, upgraded from 1.0\n" {
		t.Errorf("ctl upgrade: %q", r.Out)
	}
	harness.Until(t, "the keeper runs the new binary, too", func() bool { return s.Executable(d.KeeperPid) == two })
	d.ErrOut.Wait(t, "the keeper runs the new binary, too")
	if pid := d.Pid; s.Executable(pid) != two {
		t.Errorf("process %d runs %s", pid, s.Executable(pid))
	}
	s.WaitState("later", "stopped")

	// By signal, from the file that has been replaced meanwhile.
	s.Move("one", "two")
	d.Signal(syscall.SIGUSR2)
	harness.Until(t, "the first version is back", func() bool { return strings.HasPrefix(s.Ctl("version").Out, "superd 1.0") })
	d.ErrOut.WaitTimes(t, "the keeper runs the new binary, too", 2)
	if st := s.Status("counts"); st.Pid != counts || st.Restarts != 0 || s.Parent(counts) != d.Pid {
		t.Errorf("%v, a child of %d, want pid %d, a child of superd, %d", st, s.Parent(counts), counts, d.Pid)
	}
	for i, line := range strings.Split(strings.TrimSpace(s.Log("counts")), "\n") {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the log is %q", i+1, line)
		}
	}
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// TestUpgradeThatFails: a binary that is not superd, or does not start, changes nothing.
func TestUpgradeThatFails(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly)
	d := s.Start()
	pid := d.Pid
	s.Write("mute", "#!/bin/sh\nexit 0\n")
	s.Write("picky", "#!/bin/sh\n[ $1 = version ] && echo '{\"version\":\"9\"}' || { echo 'superd.toml: no'; exit 2; }\n")
	s.Write("dies", "#!/bin/sh\ncase $1 in version) echo '{\"version\":\"9\"}';; check) ;; *) exit 3;; esac\n")
	for binary, want := range map[string]string{
		s.Path("none"):  "no such file",
		s.Path("mute"):  "not a superd",
		s.Path("picky"): "superd.toml: no",
	} {
		if r := s.Ctl("upgrade", "--binary", binary); r.Exit != 1 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("upgrade to %s: exit status %d, %q, want %q", binary, r.Exit, r.ErrOut, want)
		}
	}
	if out := s.MustCtl("version", "--json").Out; !strings.Contains(out, fmt.Sprintf(`"pid":%d,`, pid)) {
		t.Errorf("after refused upgrades: %s, want pid %d", out, pid)
	}
	if r := s.Ctl("upgrade", "--binary", s.Path("dies")); r.Exit != 1 || !strings.Contains(r.ErrOut, "did not become ready") {
		t.Errorf("upgrade to what dies: exit status %d, %q", r.Exit, r.ErrOut)
	}
	s.WaitState("later", "stopped")
	d.ErrOut.Wait(t, "the old one is restarted")
}

// TestUpgradeWithoutKeeper: without a keeper an upgrade can't be undone, and superd says so.
func TestUpgradeWithoutKeeper(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly)
	d := s.Start(harness.NoKeeper)
	s.MustCtl("stop", "later")
	if r := s.MustCtl("upgrade"); !strings.Contains(r.Out, "not reverted") {
		t.Errorf("ctl upgrade: %q", r.Out)
	}
	s.WaitState("later", "stopped")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// TestUpgradeDuringShutdown: a shutdown that begins during an upgrade wins.
func TestUpgradeDuringShutdown(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.deaf]
		command = ["sh", "-c", "trap '' TERM; echo deaf; exec sleep infinity"]
		stop_timeout = "1m"
		`)
	d := s.Start()
	s.WaitLog("deaf", "deaf\n")
	deaf := s.Status("deaf").Pid
	open := s.Gate("gate")
	s.Write("slow", "#!/bin/sh\ncd "+s.Dir+"\ncase $1 in version) echo >asked; read line <gate; echo '{\"version\":\"9\"}';; check) ;; *) exit 3;; esac\n")
	refused := make(chan harness.Result, 1)
	go func() { refused <- s.Ctl("upgrade", "--binary", s.Path("slow")) }()
	harness.Until(t, "the upgrade has begun", func() bool { return s.Read("asked") != "" })
	d.Signal(syscall.SIGTERM)
	s.WaitState("deaf", "stopping")
	open()
	for range 2 { // one that was under way, and one that comes now
		if r := <-refused; r.Exit != 1 || !strings.Contains(r.ErrOut, "superd is shutting down") {
			t.Errorf("upgrade during a shutdown: exit status %d, %q", r.Exit, r.ErrOut)
		}
		refused <- s.Ctl("upgrade")
	}
	if err := syscall.Kill(deaf, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if log := d.ErrOut.String(); strings.Contains(log, "upgrading") || strings.Contains(log, "crashed") {
		t.Errorf("superd's messages:\n%s", log)
	}
}

// TestUpgradeOnFullDisk: superd does not execute another binary while the journal can't be written.
func TestUpgradeOnFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, laterOnly)
	s.Mkdir("run")
	if err := unix.Mount("tmpfs", s.Path("run"), "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(s.Path("run"), unix.MNT_DETACH) })
	d := s.Start()
	fill(t, s.Path("run/filler"))
	harness.Until(t, "the journal is full", func() bool { // its last page still has space
		s.Ctl("restart", "later", "--timeout", "100ms")
		return strings.Contains(d.ErrOut.String(), "journal not written")
	})
	d.Signal(syscall.SIGUSR2)
	d.ErrOut.Wait(t, "not upgraded")
	if err := os.Remove(s.Path("run/filler")); err != nil {
		t.Fatal(err)
	}
	s.WaitState("later", "running")
	d.Signal(syscall.SIGUSR2)
	d.ErrOut.Wait(t, "the keeper runs the new binary, too")
	s.WaitState("later", "running")
}
