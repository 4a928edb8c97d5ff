package tests

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestImport: `superd import` prints a configuration and, on standard error, what is different.
func TestImport(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.BuildUI()
	s.Write("supervisord.conf", "[supervisord]\n[program:web]\ncommand=sleep 1000\nstdout_event=true\n")
	r := s.Run("import", "supervisord.conf")
	if r.Exit != 0 || !strings.Contains(r.Out, `command = "sleep 1000"`) {
		t.Errorf("superd import = %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	const note = "supervisord.conf:4: program:web.stdout_event: supervisord ignores it"
	if !strings.HasPrefix(r.ErrOut, note) {
		t.Errorf("standard error is %q, want %q", r.ErrOut, note)
	}
	if r := s.Run("import", "--strict", "supervisord", "supervisord.conf"); r.Exit != 1 {
		t.Errorf("superd import --strict = %d, want 1", r.Exit)
	}
	// The result is for those who may read all sources, and replaces nothing without a word
	s.Write("Procfile", "web: sleep 1000\n")
	s.Write(".env", "PASSWORD=x\n")
	s.Chmod(".env", 0o640)
	s.Chmod("Procfile", 0o604)
	if r := s.Run("import", "Procfile", "-o", "new.toml"); r.Exit != 0 {
		t.Errorf("superd import -o: %v", r)
	}
	if info, err := os.Stat(s.Path("new.toml")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the result: %v, %v", info.Mode(), err)
	}
	s.Write("new.toml", "mine")
	if r := s.Run("import", "Procfile", "-o", "new.toml"); r.Exit != 1 || s.Read("new.toml") != "mine" {
		t.Errorf("import over a file: %v, the file is %q", r, s.Read("new.toml"))
	}
	if r := s.Run("import", "--force", "Procfile", "-o", "new.toml"); r.Exit != 0 || s.Read("new.toml") == "mine" {
		t.Errorf("import --force: %v", r)
	}
	for _, args := range [][]string{{"import", "upstart", "supervisord.conf"}, {"import", "superd.toml"}} {
		if r := s.Run(args...); r.Exit != 2 {
			t.Errorf("superd %q = %d, want 2: %s", args, r.Exit, r.ErrOut)
		}
	}
}

// TestRunFrom: `superd run --from` runs a file of another supervisor, with the process that was
// started.
func TestRunFrom(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.BuildUI()
	s.Write("Procfile", "web: sleep 1000\njob: echo port $PORT; exec sleep 1000\n")
	s.Env = append(s.Env, "CACHE_DIRECTORY="+s.Path("cache")+":"+s.Path("other"), "SUPERD_RUNTIME_DIR="+s.RuntimeDir)
	d := s.Start(func(cmd *exec.Cmd) {
		cmd.Args = []string{cmd.Args[0], "run", "--from", "procfile:Procfile", "--log-level", "debug"}
	})
	web := s.WaitState("web", "running")
	if got := s.MustCtl("cat", "web").Out; !strings.Contains(got, s.Dir) {
		t.Errorf("web does not run in the directory of the Procfile:\n%s", got)
	}
	if pid := s.Children(d.KeeperPid); len(pid) == 0 || web.Pid == 0 {
		t.Errorf("the process that was started has no supervisor")
	}
	if got := s.Files("cache/*"); len(got) != 1 {
		t.Errorf("the cache has %q", got)
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("superd ends with status %d", status)
	}
}
