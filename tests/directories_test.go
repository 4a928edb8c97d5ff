package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestDirectories: superd makes the directories of a program for its user before a run, and removes
// the runtime directory after it.
func TestDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes directories in /run and /var as root does")
	}
	name := fmt.Sprintf("superd-test-%d", os.Getpid())
	run, state := filepath.Join("/run", name), filepath.Join("/var/lib", name)
	t.Cleanup(func() {
		for _, path := range []string{run, state} {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	})
	// DIR in a configuration of a test is a folder
	s := harness.NewSite(t, strings.NewReplacer("NAME", name, "_DIRECTORY", `_\u0044IRECTORY`).Replace(`
		[program.web]
		command = ["sh", "-c", "cat from-hook; ls; echo $STATE_DIRECTORY; id -u > old; pwd; exec sleep infinity"]
		directory = "${RUNTIME_DIRECTORY}"
		pre_start = [["sh", "-c", "ls; echo from the hook > from-hook; date >> $STATE_DIRECTORY/starts"]]
		user = "nobody"
		runtime_directory = "NAME"
		state_directory = ["NAME/deep"]
		state_directory_mode = "0700"
		`))
	d := s.Start()
	for i := range 2 {
		s.WaitState("web", "running")
		log := s.WaitLog("web", strings.Repeat(fmt.Sprintf("from the hook\nfrom-hook\n%s/deep\n%s\n", state, run), i+1))
		harness.Until(t, "the run wrote its file", func() bool {
			_, err := os.Stat(filepath.Join(run, "old"))
			return err == nil
		})
		if strings.Contains(log, "old") {
			t.Errorf("the runtime directory is not empty at the start:\n%s", log)
		}
		if i == 0 {
			s.MustCtl("restart", "web")
		}
	}
	info, err := os.Stat(filepath.Join(state, "deep"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory is %v, %v", info, err)
	}
	s.MustCtl("stop", "web")
	if _, err := os.Stat(run); !os.IsNotExist(err) {
		t.Errorf("the runtime directory is there after the stop: %v", err)
	}
	if starts, err := os.ReadFile(filepath.Join(state, "deep/starts")); err != nil || strings.Count(string(starts), "\n") != 2 {
		t.Errorf("the state is %q, %v", starts, err)
	}
	s.Mkdir("elsewhere")
	if err := os.Symlink(s.Path("elsewhere"), run); err != nil {
		t.Fatal(err)
	}
	if r := s.Ctl("start", "web"); !strings.Contains(r.Out+r.ErrOut, run+": it is a link to "+s.Path("elsewhere")) {
		t.Errorf("with a link in its place, start says: %+v", r)
	}
	d.Signal(15)
	d.Wait()
}
