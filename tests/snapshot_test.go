package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"superd/config"
	journalfile "superd/procs/journal"
	"superd/procs/snapshot"
	"superd/tests/golden"
	"superd/tests/harness"
)

// goldenJournals has a folder of journals for each format that superd has had.
const goldenJournals = "../procs/snapshot/testdata"

// TestJournalsAreUnderstood: a successor understands all that superd writes, in each situation.
// -update adds the journals of a new format to those that every later superd must read. It never
// replaces one.
func TestJournalsAreUnderstood(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		journal func(t *testing.T) []byte
		has     string // a pattern in the journal
	}{
		{"running", runningJournal, `"scale/web"`},
		{"starting", startingJournal, `"start/hung/`},
		{"stopping", stoppingJournal, `"state":"stop-pending"`},
		{"shutdown", shutdownJournal, `"desired_before_shutdown"`},
		{"reload", reloadJournal, `"removed":true`},
		{"cut", cutJournal, `"before":1`},
		{"quarantine", quarantineJournal, `"quarantined":true`},
		{"ended", endedJournal, `"ended":true`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := tt.journal(t)
			if !regexp.MustCompile(tt.has).Match(text) {
				t.Errorf("the journal has no %s:\n%s", tt.has, text)
			}
			format, boot := journalHeader(t, text)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			state, err := journalfile.Read(dir, boot)
			if err != nil {
				t.Fatal(err)
			}
			read := snapshot.Read(state, config.Restore)
			if len(read.Refused) > 0 || read.Incomplete != (tt.name == "cut") {
				t.Errorf("refused %v, incomplete %v\n%s", read.Refused, read.Incomplete, text)
			}
			if golden.Update() {
				addJournal(t, filepath.Join(goldenJournals, "v"+format, tt.name+".journal"), text)
			}
		})
	}
}

// runningJournal returns the journal of a superd with programs in each state that lasts.
func runningJournal(t *testing.T) []byte {
	s := harness.NewSite(t, `
		[program.db]
		command = "sleep infinity"
		log.stderr = "separate"
		[program.web]
		command = "sleep infinity"
		requires = ["db"]
		[program.notifies]
		command = ["child", "notify", "open", 'READY=1\nSTATUS=serving\nWATCHDOG_USEC=3600000000']
		ready = { notify = true }
		watchdog = "1h"
		[program.starting]
		command = "sleep infinity"
		ready = { fd = 3 }
		start_timeout = "1h"
		[program.printing]
		command = "sleep infinity"
		ready = { line = "serving" }
		start_timeout = "1h"
		[program.sick]
		command = "sleep infinity"
		health = { exec = "false", interval = "100ms", failures = 1, action = "none" }
		[program.piped]
		command = "sleep infinity"
		log = { sink = "command", command = ["cat"] }
		[program.fails]
		command = "false"
		backoff = { initial = "1h", max = "1h" }
		[program.tired]
		command = "false"
		start_limit = { failures = 1, retry_after = "1h" }
		[program.invalid]
		command = "true"
		mistake = 1
		[program.once]
		type = "oneshot"
		command = "true"
		[program.daily]
		type = "oneshot"
		command = "true"
		schedule = "@daily"
		[program.stopped]
		command = "sleep infinity"
		[program.idle]
		command = "sleep infinity"
		autostart = false
		`)
	s.Gate("open")()
	s.Start()
	for name, state := range map[string]string{
		"db": "running", "web": "running", "notifies": "running", "starting": "starting", "printing": "starting",
		"piped.logger": "running", "fails": "backoff", "tired": "failed", "invalid": "failed", "once": "exited",
		"daily": "waiting", "stopped": "running", "idle": "stopped",
	} {
		s.WaitState(name, state)
	}
	s.WaitStatus("sick", "is unhealthy", func(st harness.Status) bool { return st.Healthy != nil && !*st.Healthy })
	s.WaitStatus("notifies", "has a status", func(st harness.Status) bool { return st.StatusText == "serving" })
	s.MustCtl("stop", "stopped")
	s.MustCtl("scale", "web=2")
	return writtenJournal(t, s, "db")
}

// writtenJournal returns the journal of a running superd once all is written. It starts a program
// that runs already, which is answered then.
func writtenJournal(t *testing.T, s *harness.Site, running string) []byte {
	t.Helper()
	s.MustCtl("start", running)
	return journalText(t, s)
}

// killedJournal kills superd once its journal has the text, and returns the journal.
func killedJournal(t *testing.T, s *harness.Site, d *harness.Superd, text string) []byte {
	t.Helper()
	harness.Until(t, "the journal has "+text, func() bool { return bytes.Contains(journalText(t, s), []byte(text)) })
	d.Kill()
	return journalText(t, s)
}

func journalText(t *testing.T, s *harness.Site) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.RuntimeDir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startingJournal returns a journal with a start that is not over: its exec hangs. Another instance
// is in its first hook.
func startingJournal(t *testing.T) []byte {
	s := harness.NewSite(t, "")
	path, waitHung, _ := s.HungExec("m", true)
	s.Configure(fmt.Sprintf(`
		[program.hung]
		command = "%s"
		start_timeout = "1h"
		[program.hooked]
		command = "sleep infinity"
		pre_start = [["sleep", "infinity"]]
		start_timeout = "1h"
		[program.web]
		command = "sleep infinity"
		`, path))
	d := s.Start()
	waitHung(1)
	s.WaitState("web", "running")
	return killedJournal(t, s, d, `"hook":{"at":0,"process":`)
}

// stoppingPrograms has a program that does not stop, which another one requires, and one whose hook
// after its stop does not end.
const stoppingPrograms = `
	[defaults]
	stop_timeout = "1h"
	[program.base]
	command = ["child", "deaf"]
	[program.deaf]
	command = ["child", "deaf"]
	requires = ["base"]
	[program.hooked]
	command = "sleep infinity"
	post_stop = [["sleep", "infinity"]]
	[program.web]
	command = "sleep infinity"
	[program.down]
	command = "sleep infinity"
	`

// startStopping starts a superd with stoppingPrograms. The operator has stopped one of them.
func startStopping(t *testing.T) (*harness.Site, *harness.Superd) {
	t.Helper()
	s := harness.NewSite(t, stoppingPrograms)
	d := s.Start()
	for _, name := range []string{"base", "deaf"} {
		s.WaitLog(name, "ready\n")
	}
	s.WaitState("hooked", "running")
	s.WaitState("web", "running")
	s.MustCtl("stop", "down")
	return s, d
}

// stoppingJournal returns a journal with a stop that waits for a dependent, one that waits for its
// process, and one that waits for its hook.
func stoppingJournal(t *testing.T) []byte {
	s, d := startStopping(t)
	s.MustCtl("stop", "--no-wait", "hooked", "base")
	return killedJournal(t, s, d, `"hook":{"at":0,"process":`)
}

// shutdownJournal returns a journal with a shutdown under way.
func shutdownJournal(t *testing.T) []byte {
	s, d := startStopping(t)
	d.Signal(syscall.SIGTERM)
	s.WaitState("web", "stopped")
	return killedJournal(t, s, d, `"hook":{"at":0,"process":`)
}

// reloadJournal returns a journal with a reload under way: a program that it removes, and one that
// it changes, do not stop. Another one keeps the definition of its run.
func reloadJournal(t *testing.T) []byte {
	const removed, changed = "[program.removed]\ncommand = ['child', 'deaf']\nstop_timeout = '1h'\n",
		"[program.changed]\ncommand = ['child', 'deaf']\nstop_timeout = '1h'\n"
	const hourly = `
		[program.hourly]
		type = "oneshot"
		command = "sleep infinity"
		schedule = "@every 1s"
		[program.web]
		command = "sleep infinity"
		`
	s := harness.NewSite(t, removed+changed+hourly)
	d := s.Start()
	s.WaitLog("removed", "ready\n")
	s.WaitLog("changed", "ready\n")
	s.WaitState("hourly", "running")
	s.Configure(changed + "environment = { X = '1' }\n" + strings.Replace(hourly, `"sleep infinity"`, `"sleep inf"`, 1) +
		"[program.added]\ncommand = 'sleep infinity'\n")
	s.MustCtl("reload")
	s.WaitState("added", "running")
	s.WaitState("removed", "stopping")
	return killedJournal(t, s, d, `"removed":true`)
}

// cutJournal returns a journal whose end is missing, from a reload on that had just begun.
func cutJournal(t *testing.T) []byte {
	lines := bytes.SplitAfter(reloadJournal(t), []byte("\n"))
	return bytes.Join(lines[:firstOf(t, lines, `"before":1`)+1], nil)
}

// quarantineJournal returns a journal with a quarantine: an earlier journal was damaged.
func quarantineJournal(t *testing.T) []byte {
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		pre_start = [["true"]]
		[program.db]
		command = "sleep infinity"
		`)
	d := s.Start()
	s.WaitState("web", "running")
	s.WaitState("db", "running")
	s.MustCtl("start", "web")
	d.Kill()
	lines := journalLines(t, s)
	cut := bytes.Join(lines[:firstOf(t, lines, `"instance/web"`)], nil)
	if err := os.WriteFile(filepath.Join(s.RuntimeDir, "journal"), cut, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.WaitStatus("web", "is quarantined", func(st harness.Status) bool { return strings.Contains(st.Reason, "not started: process") })
	text := writtenJournal(t, s, "db")
	s.MustCtl("stop", "web")
	return text
}

// endedJournal returns the journal after an orderly end: with a program that the operator has
// stopped, and a schedule.
func endedJournal(t *testing.T) []byte {
	s := harness.NewSite(t, `
		[program.stopped]
		command = "sleep infinity"
		[program.web]
		command = "sleep infinity"
		[program.daily]
		type = "oneshot"
		command = "true"
		schedule = "@daily"
		`)
	s.Start()
	s.WaitState("web", "running")
	s.WaitState("daily", "waiting")
	s.MustCtl("stop", "stopped")
	s.MustCtl("shutdown")
	return journalText(t, s)
}

// journalHeader returns format and boot of a journal.
func journalHeader(t *testing.T, text []byte) (format, boot string) {
	t.Helper()
	m := regexp.MustCompile(`"superd":"journal","version":(\d+),"boot":"([^"]*)"`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the journal has no header:\n%s", text)
	}
	return string(m[1]), string(m[2])
}

// addJournal adds a golden journal, unless it exists.
func addJournal(t *testing.T, path string, text []byte) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
