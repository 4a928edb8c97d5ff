package tests

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

const counting = `
	[program.web]
	command = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.01; done"]
	backoff.initial = "1ms"
	`

// shells returns the number of main processes.
func shells(s *harness.Site) (n int) {
	for _, p := range s.Programs() {
		// A process that superd has started leads a session. A child of the shell before its exec
		// has the same command line, but leads none.
		if sid, err := unix.Getsid(p.Pid); err == nil && sid == p.Pid && strings.HasPrefix(p.Command, "sh ") {
			n++
		}
	}
	return n
}

// rewriteJournal changes the header of the journal that a killed superd has left.
func rewriteJournal(t *testing.T, s *harness.Site, change func(header string) string) {
	t.Helper()
	path := filepath.Join(s.RuntimeDir, "journal")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(string(text), "\n")
	changed := change(header[len("01234567 "):])
	if changed == header[len("01234567 "):] {
		t.Fatalf("nothing to change in %s", header)
	}
	sum := crc32.Checksum([]byte(changed), crc32.MakeTable(crc32.Castagnoli))
	if err := os.WriteFile(path, fmt.Appendf(nil, "%08x %s\n%s", sum, changed, rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestJournalOfNewerSuperd: with a journal in an unknown format, superd starts nothing while
// programs live that it may refer to.
func TestJournalOfNewerSuperd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, counting)
	d := s.Start()
	web := s.Track(s.WaitState("web", "running").Pid)
	s.MustCtl("start", "web") // all queued records are written
	d.Kill()
	rewriteJournal(t, s, func(header string) string { return strings.Replace(header, `"version":1,`, `"version":2,`, 1) })
	wantMessage(t, s.Run("run", "-c", s.Config), 1, "format 2", fmt.Sprintf("its programs still run: %d (sh)", web.Pid))
	if !web.Alive() || shells(s) != 1 {
		t.Fatalf("processes %v, want %d alone", s.Programs(), web.Pid)
	}
	web.Kill()
	harness.Until(t, "it and the sleep of its shell are gone", func() bool { return len(s.Programs()) == 0 })
	d = s.Start()
	d.ErrOut.Wait(t, "journal of a newer superd removed")
	s.WaitState("web", "running")
}

// TestJournalOfAnotherBoot: a journal of another boot has no valid processes; those that live
// nevertheless are not started a second time.
func TestJournalOfAnotherBoot(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, counting)
	boot := func(header string) string {
		return regexp.MustCompile(`"boot":"[^"]*"`).ReplaceAllString(header, `"boot":"another"`)
	}
	d := s.Start()
	web := s.Track(s.WaitState("web", "running").Pid)
	s.MustCtl("start", "web")
	d.Kill()
	rewriteJournal(t, s, boot)
	d = s.Start()
	d.ErrOut.Wait(t, "journal of an earlier boot")
	if st := s.Status("web"); st.State != "stopped" || !strings.Contains(st.Reason, fmt.Sprint(web.Pid)) || !web.Alive() {
		t.Errorf("%v, want that it is not started beside %d", st, web.Pid)
	}
	web.Kill()
	s.WaitState("web", "running")
	d.Kill()
	for _, p := range s.Programs() {
		p.Kill()
	}
	harness.Until(t, "the programs are gone, as after a boot", func() bool { return len(s.Programs()) == 0 })
	rewriteJournal(t, s, boot)
	d = s.Start()
	s.WaitState("web", "running")
	if log := d.ErrOut.String(); strings.Contains(log, "level=WARN") {
		t.Errorf("after a boot:\n%s", log)
	}
}

// TestRecoveryWithAnotherConfiguration: started by hand with another configuration, superd adopts
// what runs and then applies the difference.
func TestRecoveryWithAnotherConfiguration(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.kept]
		command = "sleep infinity"
		[program.changed]
		command = "sleep infinity"
		[program.gone]
		command = "sleep infinity"
		`)
	d := s.Start()
	before := map[string]*harness.Tracked{}
	for name, pid := range s.WaitRunning() {
		before[name] = s.Track(pid)
	}
	s.MustCtl("start", "*")
	d.Kill()
	s.Configure(`
		[program.kept]
		command = "sleep infinity"
		[program.changed]
		command = "sleep 1d"
		[program.new]
		command = "sleep infinity"
		`)
	d = s.Start()
	s.WaitState("new", "running")
	changed := s.WaitStatus("changed", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Pid != before["changed"].Pid })
	harness.Until(t, "three programs are left", func() bool { return len(s.Programs()) == 3 })
	if unchanged := s.Status("kept"); unchanged.Pid != before["kept"].Pid || before["changed"].Alive() || before["gone"].Alive() {
		t.Errorf("%v, %v; before: %d, %d and %d", unchanged, changed, before["kept"].Pid, before["changed"].Pid, before["gone"].Pid)
	}

	// A broken configuration is refused, and nothing changes.
	d.Kill()
	pids := fmt.Sprint(s.Programs())
	s.Write("superd.toml", "[superd]\nruntime_dir = 'run'\nlog_dir = 'log'\n[program.kept\n")
	wantMessage(t, s.Run("run", "-c", s.Config), 2, "superd.toml:4:")
	if now := fmt.Sprint(s.Programs()); now != pids {
		t.Errorf("after a superd that was refused: %s, before: %s", now, pids)
	}
}

// TestForeignFilesInRuntimeDir: other files in the place of a FIFO or of the journal are not taken
// for them, and affect no program.
func TestForeignFilesInRuntimeDir(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, counting)
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	s.MustCtl("start", "web")
	for _, put := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, []byte("not a FIFO\n"), 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
		func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		d.Kill()
		fifo := filepath.Join(s.RuntimeDir, "fifo", "web")
		if err := os.RemoveAll(fifo); err != nil {
			t.Fatal(err)
		}
		if err := put(fifo); err != nil {
			t.Fatal(err)
		}
		d = s.Start()
		d.ErrOut.Wait(t, "FIFO not at its path")
		if st := s.Status("web"); st.Pid != web || st.State != "running" {
			t.Fatalf("%v, want pid %d", st, web)
		}
		size := len(s.Log("web"))
		harness.Until(t, "its output goes on", func() bool { return len(s.Log("web")) > size })
	}
	n := 0
	for line := range strings.Lines(s.Log("web")) {
		if n++; line != fmt.Sprintf("line %d\n", n) && strings.HasSuffix(line, "\n") {
			t.Fatalf("line %d is %q", n, line)
		}
	}

	d.Kill()
	journal := filepath.Join(s.RuntimeDir, "journal")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	for _, put := range []func() error{
		func() error { return os.Mkdir(journal, 0o700) },
		func() error { return syscall.Mkfifo(journal, 0o600) },
		func() error { return os.Symlink("/dev/null", journal) },
	} {
		if err := os.Remove(journal); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, s.Run("run", "-c", s.Config), 1, journal, "it is not a regular file: remove it")
		if shells(s) != 1 || !harness.Alive(web) {
			t.Fatalf("processes %v, want %d alone", s.Programs(), web)
		}
	}
	os.Remove(journal)
	if err := os.WriteFile(journal, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	if st := s.Status("web"); st.Pid != web {
		t.Errorf("with the journal back in its place: %v, want pid %d", st, web)
	}
}

// TestRecoveryOnFullDisk: on a full disk superd adopts what runs, reports what it can't write, and
// writes again when there is space.
func TestRecoveryOnFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, counting)
	s.Mkdir("run")
	if err := unix.Mount("tmpfs", s.Path("run"), "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(s.Path("run"), unix.MNT_DETACH) })
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	s.MustCtl("start", "web")
	d.Kill()
	fill(t, s.Path("run/filler"))

	d = s.Start()
	d.ErrOut.Wait(t, "journal not rewritten")
	if st := s.Status("web"); st.Pid != web || st.State != "running" {
		t.Fatalf("%v, want pid %d", st, web)
	}
	if r := s.Ctl("restart", "web", "--timeout", "1s"); r.Exit == 0 {
		t.Errorf("restarted while its start can't be written down: %s", r.Out)
	}
	if n := shells(s); n > 1 {
		t.Errorf("%d processes, want one at most", n)
	}
	if err := os.Remove(s.Path("run/filler")); err != nil {
		t.Fatal(err)
	}
	restarted := s.WaitStatus("web", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != web }).Pid
	s.MustCtl("start", "web")
	d.Kill()
	s.Start()
	if st := s.Status("web"); st.Pid != restarted {
		t.Errorf("%v, want pid %d", st, restarted)
	}
	s.MustCtl("shutdown")

	// Without space for a journal, nothing is started.
	fill(t, s.Path("run/filler"))
	wantMessage(t, s.Run("run", "-c", s.Config), 1, s.RuntimeDir, "no space left")
	os.Remove(s.Path("run/filler"))
}

// fill makes a file that takes all the space left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// TestKilledWithSpawnInFlight: a superd killed between fork and exec leaves a child with its lock
// and its socket. The next superd ends the child first.
func TestKilledWithSpawnInFlight(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.slow]
		command = "sleep infinity"
		[program.web]
		command = "sleep infinity"
		`)
	s.Env = append(s.Env, "GOGC=off")              // a garbage collection would wait for the fork
	messages, err := os.Create(s.Path("messages")) // a pipe would have no end while the child lives
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	d := s.Start(func(cmd *exec.Cmd) { cmd.Stderr = messages })
	s.WaitRunning()
	web := s.Status("web").Pid
	bases := s.Cgroups()
	if len(bases) == 0 {
		t.Skip("no cgroup v2 here")
	}
	// A process spawned into a frozen cgroup is stuck there.
	s.MustCtl("stop", "slow")
	frozen := filepath.Join(bases[0], "program-slow")
	if err := os.WriteFile(filepath.Join(frozen, "cgroup.freeze"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s.MustCtl("start", "slow", "--no-wait")
	var child *harness.Tracked
	harness.Until(t, "a child is in flight", func() bool {
		text, _ := os.ReadFile(filepath.Join(frozen, "cgroup.procs"))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if pid > 0 {
			child = s.Track(pid)
		}
		return pid > 0
	})
	if exe := s.Executable(child.Pid); filepath.Base(exe) != "superd" && s.Executable(d.Pid) != exe {
		t.Fatalf("process %d runs %s already", child.Pid, exe)
	}
	d.Kill()
	if !child.Alive() {
		t.Fatal("the child has ended with superd: there is nothing to see")
	}
	s.Start()
	if st := s.Status("web"); st.Pid != web || st.State != "running" {
		t.Errorf("%v, want pid %d", st, web)
	}
	if child.Alive() {
		t.Errorf("process %d of the start in flight lives", child.Pid)
	}
	if st := s.WaitState("slow", "running"); st.Pid == child.Pid {
		t.Errorf("%v, want another process", st)
	}
	if n := len(s.Programs()); n != 2 {
		t.Errorf("processes %v, want two", s.Programs())
	}
}

// TestPersistentStopIsLogged: a program stopped by the operator stays stopped after a new start of
// superd, which reports that, and how to start it.
func TestPersistentStopIsLogged(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, twoSleepers)
	d := s.Start()
	s.WaitRunning()
	s.MustCtl("stop", "one")
	s.MustCtl("shutdown")
	d.Wait()
	if strings.Contains(d.ErrOut.String(), "not started: stopped") {
		t.Errorf("at the first start:\n%s", d.ErrOut)
	}
	d = s.Start()
	d.ErrOut.Wait(t, "not started: stopped by the operator before\" instances=one start_by=\"superd ctl --runtime-dir "+s.RuntimeDir+" start NAME...\"")
	s.WaitState("two", "running")
	s.WaitState("one", "stopped")
}
