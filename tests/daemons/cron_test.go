package daemons

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestCron: it runs jobs of crontabs that change while it runs. A job outlives a stop. A minute of
// cron lasts 3 s, by libfaketime.
func TestCron(t *testing.T) {
	m := newMachine(t, "cron", "cron", "libfaketime")
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		t.Fatalf("no libfaketime: %v", err)
	}
	const crontab = "/etc/cron.d/test"
	job := func(name string) string { return fmt.Sprintf("* * * * * root echo run >> %s\n", m.Path(name)) }
	runs := func(name string) int { return strings.Count(m.Read(name), "run\n") }
	ran := func(name string) {
		t.Helper()
		before := runs(name)
		harness.Until(t, "job "+name+" has run", func() bool { return runs(name) > before })
	}
	changed := time.Now()
	write := func(text string) {
		t.Helper()
		m.write(crontab, text)
		// cron looks at the second of a change, and its minutes are short here.
		changed = changed.Add(-time.Minute)
		if err := os.Chtimes(m.path(crontab), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	write(job("one"))
	m.boot(fmt.Sprintf("[defaults]\nenvironment = { LD_PRELOAD = %q, FAKETIME = '+0 x20', NO_FAKE_STAT = '1' }\n", found[0]))
	pid := m.pid()
	ran("one")
	write(job("two"))
	ran("two")
	m.refusesRestart(crontab, "61 * * * * root true\n", "bad minute")
	write(job("two")) // it may just have read the mistake
	m.MustCtl("upgrade")
	if now := m.pid(); now != pid {
		t.Errorf("after an upgrade of superd it is process %d, %d before", now, pid)
	}
	ran("two")

	open := m.Gate("gate")
	write(fmt.Sprintf("* * * * * root echo begun > %s; cat %s; echo ended > %[1]s\n", m.Path("job"), m.Path("gate")))
	m.MustCtl("restart", "cron")
	harness.Until(t, "a job is under way", func() bool { return m.Read("job") == "begun\n" })
	m.MustCtl("stop", "cron") // by SIGTERM, for which it has no handler
	open()
	harness.Until(t, "the job has ended", func() bool { return m.Read("job") == "ended\n" })
}
