package tests

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

const twoSleepers = `
	[program.one]
	command = "sleep infinity"
	[program.two]
	command = ["sh", "-c", "setsid sleep infinity & exec sleep infinity"]
	`

// wantNothingLeft waits until superd and its programs have ended.
func wantNothingLeft(t *testing.T, s *harness.Site) {
	t.Helper()
	harness.Until(t, "nothing of superd is left", func() bool { return len(s.Processes()) == 0 })
}

// title returns the title of a process, as ps shows it. It is empty while the process executes.
func title(s *harness.Site, pid int) string {
	for _, p := range s.Processes() {
		if p.Pid == pid {
			return p.Command
		}
	}
	return ""
}

// TestTitles: the title of each process of superd says what it is, and of which superd.
func TestTitles(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, twoSleepers)
	terminal := harness.NewTerminal(t, 80, 24)
	d := s.Start(terminal.Run)
	front := s.Parent(d.KeeperPid)
	want := func(pid int, role string) {
		t.Helper()
		full := fmt.Sprintf("superd: %s (%s)", role, s.RuntimeDir)
		harness.Until(t, full, func() bool { return title(s, pid) == full })
	}
	want(front, "terminal")
	want(d.KeeperPid, "keeper")
	want(d.Pid, "supervisor")
	for pid, name := range map[int]string{d.Pid: "supervisor", d.KeeperPid: "keeper"} {
		if env := strings.Join(processOf(t, s, pid).Env, " "); !strings.Contains(env, s.Dir) {
			t.Errorf("the environment of the %s is not to be seen: %q", name, env)
		}
	}
	keeper := s.Track(d.KeeperPid)
	before := d.Pid
	keeper.Kill()
	d.KeeperPid = before
	d.FindSupervisor()
	want(before, "keeper")
	want(d.Pid, "supervisor")
}

// processOf waits until the process can be seen: it is in no exec.
func processOf(t *testing.T, s *harness.Site, pid int) (found harness.Process) {
	t.Helper()
	harness.Until(t, fmt.Sprintf("process %d is seen", pid), func() bool {
		for _, p := range s.Processes() {
			if p.Pid == pid {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// TestKillsInTerminal: in a terminal, keeper and supervisor may be killed. The programs go on, the
// terminal stays superd's, and Ctrl-C ends all.
func TestKillsInTerminal(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, twoSleepers)
	terminal := harness.NewTerminal(t, 80, 24)
	d := s.Start(terminal.Run)
	one := s.WaitState("one", "running").Pid
	for range 2 {
		s.Track(d.Pid).Kill()
		d.FindSupervisor()
		keeper, next := s.Track(d.KeeperPid), d.Pid
		keeper.Kill()
		d.KeeperPid = next
		d.FindSupervisor()
		if st := s.WaitState("one", "running"); st.Pid != one || st.Restarts != 0 {
			t.Errorf("one is %v, want pid %d", st, one)
		}
		if d.Ended() {
			t.Fatalf("superd has left the terminal\n%s", terminal.Screen)
		}
	}
	terminal.Type("\x03")
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, terminal.Screen)
	}
	wantNothingLeft(t, s)
}

// TestTerminalHangsUp: a hangup of the terminal ends superd and all programs. A SIGHUP from
// elsewhere is a reload.
func TestTerminalHangsUp(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"keeper": nil, "no keeper": {"--no-keeper"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, twoSleepers)
			terminal := harness.NewTerminal(t, 80, 24)
			d := s.Start(terminal.Run, func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, args...) })
			one := s.WaitState("one", "running").Pid
			d.Signal(syscall.SIGHUP)
			terminal.Screen.Wait(t, "configuration reloaded")
			if st := s.Status("one"); st.Pid != one {
				t.Errorf("one after a reload: %v, want pid %d", st, one)
			}
			terminal.Hangup()
			d.Wait()
			wantNothingLeft(t, s)
		})
	}
}

// TestDaemonOutlivesTerminal: a daemon is not affected when the terminal that it writes to goes.
func TestDaemonOutlivesTerminal(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, twoSleepers)
	terminal := harness.NewTerminal(t, 80, 24)
	d := s.Start(terminal.Run, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no controlling terminal
	})
	one := s.WaitState("one", "running").Pid
	terminal.Hangup()
	s.Configure(twoSleepers + "[program.three]\ncommand = 'sleep infinity'\n")
	d.Signal(syscall.SIGHUP)
	harness.Until(t, "it is reloaded", func() bool { return len(s.All()) == 3 })
	if st := s.Status("one"); st.Pid != one || st.State != "running" {
		t.Errorf("one: %v, want pid %d", st, one)
	}
}

// TestUpgradeInTerminal: after upgrades in a terminal, Ctrl-C and a hangup still end superd with
// all programs.
func TestUpgradeInTerminal(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*exec.Cmd){
		"keeper": func(*exec.Cmd) {}, "no keeper": harness.NoKeeper,
	} {
		for _, hangsUp := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", Ctrl-C", true: ", hangs up"}[hangsUp], func(t *testing.T) {
				t.Parallel()
				s := harness.NewSite(t, twoSleepers)
				terminal := harness.NewTerminal(t, 80, 24)
				d := s.Start(terminal.Run, option)
				one := s.WaitState("one", "running").Pid
				for n := range 2 {
					s.MustCtl("upgrade")
					if d.KeeperPid != 0 {
						terminal.Screen.WaitTimes(t, "the keeper runs the new binary, too", n+1)
					}
				}
				if st := s.Status("one"); st.Pid != one {
					t.Errorf("one: %v, want pid %d", st, one)
				}
				if hangsUp {
					terminal.Hangup()
				} else {
					terminal.Type("\x03")
				}
				if exit := d.Wait(); exit != 0 {
					t.Errorf("exit status %d, want 0\n%s", exit, terminal.Screen)
				}
				wantNothingLeft(t, s)
			})
		}
	}
}

// TestNohup: a superd started by nohup outlives its terminal, also after an upgrade. A SIGHUP from
// elsewhere is a reload.
func TestNohup(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*exec.Cmd){
		"keeper": func(*exec.Cmd) {}, "no keeper": harness.NoKeeper,
	} {
		for _, upgrades := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d upgrades", name, upgrades), func(t *testing.T) {
				t.Parallel()
				s := harness.NewSite(t, twoSleepers)
				terminal := harness.NewTerminal(t, 80, 24)
				// If a second signal is ignored, superd executes itself once more.
				d := s.Start(terminal.Run, option, harness.Under("trap '' HUP TSTP"))
				one := s.WaitState("one", "running").Pid
				for n := range upgrades {
					s.MustCtl("upgrade")
					if d.KeeperPid != 0 {
						terminal.Screen.WaitTimes(t, "the keeper runs the new binary, too", n+1)
					}
				}
				terminal.Hangup()
				s.Configure(twoSleepers + "[program.three]\ncommand = 'sleep infinity'\n")
				// The first SIGHUP may be taken for the terminal's
				harness.Until(t, "it is reloaded", func() bool {
					if d.Ended() {
						t.Fatal("it has ended with its terminal")
					}
					d.Signal(syscall.SIGHUP)
					return s.Ctl("status", "three").Exit == 0
				})
				if st := s.Status("one"); st.Pid != one || st.State != "running" {
					t.Errorf("one: %v, want pid %d", st, one)
				}
				d.Signal(syscall.SIGTERM)
				if exit := d.Wait(); exit != 0 {
					t.Errorf("exit status %d, want 0", exit)
				}
			})
		}
	}
}

// TestTerminalFoundByAnUpgrade: a keeper that finds a terminal only after an upgrade stays the
// keeper.
func TestTerminalFoundByAnUpgrade(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, twoSleepers)
	socket, err := net.Listen("unix", s.Path("socket")) // can't be opened
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	terminal := harness.NewTerminal(t, 80, 24)
	d := s.Start(terminal.Run, harness.Under("mount --make-rprivate / && mount --bind socket /dev/tty || exit"),
		func(cmd *exec.Cmd) { cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS })
	one := s.WaitState("one", "running").Pid
	mount := exec.CommandContext(t.Context(), "nsenter", "-m", "-t", strconv.Itoa(d.KeeperPid), "umount", "/dev/tty")
	if out, err := mount.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.MustCtl("upgrade")
	terminal.Screen.Wait(t, "the keeper runs the new binary, too")
	if st := s.Status("one"); st.Pid != one {
		t.Errorf("one: %v, want pid %d", st, one)
	}
	terminal.Type("\x03")
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0", exit)
	}
}

// TestFrontIsKilled: if the front process is killed, for which the shell waits, superd shuts down
// in order.
func TestFrontIsKilled(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "child signals DIR/gate"
		`)
	s.Env = append(s.Env, "TERM=xterm")
	open := s.Gate("gate")
	terminal := runInShell(t, s)
	s.WaitLog("web", "ready\n")
	front := s.Parent(s.Parent(supervisorPid(t, s)))
	s.Kill(front, syscall.SIGKILL)
	s.WaitLog("web", "got terminated\n")
	open()
	terminal.Type("exit\n")
	wantNothingLeft(t, s)
}

// TestCtrlZ: Ctrl-Z returns to the shell's prompt while superd and its programs go on; fg gives
// superd the terminal again. After a hangup meanwhile, nothing is left.
func TestCtrlZ(t *testing.T) {
	t.Parallel()
	for _, hangsUp := range []bool{false, true} {
		t.Run(map[bool]string{false: "fg", true: "hangs up"}[hangsUp], func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, twoSleepers)
			s.Env = append(s.Env, "TERM=xterm")
			terminal := runInShell(t, s)
			s.WaitState("one", "running")
			terminal.Type("\x1a")
			terminal.Screen.Wait(t, "Stopped")
			pid := s.Status("one").Pid
			s.Kill(pid, syscall.SIGKILL)
			s.WaitStatus("one", "is restarted", func(st harness.Status) bool { return st.Pid != 0 && st.Pid != pid })
			if hangsUp {
				terminal.Hangup()
			} else {
				terminal.Type("fg\n")
				front := s.Parent(s.Parent(supervisorPid(t, s)))
				// The shell gives it the terminal first
				harness.Until(t, "it goes on", func() bool {
					return !strings.HasPrefix(s.Field(front, "status", "State"), "T")
				})
				terminal.Type("\x03")
				terminal.Screen.Wait(t, "shut down")
				terminal.Type("exit\n")
			}
			wantNothingLeft(t, s)
		})
	}
}

// runInShell starts superd in a shell with job control in a terminal.
func runInShell(t *testing.T, s *harness.Site) *harness.Terminal {
	t.Helper()
	terminal := harness.NewTerminal(t, 120, 24)
	shell := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	shell.Dir, shell.Env = s.Dir, s.Env
	terminal.Run(shell)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Wait() }) // its context has ended by then
	terminal.Type("superd run -c superd.toml\n")
	terminal.Screen.Wait(t, "superd started")
	harness.Until(t, "superd answers", func() bool { return s.Ctl("status").Exit == 0 })
	return terminal
}

// supervisorPid returns the pid of the superd that answers.
func supervisorPid(t *testing.T, s *harness.Site) int {
	t.Helper()
	var pid int
	out := s.MustCtl("version", "--json").Out
	if _, rest, ok := strings.Cut(out, `"pid":`); ok {
		fmt.Sscanf(rest, "%d", &pid)
	}
	if pid == 0 {
		t.Fatalf("ctl version: %s", out)
	}
	return pid
}
