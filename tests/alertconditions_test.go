package tests

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestAlertConditions: a log that takes nothing and a time of a schedule without a run are alerts,
// and one that is over is another. make test-limits has that of the kernel's OOM killer.
func TestAlertConditions(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	s := harness.NewSite(t, `
		[program.full]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { file = "DIR/full.log" }
		[program.late]
		type = "oneshot"
		command = "sleep infinity"
		schedule = "@every 1s"
		[notify.inbox]
		on = ["log-lost", "schedule-missed", "recovered"]
		webhook = "`+in.URL+`"
		batch = "0s"
		`)
	s.Link("full.log", "/dev/full")
	d := s.Start()
	if a := in.wait("log-lost", "full"); !strings.Contains(a.Text, "no space left on device") {
		t.Errorf("the alert of the log says %q", a.Text)
	}
	if a := in.wait("schedule-missed", "late"); !strings.Contains(a.Text, "the previous run is not over") {
		t.Errorf("the alert of the schedule says %q", a.Text)
	}
	if err := os.Remove(s.Path("full.log")); err != nil {
		t.Fatal(err)
	}
	s.Kill(d.Pid, syscall.SIGUSR1) // reopen the log files
	if a := in.wait("recovered", "full"); len(a.Recovers) != 1 || a.Recovers[0] != "log-lost" {
		t.Errorf("the alert of the log that is written again: %+v", a)
	}
}

// TestAlertCommandOfUser: a command runs as the user of its receiver, not as superd's.
func TestAlertCommandOfUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.job]
		type = "oneshot"
		command = "false"
		autostart = false
		[notify.mail]
		exec = ["sh", "-c", "cat > DIR/open/alert; id -un > DIR/open/user; id -Gn >> DIR/open/user"]
		user = "nobody"
		batch = "0s"
		`)
	s.Chmod(".", 0o755)
	s.Mkdir("open")
	s.Chmod("open", 0o777)
	s.Start()
	s.Ctl("start", "job")
	harness.Until(t, "the command ends", func() bool { return strings.HasSuffix(s.Read("open/user"), "nogroup\n") })
	if user := s.Read("open/user"); user != "nobody\nnogroup\n" {
		t.Errorf("the command runs as %q", user)
	}
	var got delivery
	if err := json.Unmarshal([]byte(s.Read("open/alert")), &got); err != nil || len(got.Alerts) != 1 {
		t.Errorf("it gets %q: %v", s.Read("open/alert"), err)
	}
}
