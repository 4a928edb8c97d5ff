package tests

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// TestLogOutageShows: a log that can't be written shows in each command, with the reason, until it
// can be, and after a recovery, too.
func TestLogOutageShows(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.full]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { file = "DIR/full.log" }
		[program.drops]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { file = "DIR/drops.log", overflow = "drop" }
		[program.folder]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { file = "DIR/folder.log" }
		[program.scarce]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { file = "DIR/scarce.log", min_free = "9000TB" }
		[program.sink]
		command = ["sh", "-c", "echo here; exec sleep infinity"]
		log = { sink = "syslog", address = "DIR/nobody" }
		[program.errors]
		command = ["sh", "-c", "echo fine; echo here >&2; exec sleep infinity"]
		log = { file = "DIR/fine.log", stderr = "separate", stderr_file = "DIR/full.err" }
		`)
	for _, name := range []string{"full.log", "drops.log", "full.err"} {
		s.Link(name, "/dev/full")
	}
	s.Mkdir("folder.log")
	d := s.Start()
	reasons := map[string]string{
		"full": "no space left on device", "drops": "no space left on device", "folder": "is a directory", "scarce": "min_free is",
		"sink": "no such file or directory", "errors": "no space left on device",
	}
	shows := func() {
		t.Helper()
		for name, reason := range reasons {
			st := s.WaitStatus(name, "its log takes nothing", func(st harness.Status) bool { return st.LogOutage != nil && st.State == "running" })
			if o := st.LogOutage; !strings.Contains(o.Reason, reason) || o.Since.IsZero() || o.Drops != (name == "drops") {
				t.Errorf("the status of %s has %+v, want it to say: %s", name, o, reason)
			}
			meanwhile := "blocks when its pipe is full"
			if name == "drops" {
				meanwhile = "is dropped"
			}
			if why := s.MustCtl("why", name).Out; !strings.Contains(why, "Its output has not got into its log since ") || !strings.Contains(why, reason) || !strings.Contains(why, meanwhile) {
				t.Errorf("why %s says:\n%s\nwant since when, the reason and what the program does meanwhile", name, why)
			}
			if table := s.MustCtl("status", name).Out; !strings.Contains(table, "no log for ") || !strings.Contains(table, reason) {
				t.Errorf("status shows:\n%s\nwant the reason: %s", table, reason)
			}
			if r := s.MustCtl("logs", name); !strings.Contains(r.ErrOut, "output has not got into this log since ") || !strings.Contains(r.ErrOut, reason) {
				t.Errorf("logs %s says %q on standard error, want the reason", name, r.ErrOut)
			}
		}
	}
	shows()
	one := strings.Repeat("begun ", len(reasons))
	harness.Until(t, "an event reports each", func() bool { return len(outages(t, s)) >= len(one) })
	if got := outages(t, s); got != one {
		t.Errorf("the events are %q, want one for each", got)
	}

	pid := d.Pid
	s.Kill(pid, unix.SIGKILL)
	harness.Until(t, "another superd answers", func() bool { d.FindSupervisor(); return d.Pid != pid })
	shows()
	harness.Until(t, "an event of the next superd reports each", func() bool { return len(outages(t, s)) >= 2*len(one) })
	for _, name := range []string{"full.log", "drops.log", "folder.log", "full.err"} {
		if err := os.Remove(s.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.Write("superd.toml", strings.ReplaceAll(s.Read("superd.toml"), "9000TB", "1B"))
	s.MustCtl("reload")
	for _, name := range []string{"full", "drops", "folder", "scarce", "errors"} {
		s.WaitStatus(name, "its log takes output again", func(st harness.Status) bool { return st.LogOutage == nil })
		if why := s.MustCtl("why", name).Out; strings.Contains(why, "does not get into") {
			t.Errorf("why %s says:\n%s\nafter the outage", name, why)
		}
	}
	for _, name := range []string{"full.log", "folder.log", "scarce.log", "full.err"} {
		if got := s.Read(name); got != "here\n" {
			t.Errorf("%s is %q, want what was printed", name, got)
		}
	}
	all := one + one + strings.Repeat("over ", len(reasons)-1)
	harness.Until(t, "events report the ends", func() bool { return len(outages(t, s)) >= len(all) })
	if got := outages(t, s); got != all {
		t.Errorf("the events are %q, want %q", got, all)
	}
}

// outages returns the states of all events of outages.
func outages(t *testing.T, s *harness.Site) string {
	t.Helper()
	states := ""
	for line := range strings.Lines(s.MustCtl("events", "--json").Out) {
		var e struct{ Kind, State string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "outage" {
			states += e.State + " "
		}
	}
	return states
}
