package tests

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"superd/tests/child"
	"superd/tests/harness"
)

// TestNoKeeperBelowAKeeper: a supervisor below a live keeper never becomes a keeper, whatever the
// kernel refuses: there are one keeper and one supervisor, even after each was replaced.
func TestNoKeeperBelowAKeeper(t *testing.T) {
	t.Parallel()
	for _, errno := range []string{"ENOSYS", "EPERM"} {
		t.Run(errno, func(t *testing.T) {
			t.Parallel()
			confined := harness.Confined(t, 200)
			s := harness.NewSite(t, "[program.web]\ncommand = 'sleep infinity'\n")
			d := s.Launch(harness.Refusing("pidfd_open", errno), confined)
			harness.Until(t, "superd answers", func() bool {
				if n := superds(s); n > 4 { // a child before its exec counts for a moment
					d.Abandon()
					for _, p := range s.Processes() {
						p.Kill()
					}
					t.Fatalf("%d processes of superd, want keeper and supervisor", n)
				}
				_, _, err := s.Request("GET", "/v1/status")
				return err == nil
			})
			d.FindSupervisor()
			s.WaitState("web", "running")
			s.Kill(d.Pid, syscall.SIGKILL)
			d.FindSupervisor()
			s.WaitState("web", "running")
			before := d.Pid
			// The supervisor takes its place, and starts the next one
			s.Kill(d.KeeperPid, syscall.SIGKILL)
			d.Abandon()
			d.KeeperPid = before
			d.FindSupervisor()
			harness.Until(t, "there are keeper and supervisor alone", func() bool { return superds(s) == 2 })
			s.WaitState("web", "running")
			s.MustCtl("shutdown")
			harness.Until(t, "superd has ended", func() bool { return superds(s) == 0 })
		})
	}
}

// superds returns the number of superd's processes in a site.
func superds(s *harness.Site) (n int) {
	for _, p := range s.Processes() {
		if filepath.Base(s.Executable(p.Pid)) == "superd" {
			n++
		}
	}
	return n
}

// TestRefusedCalls: without a system call that the kernel refuses, superd still supervises, or ends
// at once with one message. The table that the test prints is in docs/testing.md.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	needRoot(t) // to be PID 1, and to have programs of other users
	calls := slices.Sorted(maps.Keys(child.Refusable()))
	var mu sync.Mutex
	outcome := map[refusal]string{}
	t.Cleanup(func() { t.Logf("\n%s", refusalTable(calls, outcome)) }) // when all have ended
	for _, call := range calls {
		for _, errno := range []string{"ENOSYS", "EPERM"} {
			for _, init := range []bool{false, true} {
				r := refusal{call, errno, init}
				t.Run(r.String(), func(t *testing.T) {
					t.Parallel()
					result := superviseRefused(t, r)
					mu.Lock()
					defer mu.Unlock()
					outcome[r] = result
				})
			}
		}
	}
}

// A refusal is a cell of the table.
type refusal struct {
	call, errno string
	init        bool // superd is PID 1
}

func (r refusal) String() string {
	name := r.call + " " + r.errno
	if r.init {
		name += " PID 1"
	}
	return name
}

// superviseRefused uses all functions of superd on a program, and returns "supervises", or the
// message with which superd has ended before.
func superviseRefused(t *testing.T, r refusal) string {
	confined := harness.Confined(t, 200)
	s := harness.NewSite(t, `
		[defaults]
		backoff = { initial = "10ms", max = "50ms" }
		[program.web]
		command = ["sh", "-c", "echo up; exec sleep infinity"]
		user = "nobody"
		[socket.http]
		listen = "unix:DIR/http.sock"
		[program.held]
		command = "sleep infinity"
		sockets = ["http"]
		[program.tree]
		command = ["sh", "-c", "(setsid sh -c 'echo escaped; exec sleep infinity' &); exec sleep infinity"]
		`)
	options := []func(*exec.Cmd){harness.Refusing(r.call, r.errno), confined}
	if r.init {
		options = slices.Insert(options, 1, harness.AsInit(""))
	}
	d := s.Launch(options...)
	answers := func() bool {
		_, _, err := s.Request("GET", "/v1/status")
		return err == nil
	}
	harness.Until(t, "superd answers or has ended", func() bool { return d.Ended() || answers() })
	if d.Ended() {
		result := d.ErrOut.String()
		if d.Exit() != 1 || strings.Count(result, "\n") != 1 || !strings.Contains(result, "superd needs it to") {
			t.Errorf("exit status %d, want 1 and one message that says what superd needs:\n%s", d.Exit(), result)
		}
		return "ends: " + strings.TrimSpace(result)
	}
	d.FindSupervisor()
	s.WaitLog("web", "up\n")
	s.WaitLog("tree", "escaped")
	s.MustCtl("signal", "KILL", "web")
	web := s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
	s.WaitLog("web", "up\nup\n")
	// The programs are the keeper's children now, not the next supervisor's
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	s.WaitStatus("web", "is taken over", func(st harness.Status) bool { return st.State == "running" && st.Pid == web.Pid })
	s.MustCtl("stop", "*")
	s.WaitAll("stopped", func(st harness.Status) bool { return st.State == "stopped" })
	if programs := s.Programs(); len(programs) > 0 {
		t.Errorf("left after stop: %v", programs)
	}
	s.MustCtl("start", "*")
	s.WaitLog("web", "up\nup\nup\n")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d after a shutdown, want 0\n%s", exit, d.ErrOut)
	}
	if _, err := os.Lstat(s.Path("http.sock")); err == nil {
		t.Error("the path of a socket is left after a shutdown")
	}
	return "supervises"
}

// refusalTable returns the outcome as a table of Markdown, with each message once below it.
func refusalTable(calls []string, outcome map[refusal]string) string {
	var b, below strings.Builder
	fmt.Fprintln(&b, "| call | ENOSYS | EPERM | ENOSYS, PID 1 | EPERM, PID 1 |\n| --- | --- | --- | --- | --- |")
	printed := map[string]bool{}
	for _, call := range calls {
		fmt.Fprintf(&b, "| %s ", call)
		for _, init := range []bool{false, true} {
			for _, errno := range []string{"ENOSYS", "EPERM"} {
				result := outcome[refusal{call, errno, init}]
				word, message, ended := strings.Cut(result, ": ")
				if ended && !printed[call] {
					printed[call] = true
					fmt.Fprintf(&below, "- %s: `%s`\n", call, message)
				}
				fmt.Fprintf(&b, "| %s ", cmp.Or(word, "FAILS"))
			}
		}
		fmt.Fprintln(&b, "|")
	}
	return b.String() + "\n" + below.String()
}
