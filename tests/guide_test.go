package tests

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
	"superd/tests/markdown"
)

// A guideBlock is a fenced block of the guide.
type guideBlock struct {
	// Section and number among the section's blocks of its language, as in "Dependencies 1"
	name string
	lang string // language after the fence; empty: none
	text string
}

// guide returns the blocks of docs/guide.md.
func guide(t *testing.T) (blocks []guideBlock) {
	t.Helper()
	page, err := os.ReadFile("../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	count := map[[2]string]int{}
	for _, b := range markdown.Blocks(string(page)) {
		of := [2]string{b.Section, b.Lang}
		count[of]++
		blocks = append(blocks, guideBlock{fmt.Sprintf("%s %d", b.Section, count[of]), b.Lang, b.Text})
	}
	return blocks
}

// guideText returns the text of the block of that language and name.
func guideText(t *testing.T, lang, name string) string {
	t.Helper()
	blocks := guide(t)
	i := slices.IndexFunc(blocks, func(b guideBlock) bool { return b.lang == lang && b.name == name })
	if i < 0 {
		t.Fatalf("the guide has no block %q of %q", name, lang)
	}
	return blocks[i].text
}

// paste makes a configuration of the guide that of a site, with other directories and another port,
// as others may use those of the guide.
func paste(t *testing.T, s *harness.Site, text string) {
	t.Helper()
	if !strings.Contains("\n"+text, "\n[superd]\n") {
		text += "\n[superd]\nruntime_dir = 'run'\nlog_dir = 'log'\n"
	}
	if strings.Contains(text, "8080") {
		text = strings.ReplaceAll(text, "8080", freePort(t))
	}
	s.Write("superd.toml", text)
}

// standIns puts commands in front of the PATH of a site, in place of the servers of the guide:
// a machine may have none of them, and a test is to use no configuration of the machine.
func standIns(t *testing.T, s *harness.Site) {
	t.Helper()
	if err := os.Mkdir(s.Path("servers"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Write("servers/npx", "#!/bin/sh\nexit 0\n")
	for _, name := range []string{"nginx", "node"} {
		s.Write("servers/"+name, "#!/bin/sh\nexec sleep 1000\n")
	}
	s.Env = append(s.Env, "PATH="+s.Path("servers")+":"+os.Getenv("PATH"))
}

// freePort returns a port of 127.0.0.1 without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// promises check what the guide says about its configurations, apart from their validity and the
// start of each program.
var promises = map[string]func(t *testing.T, s *harness.Site, d *harness.Superd){
	"Restarting 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		st := s.WaitStatus("web", "is started again", func(st harness.Status) bool { return st.Restarts > 0 && st.State == "running" })
		if st.Exit.String() != "3" {
			t.Errorf("%v, want that it ended with 3", st)
		}
	},
	"One-shots and hooks 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		if st := s.WaitState("backup", "exited"); s.Log("backup") != "done\n" {
			t.Errorf("%v, want what it prints", st)
		}
		s.WaitState("web", "running")
		if len(s.Files("scratch/*")) != 1 {
			t.Errorf("there is %v, want what the hook makes", s.Files("scratch/*"))
		}
		s.MustCtl("stop", "web")
		if _, err := os.Stat(s.Path("scratch/sock")); err == nil {
			t.Error("the post_stop hook has left its file")
		}
	},
	"Schedules 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		if st := s.WaitState("cleanup", "waiting"); st.NextStartInS == nil || !strings.Contains(st.Reason, "waits for its schedule; next run at 20") {
			t.Errorf("%v, want the time of its next run", st)
		}
		waitEvents(s, "tick", "start", 2)
		if r := s.MustCtl("start", "cleanup"); !strings.Contains(r.Out, "cleanup") {
			t.Errorf("start: %q", r.Out)
		}
		if n := len(eventsOf(s, "cleanup", "exit")); n != 1 {
			t.Errorf("start has returned, and it has run %d times, want once", n)
		}
		s.MustCtl("stop", "cleanup")
		if st := s.Status("cleanup"); st.State != "stopped" || st.NextStartInS != nil {
			t.Errorf("held by the operator: %v, next start in %v", st, st.NextStartInS)
		}
	},
	"Dependencies 1": func(t *testing.T, s *harness.Site, d *harness.Superd) {
		for _, name := range []string{"web", "worker", "cache"} {
			s.WaitState(name, "running")
		}
		began := states(s, 0, "starting")
		before(t, began, "db", "migrate")
		before(t, began, "migrate", "web")
		before(t, began, "cache", "web")
		if done := states(s, 0, "exited"); !slices.Equal(done, []string{"migrate"}) || s.Log("migrate") != "tables are made\n" {
			t.Errorf("%v have ended, log %q; want the migration, once", done, s.Log("migrate"))
		}
		// The table below the configuration, row by row.
		web, worker, db := s.Status("web").Pid, s.Status("worker").Pid, s.Status("db").Pid
		s.Kill(db, syscall.SIGKILL)
		s.WaitStatus("db", "is there again", func(st harness.Status) bool { return st.State == "running" && st.Pid != db })
		if st := s.Status("web"); st.Pid != web {
			t.Errorf("db crashed, and web is another process: %v", st)
		}
		s.MustCtl("stop", "db")
		if st := s.Status("web"); st.State != "waiting" || !strings.Contains(st.Reason, "waits for db, which the operator has stopped") {
			t.Errorf("db is stopped: %v", st)
		}
		if st := s.Status("worker"); st.Pid != worker {
			t.Errorf("it doesn't require db: %v", st)
		}
		if r := s.Ctl("start", "web"); r.Exit != 1 || !strings.Contains(r.ErrOut, "waits for db, which the operator has stopped") {
			t.Errorf("start web, while db is held: exit status %d, %q", r.Exit, r.ErrOut)
		}
		s.MustCtl("start", "db")
		web = s.WaitState("web", "running").Pid
		s.MustCtl("restart", "db")
		s.WaitStatus("web", "is restarted with db", func(st harness.Status) bool { return st.State == "running" && st.Pid != web })
		db = s.Status("db").Pid
		s.MustCtl("stop", "web")
		if st := s.Status("db"); st.Pid != db {
			t.Errorf("web is stopped, and db is another process: %v", st)
		}
	},
	"Readiness and health 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		if st := s.WaitState("web", "running"); st.StatusText != "3 clients" || !st.Ready {
			t.Errorf("%v, status text %q, want what it said", st, st.StatusText)
		}
		began := states(s, 0, "starting")
		if began[len(began)-1] != "web" {
			t.Errorf("they were started as %v, want web last", began)
		}
		for _, name := range []string{"db", "files", "cache"} {
			if st := s.Status(name); st.State != "running" || !strings.Contains(st.Reason, "; ready after ") {
				t.Errorf("web was started before: %v", st)
			}
		}
	},
	"Readiness and health 2": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		s.WaitState("worker", "running")
		first := s.WaitStatus("files", "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
		s.MustCtl("signal", "STOP", "files")
		st := s.WaitStatus("files", "is started again", func(st harness.Status) bool { return st.State == "running" && st.Pid != first.Pid })
		if st.Restarts != 1 {
			t.Errorf("%v, want one restart", st)
		}
		if why := s.MustCtl("why", "files").Out; !strings.Contains(why, "unhealthy: 2 failed checks in a row: http http://127.0.0.1:") {
			t.Errorf("why files:\n%s", why)
		}
	},
	"Replicas 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		three := waitNames(t, s, "proxy", "web@1", "web@2", "web@3")
		s.WaitLog("web@2", "I am web@2 on port 8092\n")
		s.MustCtl("scale", "web=5")
		five := waitNames(t, s, "proxy", "web@1", "web@2", "web@3", "web@4", "web@5")
		s.MustCtl("scale", "web=2")
		two := waitNames(t, s, "proxy", "web@1", "web@2")
		if got, want := unchanged(three, five), slices.Sorted(maps.Keys(three)); !slices.Equal(got, want) {
			t.Errorf("scale web=5 left only %v alone", got)
		}
		if got, want := unchanged(five, two), slices.Sorted(maps.Keys(two)); !slices.Equal(got, want) {
			t.Errorf("scale web=2 left only %v alone", got)
		}
		s.MustCtl("stop", "frontend")
		for _, name := range []string{"proxy", "web@1", "web@2"} {
			if st := s.Status(name); st.State != "stopped" {
				t.Errorf("its group is stopped: %v", st)
			}
		}
	},
	"Changing the configuration 1": func(t *testing.T, s *harness.Site, _ *harness.Superd) {
		pids := s.WaitRunning()
		paste(t, s, guideText(t, "toml", "Changing the configuration 2"))
		_, want, _ := strings.Cut(guideText(t, "", "Changing the configuration 1"), "\n")
		if got := s.MustCtl("reload", "--dry-run").Out; got != want {
			t.Errorf("reload --dry-run says:\n%s\nthe guide:\n%s", got, want)
		}
		if now := s.WaitRunning(); !maps.Equal(now, pids) {
			t.Errorf("pids %v after a dry run, want %v", now, pids)
		}
		s.MustCtl("reload")
		harness.Until(t, "the new configuration is in force", func() bool { return slices.Equal(names(s), []string{"cache", "db", "web", "worker"}) })
		if got := unchanged(pids, s.WaitRunning()); !slices.Equal(got, []string{"db", "web"}) {
			t.Errorf("%v have kept their processes, want db and web", got)
		}
	},
}

// TestGuide pastes each configuration of the guide. It checks that the configuration is valid, that
// its programs start, and what the guide says about it.
func TestGuide(t *testing.T) {
	t.Parallel()
	unused := maps.Clone(promises)
	for _, b := range guide(t) {
		if b.lang != "toml" {
			continue
		}
		promise := unused[b.name]
		delete(unused, b.name)
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(b.text, "\nuser ") && os.Getuid() != 0 {
				t.Skip("root alone may change users")
			}
			s := harness.NewSite(t, "")
			standIns(t, s)
			paste(t, s, b.text)
			r := s.Run("check", "-c", s.Config)
			warns := strings.Contains(r.Out+r.ErrOut, "warning") && strings.Contains(b.text, "[program.")
			if r.Exit != 0 || warns {
				t.Fatalf("superd check of what the guide says: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
			}
			d := s.Start()
			waitUp(t, s)
			if promise != nil {
				promise(t, s, d)
			}
		})
	}
	for name := range unused {
		t.Errorf("the guide has no configuration %q any more", name)
	}
}

// waitUp waits until every program runs, is done, or waits for its schedule.
func waitUp(t *testing.T, s *harness.Site) {
	t.Helper()
	s.WaitAll("up", func(st harness.Status) bool {
		switch st.State {
		case "running", "exited":
			return true
		case "waiting":
			return st.NextStartInS != nil
		case "backoff":
			return st.Exit != nil // restarted repeatedly
		case "failed":
			return strings.Contains(st.Reason, "cgroup") // resources can't be limited everywhere
		}
		return false
	})
}
