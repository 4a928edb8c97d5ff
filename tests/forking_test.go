package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// forkingTable returns the table of a program whose command runs a script, in which PIDFILE is the
// path of its pid file.
func forkingTable(s *harness.Site, name, script, more string) string {
	return strings.ReplaceAll("[program."+name+"]\ntype = \"forking\"\ncommand = ['sh', '-c', '''"+script+"''']\n"+more+"\n",
		"PIDFILE", s.Path(name+".pid"))
}

// TestForking: a program that goes into the background is supervised by its main process, which
// superd finds with and without a pid file.
func TestForking(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, "")
		s.Configure("[defaults]\nbackoff = { initial = \"1h\", max = \"1h\" }\nlog.format = \"text\"\n" +
			forkingTable(s, "file", "setsid sleep 1000 & echo $! > PIDFILE; setsid sleep 1001 &", `pid_file = "PIDFILE"`) +
			forkingTable(s, "tree", "(setsid sleep 1002 &)", "") +
			forkingTable(s, "late", "(setsid sh -c 'echo $$$$ > PIDFILE.new; sleep 1; mv PIDFILE.new PIDFILE; exec sleep 1003' &)", `pid_file = "PIDFILE"`) +
			forkingTable(s, "several", "sleep 1004 & sleep 1005 &", "") +
			forkingTable(s, "none", "true", "") +
			forkingTable(s, "fails", "sleep 1006 & exit 3", "") +
			forkingTable(s, "foreign", "setsid sleep 1007 & echo 1 > PIDFILE", "pid_file = \"PIDFILE\"\nstart_timeout = \"2s\"") +
			forkingTable(s, "fifo", "setsid sleep 1008 & mkfifo PIDFILE", "pid_file = \"PIDFILE\"\nstart_timeout = \"2s\"") +
			forkingTable(s, "hangs", "sleep 1009", "start_timeout = \"1s\""))
		s.Start(options...)
		for _, name := range []string{"file", "tree", "late"} {
			st := s.WaitState(name, "running")
			harness.Until(t, "the main process of "+name+" executes sleep", func() bool {
				text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(st.Pid), "cmdline"))
				return strings.HasPrefix(string(text), "sleep\x00")
			})
		}
		for name, want := range map[string]string{
			"several": "set pid_file", "none": "it left no process", "fails": "exit status 3",
			"foreign": "it names process 1, which is no live process of the program",
			"fifo":    "waits for " + s.Path("fifo.pid"), "hangs": "waits for the end of its command",
		} {
			if st := s.WaitState(name, "backoff"); !strings.Contains(st.Reason, want) {
				t.Errorf("%s: reason %q, want %q", name, st.Reason, want)
			}
		}
		if err := unix.Kill(s.Status("file").Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if st := s.WaitState("file", "backoff"); !strings.Contains(st.Reason, "SIGKILL") {
			t.Errorf("reason %q after the end of the main process", st.Reason)
		}
		s.MustCtl("stop", "tree", "late")
		for _, p := range s.Processes() {
			if strings.Contains(p.Command, "sleep") {
				t.Errorf("%s lives", p.Command)
			}
		}
	})
}

// TestForkingCrash: the end of superd at each stage of a start loses neither the exit status of the
// command nor the main process.
func TestForkingCrash(t *testing.T) {
	t.Run("kill -9", func(t *testing.T) {
		forkingCrash(t, func(s *harness.Site, d *harness.Superd) { s.Kill(d.Pid, unix.SIGKILL) })
	})
	t.Run("upgrade", func(t *testing.T) {
		forkingCrash(t, func(s *harness.Site, d *harness.Superd) { s.MustCtl("upgrade") })
	})
}

func forkingCrash(t *testing.T, end func(*harness.Site, *harness.Superd)) {
	t.Parallel()
	s := harness.NewSite(t, "")
	wait := "while ! test -e " + s.Path("go-on") + "; do sleep 0.01; done; "
	s.Configure("[defaults]\nbackoff = { initial = \"1h\", max = \"1h\" }\n" +
		forkingTable(s, "command", wait+"setsid sleep 1000 & echo $! > PIDFILE", `pid_file = "PIDFILE"`) +
		forkingTable(s, "failure", wait+"exit 3", "") +
		forkingTable(s, "file", "(setsid sh -c '"+wait+"echo $$$$ > PIDFILE; exec sleep 1001' &)", `pid_file = "PIDFILE"`) +
		forkingTable(s, "runs", "setsid sleep 1002 &", ""))
	d := s.Start()
	runs := s.WaitState("runs", "running")
	s.WaitStatus("file", "waits for its pid file", func(st harness.Status) bool {
		return st.State == "starting" && strings.Contains(st.Reason, "waits for "+s.Path("file.pid"))
	})
	end(s, d)
	s.Write("go-on", "")
	for _, name := range []string{"command", "file", "runs"} {
		if st := s.WaitState(name, "running"); name == "runs" && st.Pid != runs.Pid {
			t.Errorf("main process %d after the crash, want %d", st.Pid, runs.Pid)
		}
	}
	if st := s.WaitState("failure", "backoff"); !strings.Contains(st.Reason, "exit status 3") {
		t.Errorf("reason %q, want the exit status", st.Reason)
	}
}
