package tests

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// changeUntil changes a file until what follows from that is seen: superd may not watch it yet.
func changeUntil(s *harness.Site, file, what string, ok func() bool) {
	s.T.Helper()
	var last time.Time
	harness.Until(s.T, what, func() bool {
		if time.Since(last) > time.Second {
			last = time.Now()
			s.Write(file, fmt.Sprintln("changed at", last))
		}
		return ok()
	})
}

// commandsOf returns what superd has done for an instance since files have changed.
func commandsOf(s *harness.Site, name string) (texts []string) {
	s.T.Helper()
	for _, e := range eventsOf(s, name, "command") {
		if e.By == "watch" {
			texts = append(texts, e.Reason)
		}
	}
	return texts
}

// TestFileWatch: a change of files restarts what runs and starts what has failed, sends a signal
// where one is asked for, and leaves alone what the operator has stopped.
func TestFileWatch(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		watch = { paths = ["src"], ignore = ["*.tmp"], debounce = "50ms" }
		[program.web]
		command = ["sleep", "infinity"]
		[program.bad]
		command = ["sh", "-c", "test -e DIR/src/good && exec sleep infinity; exit 1"]
		restart = "never"
		[program.build]
		type = "oneshot"
		command = ["sh", "-c", "echo built"]
		[program.stopped]
		command = ["sleep", "infinity"]
		[program.signalled]
		command = ["sh", "-c", "trap 'echo got it' USR1; while :; do sleep 0.01; done"]
		watch.signal = "SIGUSR1"
		[program.checked]
		command = ["sleep", "infinity"]
		check_command = ["false"]
	`)
	s.Mkdir("src")
	s.Write("src/.gitignore", "*.out\n")
	s.Start()
	s.WaitState("bad", "failed")
	s.WaitState("build", "exited")
	s.MustCtl("stop", "stopped")
	first, signalled, checked := s.WaitState("web", "running").Pid, s.WaitState("signalled", "running").Pid, s.WaitState("checked", "running").Pid
	changeUntil(s, "src/app.js", "web is restarted", func() bool {
		st := s.Status("web")
		return st.State == "running" && st.Pid != first
	})
	const changed = "(file changed: src/app.js" // or that of the new file that was renamed
	if got := commandsOf(s, "web"); !strings.HasPrefix(got[0], "restart "+changed) {
		t.Errorf("commands for web: %q, want a restart %s)", got, changed)
	}
	if why := s.MustCtl("why", "web").Out; !strings.Contains(why, "started again: file changed: src/app.js") || !strings.Contains(why, "wanted up by watch") {
		t.Errorf("why web: %s", why)
	}
	s.WaitLog("signalled", "got it")
	harness.Until(t, "the others have seen the change", func() bool {
		return len(commandsOf(s, "bad")) > 0 && len(commandsOf(s, "build")) > 0 && len(commandsOf(s, "checked")) > 0
	})
	if got := commandsOf(s, "signalled"); !strings.HasPrefix(got[0], "signal SIGUSR1 "+changed) || s.Status("signalled").Pid != signalled {
		t.Errorf("signalled: %q, %v, want a signal to process %d", got, s.Status("signalled"), signalled)
	}
	if got := commandsOf(s, "checked"); !strings.Contains(got[0], "not restarted: ") || s.Status("checked").Pid != checked {
		t.Errorf("checked: %q, %v, want that process %d is not restarted", got, s.Status("checked"), checked)
	}
	s.WaitState("bad", "failed")
	changeUntil(s, "src/good", "what has failed runs", func() bool { return s.Status("bad").State == "running" })
	if got := commandsOf(s, "stopped"); len(got) > 0 || s.Status("stopped").State != "stopped" {
		t.Errorf("stopped: %q, %v, want it left alone", got, s.Status("stopped"))
	}

	// What is ignored changes nothing, and a reload applies at once
	s.Write("src/app.out", "x")
	s.Write("src/app.tmp", "x")
	s.Configure(`
		[program.web]
		command = ["sleep", "infinity"]
		watch = { paths = ["other"], debounce = "50ms" }
	`)
	if out := s.MustCtl("reload").Out; !regexp.MustCompile(`web +applied live`).MatchString(out) {
		t.Errorf("a changed watch needs no restart: reload says\n%s", out)
	}
	harness.Until(t, "the missing path is told", func() bool {
		return strings.Contains(s.MustCtl("why", "web").Out, "Not all changes of its files are noticed: "+s.Path("other")+" does not exist: make it, or correct watch.paths.")
	})
	if status := s.MustCtl("status").Out; !strings.Contains(status, "changes of files are missed: ") {
		t.Errorf("status: %s", status)
	}
	pid := s.WaitState("web", "running").Pid
	s.Mkdir("other")
	changeUntil(s, "other/f", "web is restarted", func() bool {
		st := s.Status("web")
		return st.State == "running" && st.Pid != pid
	})
	if why := s.MustCtl("why", "web").Out; strings.Contains(why, "Not all changes") {
		t.Errorf("why web, when the path exists: %s", why)
	}
}

// TestFileWatchBurst: thousands of files at once lead to one restart. superd that is killed watches
// again.
func TestFileWatchBurst(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sleep", "infinity"]
		watch = { paths = ["src"], debounce = "1s" }
	`)
	s.Mkdir("src")
	s.Mkdir("more") // prepared, since a slow machine may pause between two files
	for i := range 10 {
		dir := fmt.Sprintf("more/d%d", i)
		s.Mkdir(dir)
		for f := range 50 {
			if err := os.WriteFile(s.Path(fmt.Sprintf("%s/f%d", dir, f)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := s.Start()
	s.WaitState("web", "running")
	changeUntil(s, "src/first", "web is restarted", func() bool { return len(commandsOf(s, "web")) == 1 })
	for i := range 10 {
		if err := os.Rename(s.Path(fmt.Sprintf("more/d%d", i)), s.Path(fmt.Sprintf("src/d%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	harness.Until(t, "web is restarted for the burst", func() bool { return len(commandsOf(s, "web")) == 2 })
	if got := commandsOf(s, "web")[1]; !strings.HasSuffix(got, " and others)") {
		t.Errorf("the restart for the burst: %q, want one with others", got)
	}
	pid := s.WaitState("web", "running").Pid
	d.Kill()
	s.Start()
	if got := s.WaitState("web", "running").Pid; got != pid {
		t.Fatalf("web has process %d after superd was killed, want %d", got, pid)
	}
	changeUntil(s, "src/d7/f7", "web is restarted", func() bool { return s.Status("web").Pid != pid })
}

// TestFileWatchLimit: when the kernel gives no more watches, status and why name the sysctl.
func TestFileWatchLimit(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespace, which has limits of its own: %v: %s", err, out)
	}
	s := harness.NewSite(t, `
		[program.web]
		command = ["sleep", "infinity"]
		watch = { paths = ["src"] }
	`)
	for _, dir := range []string{"src", "src/a", "src/b", "src/c", "src/d"} {
		s.Mkdir(dir)
	}
	s.Start(harness.Under("exec unshare --user --map-root-user sh -c 'echo 3 > /proc/sys/user/max_inotify_watches; exec \"$@\"' sh \"$@\""))
	harness.Until(t, "the limit is told", func() bool {
		return strings.Contains(s.MustCtl("why", "web").Out, "no inotify watch left, after 3 directories of these files: raise fs.inotify.max_user_watches")
	})
}
