package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// smallRuntimeDir gives the site a small file system as runtime directory.
func smallRuntimeDir(t *testing.T, s *harness.Site) (filler string) {
	t.Helper()
	needRoot(t)
	s.Mkdir("run")
	if err := unix.Mount("tmpfs", s.Path("run"), "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(s.Path("run"), unix.MNT_DETACH) })
	return s.Path("run/filler")
}

// TestFullRuntimeDirectory: with a full runtime directory, a command is carried out, but answered
// "done" only if it is recorded: then it survives a crash. Source: row 59 of the failure table.
func TestFullRuntimeDirectory(t *testing.T) {
	t.Parallel()
	programs := ""
	for i := range 24 {
		programs += fmt.Sprintf("[program.p%02d]\ncommand = 'sleep infinity'\n", i)
	}
	s := harness.NewSite(t, programs)
	filler := smallRuntimeDir(t, s)
	d := s.Start()
	s.WaitRunning()
	s.MustCtl("stop", "p23") // all queued records are written
	fill(t, filler)

	// Commands that the file's last page has space for are recorded.
	const notOnRecord = "not recorded"
	var recorded []string
	unrecorded := 0
	for i := range 18 {
		name := fmt.Sprintf("p%02d", i)
		var o struct {
			OK         bool
			State      string
			Unrecorded string
		}
		status, body, err := s.Request("POST", "/v1/programs/"+name+"/stop")
		if err == nil {
			err = json.Unmarshal(bytes.Trim(body, "[]\n"), &o)
		}
		switch {
		case err != nil || status != http.StatusOK || o.State != "stopped":
			t.Fatalf("stop %s: %d %s %v", name, status, body, err)
		case o.OK && o.Unrecorded == "":
			recorded = append(recorded, name)
		case !o.OK && strings.Contains(o.Unrecorded, "no space left"):
			unrecorded++
		default:
			t.Errorf("stop %s: %s", name, body)
		}
	}
	if unrecorded == 0 {
		t.Error("each stop is answered as if it were on record")
	}
	if r := s.Ctl("stop", "p18"); r.Exit != 1 || !strings.Contains(r.ErrOut, notOnRecord) || s.Status("p18").State != "stopped" {
		t.Errorf("stop: %+v", r)
	}
	if r := s.Ctl("scale", "p00=0"); r.Exit != 1 || !strings.Contains(r.ErrOut, notOnRecord) {
		t.Errorf("scale: %+v", r)
	}
	s.Configure(strings.ReplaceAll(programs, "[program.p19]\ncommand = 'sleep infinity'\n", ""))
	if r := s.Ctl("reload"); r.Exit != 1 || !strings.Contains(r.ErrOut, notOnRecord) {
		t.Errorf("reload: %+v", r)
	}

	d.Kill()
	d = s.Start()
	for _, name := range recorded {
		if st := s.Status(name); st.State != "stopped" {
			t.Errorf("its stop was answered as done, and after a crash: %v", st)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "a stop is on record", func() bool { return s.Ctl("stop", "p20").Exit == 0 })
	d.ErrOut.Wait(t, "journal is written again")
	s.MustCtl("scale", "p21=0")
	s.MustCtl("reload")
	d.Kill()
	s.Start()
	if st := s.Status("p20"); st.State != "stopped" {
		t.Errorf("with room again, after a stop and a crash: %v", st)
	}
}

// TestEndInAFullRuntimeDirectory: with a full runtime directory, the keeper stores an exit that
// superd can't record: a one-shot that has ended is not run twice. A request for a shutdown is
// answered that it is not recorded.
func TestEndInAFullRuntimeDirectory(t *testing.T) {
	t.Parallel()
	programs := `
		[program.job]
		type = "oneshot"
		restart = "on-failure"
		command = ["sh", "-c", "echo run; read x < DIR/gate; exit 0"]
		[program.last]
		stop_timeout = "5s"
		command = ["sh", "-c", "trap 'echo told' TERM; while :; do sleep 0.1; done"]
		`
	for i := range 24 {
		programs += fmt.Sprintf("[program.p%02d]\ncommand = 'sleep infinity'\n", i)
	}
	s := harness.NewSite(t, programs)
	filler := smallRuntimeDir(t, s)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("job", "run\n")
	s.WaitState("last", "running")
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	s.WaitState("job", "running") // the keeper is its parent by now
	s.MustCtl("stop", "p23")      // all queued records are written
	fill(t, filler)
	full := false // commands that the file's last page has space for are recorded
	for i := 0; i < 23 && !full; i++ {
		full = s.Ctl("stop", fmt.Sprintf("p%02d", i)).Exit != 0
	}
	if !full {
		t.Fatal("the journal has room though its file system is full")
	}

	open()
	s.WaitState("job", "exited")
	for range 2 { // each is answered after another attempt to write the journal
		s.Ctl("stop", "p22")
	}
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	st := s.WaitStatus("job", "has ended", func(st harness.Status) bool { return st.State != "running" })
	if st.State != "exited" || !st.Exit.Known || s.Log("job") != "run\n" {
		t.Errorf("after a crash: %v, log %q; want that it was run once and how it ended", st, s.Log("job"))
	}

	status, body, err := s.Request("POST", "/v1/shutdown")
	if err != nil || status != http.StatusAccepted || !strings.Contains(string(body), "no space left") {
		t.Errorf("shutdown: %d %s %v; want that it is not on record", status, body, err)
	}
	s.WaitLog("last", "told\n")
	r := s.Ctl("shutdown", "--no-wait") // soon after the first: both are one request
	if r.Exit != 1 || !strings.Contains(r.ErrOut, "not recorded") {
		t.Errorf("superd ctl shutdown --no-wait: %+v", r)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// Not the message that the journal is written again: there may be an earlier one
	harness.Until(t, "the shutdown is on record", func() bool {
		return regexp.MustCompile(`"shutdown":.*\n`).Match(journalText(t, s))
	})
	s.Kill(d.Pid, syscall.SIGKILL)
	d.Wait()
}
