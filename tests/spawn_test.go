package tests

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestExecFails: each cause of a failed exec has a distinct reason, which names the stage and the
// path.
func TestExecFails(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		backoff = { initial = "1h", max = "1h" }
		[program.missing]
		command = "DIR/nowhere/web"
		[program.unfound]
		command = "no-such-command"
		[program.plain]
		command = "DIR/plain"
		[program.script]
		command = "DIR/script"
		[program.garbage]
		command = "DIR/garbage"
		[program.folder]
		command = "DIR/folder"
		[program.homeless]
		command = "sleep infinity"
		directory = "DIR/gone"
		[program.misplaced]
		command = "sleep infinity"
		directory = "DIR/plain"
		[program.unset]
		command = ["sleep", "${NO_SUCH_VARIABLE}"]
		[program.good]
		command = "sleep infinity"
		`)
	s.Write("plain", "not for execution\n")
	s.Write("script", "#!/no/such/interpreter\n")
	s.Write("garbage", "#!")
	s.Mkdir("folder")
	s.Start()
	want := map[string][]string{
		"missing":   {"nowhere/web", "no such file"},
		"unfound":   {"no-such-command", "PATH"},
		"plain":     {"DIR/plain", "executable"},
		"script":    {"DIR/script", "interpreter", "/no/such/interpreter"},
		"garbage":   {"DIR/garbage"},
		"folder":    {"DIR/folder", "is a directory"},
		"homeless":  {"directory", "DIR/gone", "no such file"},
		"misplaced": {"directory", "DIR/plain", "not a directory"},
		"unset":     {"NO_SUCH_VARIABLE"},
	}
	reasons := make(map[string]string)
	for name, parts := range want {
		st := s.WaitStatus(name, "has failed to start", func(st harness.Status) bool {
			return (st.State == "backoff" || st.State == "failed") && st.Reason != ""
		})
		for _, part := range parts {
			if part = strings.ReplaceAll(part, "DIR", s.Dir); !strings.Contains(st.Reason, part) {
				t.Errorf("reason of %s = %q, want %q in it", name, st.Reason, part)
			}
		}
		if other, same := reasons[st.Reason]; same {
			t.Errorf("%s and %s fail for the same reason %q", name, other, st.Reason)
		}
		reasons[st.Reason] = name
		if st.Pid != 0 || strings.Contains(st.Reason, "\n") {
			t.Errorf("%v: want no pid and a reason of one line", st)
		}
	}
	s.WaitState("good", "running")

	// Once the cause is removed, a start by the operator is enough.
	s.Mkdir("gone")
	s.MustCtl("start", "homeless")
	if st := s.Status("homeless"); st.State != "running" {
		t.Errorf("after the directory was made and ctl start: %v, want running", st)
	}
}

// TestHungFileSystem: a start that hangs on a file system delays neither other programs nor the
// garbage collector.
func TestHungFileSystem(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	mount := s.HungMount("m") // short: it has to fit into a binary
	s.Configure(fmt.Sprintf(`
		[program.executable]
		command = "%[1]s/program"
		start_timeout = "1h"
		[program.directory]
		command = "sleep infinity"
		directory = "%[1]s/directory"
		start_timeout = "1h"
		[program.interpreter]
		command = "DIR/script"
		start_timeout = "1h"
		[program.loader]
		command = "DIR/binary infinity"
		start_timeout = "1h"
		[program.timeout]
		command = "%[1]s/program"
		start_timeout = "2s"
		[program.good]
		command = "sleep infinity"
		`, mount))
	s.Write("script", "#!"+mount+"/interpreter\n")
	writeWithLoader(t, s, "binary", mount+"/l")
	s.Env = append(s.Env, "GOGC=1") // a garbage collection with nearly every request
	d := s.Start()
	pid := s.WaitState("good", "running").Pid
	for _, name := range []string{"executable", "directory", "interpreter", "loader"} {
		s.WaitStatus(name, "hangs in its start", func(st harness.Status) bool {
			return st.State == "starting" && strings.Contains(st.Reason, mount)
		})
	}
	s.WaitStatus("timeout", "has timed out at its executable", func(st harness.Status) bool {
		return strings.Contains(st.Reason, "start_timeout") && strings.Contains(st.Reason, mount+"/program")
	})

	for restarts := 1; restarts <= 5; restarts++ {
		s.Kill(pid, syscall.SIGKILL)
		pid = s.WaitStatus("good", "is restarted", func(st harness.Status) bool {
			return st.State == "running" && st.Restarts == restarts
		}).Pid
	}
	s.MustCtl("stop", "good", "executable")
	s.MustCtl("start", "good")
	// The shutdown does not wait for hanging workers either.
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}

// writeWithLoader writes a copy of sleep that names another loader.
func writeWithLoader(t *testing.T, s *harness.Site, name, loader string) {
	t.Helper()
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`/lib[a-z0-9/._-]*/ld-[a-z0-9._-]+\x00`).FindIndex(program)
	if at == nil || len(loader) >= at[1]-at[0] {
		t.Skipf("no room for %s in the name of the loader", loader)
	}
	clear(program[at[0]:at[1]])
	copy(program[at[0]:], loader)
	if err := harness.WriteFile(s.Path(name), program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestHungFileSystemOfAnotherUser: a file system that only the program's user may access is
// accessed by a separate process: its exec may hang there, superd does not.
func TestHungFileSystemOfAnotherUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "")
	mount := s.HungMountOf("mount", 1)
	s.Configure(fmt.Sprintf(`
		[defaults]
		user = "daemon"
		[program.executable]
		command = "%[1]s/program"
		start_timeout = "2s"
		[program.directory]
		command = "sleep infinity"
		directory = "%[1]s/directory"
		start_timeout = "2s"
		[program.patient]
		command = "%[1]s/patient"
		start_timeout = "1h"
		[program.good]
		command = "sleep infinity"
		directory = "/"
		`, mount))
	s.Env = append(s.Env, "GOGC=1") // a garbage collection with nearly every request
	d := s.Start()
	pid := s.WaitState("good", "running").Pid
	for _, name := range []string{"executable", "directory"} {
		s.WaitStatus(name, "has timed out twice, for its file system", func(st harness.Status) bool {
			return st.Restarts > 1 && st.State == "backoff" && strings.Contains(st.Reason, "no answer in time") && strings.Contains(st.Reason, "file system")
		})
	}
	s.WaitState("patient", "starting")
	s.Kill(pid, syscall.SIGKILL)
	s.WaitStatus("good", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
	s.MustCtl("stop", "patient")
	s.MustCtl("start", "--no-wait", "patient")
	s.WaitState("patient", "starting")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
}
