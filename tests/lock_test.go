package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestRuntimeDirLockedByOtherUser: a user who can only read the runtime directory can't block the
// start of superd by a lock on it. Source: row 54 of the failure table.
func TestRuntimeDirLockedByOtherUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	s.Chmod(".", 0o755)
	s.Mkdir("run")
	s.Chmod("run", 0o755)
	locker := exec.Command("flock", "run", "sh", "-c", "echo locked >locked; exec sleep infinity")
	locker.Dir = s.Dir
	out, err := os.Create(s.Path("locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Chmod(0o666); err != nil {
		t.Fatal(err)
	}
	const otherUID = 65534
	locker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUID, Gid: otherUID}, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := locker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-locker.Process.Pid, syscall.SIGKILL)
		locker.Wait()
	})
	harness.Until(t, "the stranger has the lock", func() bool { return s.Read("locked") == "locked\n" })
	s.Start()
	s.WaitState("web", "running")
}

// TestLockWaitIsLogged: a superd that waits for the lock at once names the process that holds it.
func TestLockWaitIsLogged(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	s.Mkdir("run")
	holder := exec.Command("flock", filepath.Join("run", "superd.turn"), "sleep", "infinity")
	holder.Dir = s.Dir
	holder.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		syscall.Kill(-holder.Process.Pid, syscall.SIGKILL)
		holder.Wait()
	}
	t.Cleanup(end)
	harness.Until(t, "the file is locked", func() bool {
		return exec.Command("flock", "-n", s.Path("run/superd.turn"), "true").Run() != nil
	})
	d := s.Launch()
	d.ErrOut.Wait(t, fmt.Sprintf(`by="process %d (flock)"`, holder.Process.Pid))
	end()
	harness.Until(t, "superd answers", func() bool {
		conn, err := s.Dial()
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	s.WaitState("web", "running")
}
