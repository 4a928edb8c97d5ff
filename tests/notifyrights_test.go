package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// dropped runs a script as a user unknown to superd, like a daemon that drops its privileges.
const dropped = `"setpriv", "--reuid=23456", "--regid=23456", "--clear-groups", "sh", "-c"`

var otherUser = &syscall.Credential{Uid: 34567, Gid: 34567}

// TestNotifyAfterDroppingRights: superd accepts notifications of a program that has dropped its
// privileges; other users' processes can't even find the socket.
func TestNotifyAfterDroppingRights(t *testing.T) {
	needRoot(t)
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.web]
			command = [`+dropped+`, "systemd-notify --ready --status=mine; exec sleep infinity"]
			ready = { notify = true }
			start_timeout = "10s"
			`)
		d := s.Start(options...)
		if st := s.WaitState("web", "running"); st.StatusText != "mine" {
			t.Errorf("status text %q, want the program's", st.StatusText)
		}

		path := s.NotifySocket("web")
		list := exec.Command("ls", filepath.Dir(path))
		list.SysProcAttr = &syscall.SysProcAttr{Credential: otherUser}
		if out, err := list.CombinedOutput(); err == nil {
			t.Errorf("any user can list the notify sockets: %s", out)
		}
		sockets, err := os.ReadFile("/proc/net/unix")
		if err != nil || bytes.Contains(sockets, []byte(path)) {
			t.Errorf("the kernel shows the name of the socket to any user (%v)", err)
		}

		// It is the same for the next superd, and for the next run.
		d.Kill()
		s.Start(options...)
		s.WaitState("web", "running")
		s.MustCtl("restart", "web")
		if next := s.NotifySocket("web"); next != path {
			t.Errorf("the next run has the socket %s, want %s", next, path)
		}
	})
}

// TestNotifyOutOfReach: if others can't enter the runtime directory, superd reports that it can't
// receive notifications of such a program.
func TestNotifyOutOfReach(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		ready = { notify = true }
		`)
	s.Chmod(".", 0o700)
	s.Start().ErrOut.Wait(t, "other users may not enter "+s.Dir+" (mode 0700")
}

// flooder sends as fast as it can: it waits for space, or retries at once.
const flooder = `use Socket;
my $s;
socket($s, AF_UNIX, SOCK_DGRAM, 0) && connect($s, sockaddr_un($ARGV[0])) or die $!;
my $how = $ARGV[1] eq "spin" ? MSG_DONTWAIT : 0;
$| = 1;
print "floods\n";
send($s, "READY=1\nSTATUS=foreign", $how) while 1`

// TestNotifyDuringAFlood: superd receives the program's notifications even if another user knows
// the socket's name and fills it.
func TestNotifyDuringAFlood(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, how := range []string{"wait", "spin"} {
		t.Run(how, func(t *testing.T) {
			s := harness.NewSite(t, `
				[program.web]
				command = [`+dropped+`, "cat DIR/gate; systemd-notify --ready --status=mine; exec sleep infinity"]
				ready = { notify = true }
				start_timeout = "90s"
				`)
			open := s.Gate("gate")
			d := s.Start()
			path := s.NotifySocket("web")
			for range 3 {
				flood := exec.CommandContext(t.Context(), "perl", "-e", flooder, path, how)
				flood.SysProcAttr = &syscall.SysProcAttr{Credential: otherUser}
				out, err := flood.StdoutPipe()
				if err == nil {
					err = flood.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { flood.Process.Kill(); flood.Wait() })
				if _, err := out.Read(make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
			}
			d.ErrOut.Wait(t, "does not belong to the program")
			began := time.Now()
			open()
			st := s.WaitState("web", "running")
			took := time.Since(began)
			t.Logf("notified after %v", took)
			if st.StatusText == "foreign" || took > 10*time.Second {
				t.Errorf("%v after %v, want the program's word, and soon", st, took)
			}
			if lines := strings.Count(d.ErrOut.String(), "notification refused"); lines > 2 {
				t.Errorf("%d lines in superd's log of what was refused", lines)
			}
		})
	}
}

// mainFlooder sends MAINPID= repeatedly: for two processes of its own in turns, or for superd.
const mainFlooder = `use Socket;
my ($own, $times) = @ARGV;
socket(S, AF_UNIX, SOCK_DGRAM, 0) && connect(S, sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!;
my @pids = $own ? ($$, fork // die $!) : (getppid);
if ($own && !$pids[1]) { sleep 1 while 1 }
for my $i (1 .. $times) { send(S, "MAINPID=$pids[$i % @pids]", 0) }
send(S, "READY=1\nSTATUS=told", 0);
sleep 1 while 1`

// TestMainProcessFlood: however often a program names its main process, superd's log gets only a
// few lines.
func TestMainProcessFlood(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		ready = { notify = true }
		start_timeout = "90s"
		[program.own]
		command = ["perl", "DIR/flood", "1", "300"]
		[program.foreign]
		command = ["perl", "DIR/flood", "", "300"]
		`)
	s.Write("flood", mainFlooder)
	d := s.Start()
	for name, text := range map[string]string{"own": "main process changed", "foreign": "main process not changed"} {
		if st := s.WaitState(name, "running"); st.StatusText != "told" {
			t.Errorf("%v: %q", st, st.StatusText)
		}
		lines := strings.Count(d.ErrOut.String(), `msg="`+text+`" instance=`+name)
		if lines == 0 || lines > 20 {
			t.Errorf("%d lines of %d changes of %s", lines, 300, name)
		}
	}
}
