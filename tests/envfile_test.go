package tests

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestRootReadsNoLinksOfUsers: a user with write access to a directory can't redirect what a superd
// of root reads, or where it works. Source: row 52 of the failure table.
func TestRootReadsNoLinksOfUsers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const otherUID = 65534
	s := harness.NewSite(t, "[program.own]\ncommand = 'true'\n")
	s.Chmod(".", 0o755)
	secret := s.Write("secret", "SECRET=1\n")
	s.Chmod("secret", 0o600)
	s.Mkdir("home")
	config := "[defaults]\nrestart = 'never'\nuser = 'nobody'\n"
	for _, name := range []string{"own", "link", "hard", "fifo"} {
		config += "[program." + name + "]\ncommand = ['sh', '-c', 'echo got $SECRET; exec sleep infinity']\nenv_file = 'home/" + name + ".env'\n"
	}
	s.Write("home/own.env", "SECRET=own\n")
	s.Link("home/link.env", secret)
	if err := os.Link(secret, s.Path("home/hard.env")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.Path("home/fifo.env"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"home", "home/own.env", "home/fifo.env"} {
		if err := os.Lchown(s.Path(path), otherUID, otherUID); err != nil {
			t.Fatal(err)
		}
	}
	s.Configure(config)
	s.Start()
	s.WaitLog("own", "got own\n")
	for name, what := range map[string]string{"link": "it is a symbolic link", "hard": "it has 2 names", "fifo": "FIFO"} {
		if st := s.WaitState(name, "failed"); !strings.Contains(st.Reason, what) || strings.Contains(s.Log(name), "got") {
			t.Errorf("%v, log %q; want a refusal: %s", st, s.Log(name), what)
		}
	}
}

// TestOptionsAsInDebian: options from optional env files become words of the command, the later
// file counts, each replica has its port, and a reload notices a file that was missing.
func TestOptionsAsInDebian(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = "sh -c 'for word; do echo \"<$word>\"; done; exec sleep infinity' sh $OPTIONS end"
		[program.missing]
		env_file = ["-default/missing"]
		[program.empty]
		env_file = "-default/empty"
		[program.named]
		env_file = ["default/empty", "-default/missing", "-default/named"]
		[program.web]
		command = "sh -c 'echo \"$@\"; exec sleep infinity' sh ${8000+SUPERD_REPLICA} ${100+10*SUPERD_REPLICA}"
		replicas = 2
		[program.broken]
		env_file = "-default/broken"
		`)
	s.Mkdir("default")
	s.Write("default/empty", "OPTIONS=\n")
	s.Write("default/named", "# startup options\nOPTIONS=\"-u bind -o 'a b'\"\n")
	s.Write("default/broken", "OPTIONS=\"it's\"\n")
	s.Start()
	for name, want := range map[string]string{
		"missing": "<end>\n", "empty": "<end>\n", "named": "<-u>\n<bind>\n<-o>\n<a b>\n<end>\n",
		"web@1": "8001 110\n", "web@2": "8002 120\n",
	} {
		if got := s.WaitLog(name, want); got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	s.WaitStatus("broken", "is refused", func(st harness.Status) bool {
		return strings.Contains(st.Reason, "expand command: split $OPTIONS into words: the single quote at byte 3 is not closed")
	})
	s.Write("default/missing", "OPTIONS='now there'\n")
	before := s.Status("empty").Pid
	s.MustCtl("reload")
	s.WaitLog("missing", "<now>\n<there>\n<end>\n")
	if st := s.Status("empty"); st.Pid != before {
		t.Errorf("a file of others restarted %v", st)
	}
}

// TestEnvFileThatIsADevice: the null device is an empty env file; other devices are refused.
func TestEnvFileThatIsADevice(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		command = ["sh", "-c", "echo runs; exec sleep infinity"]
		[program.null]
		env_file = "/dev/null"
		[program.zero]
		env_file = "/dev/zero"
		`)
	s.Start()
	for name, want := range map[string]bool{"null": true, "zero": false} {
		st := s.WaitStatus(name, "runs, or is refused", func(st harness.Status) bool {
			return st.State == "running" || strings.Contains(st.Reason, "a device, not a regular file")
		})
		if runs := st.State == "running"; runs != want {
			t.Errorf("%v, want that it runs: %v", st, want)
		}
	}
}

// TestRuntimeDirOfOthersRefused: a runtime directory that another user may replace is refused
// before anything is made in it.
func TestRuntimeDirOfOthersRefused(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	s.Mkdir("run")
	s.Write("run/left", "by another user")
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o731} {
		if err := os.Chmod(s.Path("run"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(s.Path("run"), 0, 65534); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, s.Run("run", "-c", s.Config), 1, "open runtime directory", "may write", "chmod go-w")
		if entries, err := os.ReadDir(s.Path("run")); err != nil || len(entries) != 1 {
			t.Errorf("mode %v: %v is left there, %v", mode, entries, err)
		}
	}
	s.Chmod("run", 0o755)
	s.Start()
	s.WaitState("web", "running")
}

// TestEmptyRuntimeDirIsClosed: superd removes other users' write access from an empty runtime
// directory, as engines mount a tmpfs or a volume.
func TestEmptyRuntimeDirIsClosed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
	s.Mkdir("run")
	s.Chmod("run", 0o777|os.ModeSticky)
	s.Start()
	s.WaitState("web", "running")
	if info, err := os.Stat(s.Path("run")); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the runtime directory has mode %v, %v, want 0711", info.Mode(), err)
	}
}
