package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/child"
	"superd/tests/harness"
)

// journalLines returns the lines of the journal that a killed superd has left.
func journalLines(t *testing.T, s *harness.Site) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.RuntimeDir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(text, []byte("\n"))
}

// firstOf returns the index of the first line after the header that contains mark.
func firstOf(t *testing.T, lines [][]byte, text string) int {
	t.Helper()
	for i, line := range lines {
		if bytes.Contains(line, []byte(text)) {
			return i
		}
	}
	t.Fatalf("the journal has no record of %s:\n%s", text, bytes.Join(lines, nil))
	return 0
}

// TestDamagedJournalDoublesNothing: whatever the journal has lost, no program is started while it
// runs. If its processes are known for certain, it continues. Source: rows 47 and 56 of the failure
// table.
func TestDamagedJournalDoublesNothing(t *testing.T) {
	t.Parallel()
	damaged := func(line []byte) []byte { return bytes.ReplaceAll(line, []byte(`"k"`), []byte(`"K"`)) }
	tests := []struct {
		name string
		// run: text in all records of web's present run
		damage  func(t *testing.T, lines [][]byte, run string) [][]byte
		message string
	}{
		{"the tail is missing", func(t *testing.T, lines [][]byte, run string) [][]byte { return lines[:firstOf(t, lines, run)] },
			"the end of the journal is missing"},
		{"the tail is missing, but for the intent to start it", func(t *testing.T, lines [][]byte, run string) [][]byte {
			return lines[:firstOf(t, lines, run)+1]
		}, "the end of the journal is missing"},
		{"all records of the run are damaged", func(t *testing.T, lines [][]byte, run string) [][]byte {
			for i, line := range lines {
				if bytes.Contains(line, []byte(run)) {
					lines[i] = damaged(line)
				}
			}
			return lines
		}, "damaged lines of the journal"},
		{"births are damaged", func(t *testing.T, lines [][]byte, _ string) [][]byte {
			for i, line := range lines {
				if bytes.Contains(line, []byte(`"start/`)) {
					lines[i] = damaged(line)
				}
			}
			return lines
		}, "damaged lines of the journal"},
		{"the header is damaged", func(_ *testing.T, lines [][]byte, _ string) [][]byte {
			lines[0] = bytes.ToUpper(lines[0])
			return lines
		}, "damaged lines of the journal"},
		{"all is damaged", func(_ *testing.T, lines [][]byte, _ string) [][]byte {
			return [][]byte{bytes.Repeat([]byte("x"), len(bytes.Join(lines, nil)))}
		}, "damaged lines of the journal"},
		{"it is empty", func(*testing.T, [][]byte, string) [][]byte { return nil }, "journal incomplete"},
		{"it is gone", nil, "process adopted as the main process"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, "[program.web]\ncommand = ['sh', '-c', 'echo $SUPERD_INVOCATION_ID; exec sleep infinity']\n")
			d := s.Start()
			s.WaitLog("web", "\n")
			s.MustCtl("restart", "web") // so that the records of this run follow those of another
			st := s.WaitState("web", "running")
			var run string
			harness.Until(t, "the run has printed its id", func() bool {
				ids := strings.Fields(s.Log("web"))
				if len(ids) == 2 {
					run = ids[1]
				}
				return len(ids) == 2
			})
			s.MustCtl("start", "web") // all queued records are written
			d.Kill()
			path := filepath.Join(s.RuntimeDir, "journal")
			var err error
			if tt.damage == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, bytes.Join(tt.damage(t, journalLines(t, s), run), nil), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			d = s.Start()
			s.MustCtl("start", "web")
			now, all := s.Status("web"), s.Programs()
			if now.State != "running" || now.Pid != st.Pid || len(all) != 1 {
				t.Fatalf("%v, %d processes; want pid %d alone", now, len(all), st.Pid)
			}
			d.ErrOut.Wait(t, tt.message)
			s.MustCtl("restart", "web") // superd controls it as before
			harness.Until(t, "another one runs, alone", func() bool {
				all := s.Programs()
				return len(all) == 1 && all[0].Pid != st.Pid && len(strings.Fields(s.Log("web"))) == 3
			})
		})
	}
}

// TestDamagedJournalQuarantines: if superd can't know what lives, here perhaps a hook, it
// quarantines the start, and `why` names the process. It does not take the main process for the
// hook, which it would kill after start_timeout.
func TestDamagedJournalQuarantines(t *testing.T) {
	t.Parallel()
	// before returns the lines before the first one that contains one of the texts
	before := func(t *testing.T, lines [][]byte, texts ...string) [][]byte {
		n := len(lines)
		for _, text := range texts {
			n = min(n, firstOf(t, lines, text))
		}
		return lines[:n]
	}
	const hook, main = `"start/web/1"`, `"start/web/2"`
	tests := []struct {
		name string
		cut  func(t *testing.T, lines [][]byte) [][]byte
	}{
		{"nothing of web is left", func(t *testing.T, lines [][]byte) [][]byte {
			return before(t, lines, `"instance/web"`, hook)
		}},
		{"the intent to start its hook is left", func(t *testing.T, lines [][]byte) [][]byte {
			return lines[:firstOf(t, lines, hook)+1]
		}},
		{"the start of its hook is left", func(t *testing.T, lines [][]byte) [][]byte {
			at := firstOf(t, lines, hook) + 1
			return lines[:at+firstOf(t, lines[at:], hook)+1]
		}},
		{"all but its start is left", func(t *testing.T, lines [][]byte) [][]byte {
			return before(t, lines, main)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[program.web]
				command = "sleep infinity"
				pre_start = [["true"]]
				`)
			d := s.Start()
			web := s.WaitState("web", "running").Pid
			s.MustCtl("start", "web")
			d.Kill()
			left := bytes.Join(tt.cut(t, journalLines(t, s)), nil)
			if err := os.WriteFile(filepath.Join(s.RuntimeDir, "journal"), left, 0o600); err != nil {
				t.Fatal(err)
			}
			d = s.Start()
			d.ErrOut.Wait(t, "the end of the journal is missing")
			s.WaitStatus("web", "is held", func(st harness.Status) bool {
				return st.State == "stopped" && strings.Contains(st.Reason, "not started: process")
			})
			if all := s.Programs(); len(all) != 1 || all[0].Pid != web {
				t.Errorf("%d processes, want %d alone", len(all), web)
			}
			s.MustCtl("stop", "web")
			s.MustCtl("start", "web")
			harness.Until(t, "another one runs, alone", func() bool {
				all := s.Programs()
				return len(all) == 1 && all[0].Pid != web
			})
		})
	}
}

// TestForeignEnvironmentTags: any user may start a process with superd's environment tags. Such a
// process is neither adopted nor killed, and delays no start. A program that has changed its user
// continues, even without keeper and journal.
func TestForeignEnvironmentTags(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		user = "daemon"
		command = "sleep infinity"
		[program.dropped]
		command = ["sh", "-c", "exec setpriv --reuid=bin --clear-groups sleep infinity"]
		[program.plain]
		user = "daemon"
		command = "sleep infinity"
		log.format = "direct"
		`)
	d := s.Start()
	web := s.WaitState("web", "running")
	harness.Until(t, "dropped has changed its user", func() bool {
		return strings.Contains(s.MustCtl("tree", "dropped").Out, "sleep")
	})
	dropped, plain := s.Status("dropped").Pid, s.WaitState("plain", "running").Pid
	d.Kill()
	if err := os.Remove(filepath.Join(s.RuntimeDir, "journal")); err != nil {
		t.Fatal(err)
	}
	process := d.Track(web.Pid)
	process.Kill()
	harness.Until(t, "web has ended", func() bool { return !process.Alive() })
	tagged := func(name string, args ...string) int {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "SUPERD_OWNER="+s.RuntimeDir, "SUPERD_INSTANCE=web", "SUPERD_INVOCATION_ID=0123")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return cmd.Process.Pid
	}
	foreign := []int{tagged("sleep", "infinity"), tagged(setuidChild(t, s), "as-root")}
	harness.Until(t, "a process of another user is root's", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", foreign[1]))
		return err == nil && strings.Contains(string(status), "\nUid:\t0\t")
	})

	s.Start()
	s.MustCtl("start", "web", "dropped", "plain")
	if st := s.Status("web"); st.State != "running" || slices.Contains(foreign, st.Pid) {
		t.Errorf("%v; want that it is started beside processes %d of another user", st, foreign)
	}
	if st := s.Status("dropped"); st.Pid != dropped {
		t.Errorf("%v; want process %d as before, which has changed its user", st, dropped)
	}
	if st := s.Status("plain"); st.Pid != plain {
		t.Errorf("%v; want process %d as before, which has no FIFO", st, plain)
	}
	s.MustCtl("stop", "web")
	for _, pid := range foreign {
		if !harness.Alive(pid) {
			t.Errorf("process %d of another user was ended", pid)
		}
	}
}

// setuidChild returns the path of a child that runs as root whoever starts it.
func setuidChild(t *testing.T, s *harness.Site) string {
	t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := s.Path(child.Name)
	s.Write(child.Name, string(binary))
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return path
}
