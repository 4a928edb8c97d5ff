package tests

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// A pane is a terminal of tmux in which a command runs, such as `superd top`.
type pane struct {
	t      *testing.T
	s      *harness.Site
	socket string // of its tmux
	number int
}

// openTop runs `superd top` in a terminal of that size. as is a command that runs it, such as
// setpriv; none: it runs as the user of the test.
func openTop(t *testing.T, s *harness.Site, width, height int, as string, args ...string) *pane {
	t.Helper()
	return openPane(t, s, width, height, as+" superd top --runtime-dir run "+strings.Join(args, " "))
}

// openPane runs a command of the shell in a terminal of that size, in the directory of the site.
func openPane(t *testing.T, s *harness.Site, width, height int, command string) *pane {
	t.Helper()
	p := &pane{t: t, s: s}
	for s.Read(fmt.Sprintf("top-%d", p.number)) != "" {
		p.number++
	}
	p.socket = s.Path(fmt.Sprintf("tmux-%d", p.number))
	script := s.Write(fmt.Sprintf("top-%d", p.number), fmt.Sprintf(`#!/bin/sh
		stty -g >before-%[1]d
		%[2]s
		echo "exit status $?"
		stty -g >after-%[1]d.new
		mv after-%[1]d.new after-%[1]d
		exec sleep infinity
		`, p.number, command))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("screen %d:\n%s", p.number, p.text())
		}
		_ = p.tmux("kill-server").Run() // fails if it has not begun
		harness.Until(t, "tmux ends, with what runs in it", func() bool {
			return !slices.ContainsFunc(s.Processes(), p.runs)
		})
	})
	start := p.tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), script,
		";", "set-option", "-s", "set-clipboard", "on") // it keeps what is copied
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("start tmux: %v\n%s", err, out)
	}
	return p
}

// runs reports whether a process is tmux itself, or runs in it.
func (p *pane) runs(process harness.Process) bool {
	return strings.Contains(process.Command, p.socket) || strings.Contains(process.Command, "utempter") ||
		slices.ContainsFunc(process.Env, func(v string) bool { return strings.HasPrefix(v, "TMUX="+p.socket) })
}

func (p *pane) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", p.socket}, args...)...)
	cmd.Dir = p.s.Dir
	cmd.Env = append(p.s.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	return cmd
}

func (p *pane) must(args ...string) string {
	p.t.Helper()
	out, err := p.tmux(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// text returns what the screen shows.
func (p *pane) text() string {
	out, _ := p.tmux("capture-pane", "-p").CombinedOutput() // the error is in the text
	return string(out)
}

// wait waits until the screen matches all of these regular expressions.
func (p *pane) wait(patterns ...string) {
	p.t.Helper()
	for _, pattern := range patterns {
		re := regexp.MustCompile(pattern)
		harness.Until(p.t, "the screen has "+pattern, func() bool { return re.MatchString(p.text()) })
	}
}

// waitNot waits until the screen does not match a regular expression.
func (p *pane) waitNot(pattern string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	harness.Until(p.t, "the screen lacks "+pattern, func() bool { return !re.MatchString(p.text()) })
}

// press presses keys by their names in tmux.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.must(append([]string{"send-keys"}, keys...)...)
}

// enter types text.
func (p *pane) enter(text string) {
	p.t.Helper()
	p.must("send-keys", "-l", text)
}

// pid returns the pid of superd-ui.
func (p *pane) pid() (pid int) {
	p.t.Helper()
	shell := strings.TrimSpace(p.must("display-message", "-p", "#{pane_pid}"))
	harness.Until(p.t, "superd top runs", func() bool {
		// Empty: it has not begun
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", shell))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return string(name) == "superd-ui\n"
	})
	return pid
}

// wantEnded waits for the end of the command, and checks that the terminal is as before.
func (p *pane) wantEnded(status int) {
	p.t.Helper()
	after := fmt.Sprintf("after-%d", p.number)
	harness.Until(p.t, "the command has ended", func() bool { return p.s.Read(after) != "" })
	if before, after := p.s.Read(fmt.Sprintf("before-%d", p.number)), p.s.Read(after); before != after {
		p.t.Errorf("settings of the terminal before and after:\n%s\n%s", before, after)
	}
	p.wait(fmt.Sprintf("exit status %d\n", status))
	const flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{wrap_flag}"
	if got := strings.TrimSpace(p.must("display-message", "-p", flags)); got != "0 1 0 1" {
		p.t.Errorf("%s are %s", flags, got)
	}
}

// TestTop: what the keys do.
func TestTop(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.api]
		command = "sleep infinity"
		requires = ["db"]
		[program.db]
		command = ["sh", "-c", "echo no space left; exit 3"]
		start_limit = { failures = 1, retry_after = "0s" }
		[program.evil]
		command = ["sh", "-c", "printf '\\033[2J\\033]0;title\\007harmless\\n'; exec sleep infinity"]
		[program.web]
		command = ["sh", "-c", "trap 'echo got HUP' HUP; for i in 1 2 3 4 5 6 7 8 9; do echo line $i of 9; done; while :; do sleep 0.05; done"]
		replicas = 2
		[program.zz-manual]
		command = "sleep infinity"
		autostart = false
		`)
	s.BuildUI()
	s.Start()
	s.WaitState("db", "failed")
	s.WaitState("web@2", "running")
	p := openTop(t, s, 120, 30, "")
	p.wait("6 programs, 1 failed, 3 running, 1 waiting, 1 stopped .*by name",
		`(?m)^ db +✗ failed .*exit status 3`, `(?m)^ web@1 +● running +\d+ .*line 9 of 9$`,
		`(?m)^ evil .*\\x1b\[2J\\x1b\]0;title\\x07harmless$`, "(?m)^ api +◌ waiting", "q: quit")

	// Sorting and filtering
	p.press("s")
	p.wait("by state", `(?s) db .* api .* zz-manual`)
	p.press("S")
	p.wait(`(?s) zz-manual .* api .* db `)
	p.press("s", "s", "s", "s", "s")
	p.wait("by name")
	p.enter("/web")
	p.wait("filter: web", "/web: 2 ")
	p.waitNot("zz-manual")
	p.press("Enter")
	p.wait("/web: 2 ", "q: quit")

	// A command is carried out once it is confirmed
	first := s.Status("web@1").Pid
	p.press("r")
	p.wait(`restart web@1\? y: yes`)
	p.press("n")
	p.wait("not done")
	if now := s.Status("web@1").Pid; now != first {
		t.Errorf("restarted without a confirmation")
	}
	p.press("r", "y")
	p.wait("web@1: running, pid ")
	if now := s.Status("web@1").Pid; now == first {
		t.Error("not restarted")
	}
	p.press("Space", "Space")
	p.wait("2 marked", `(?m)^\*web@1`, `(?m)^\*web@2`)
	p.press("d", "y")
	p.wait("stop: 2 programs done", `(?m)^ web@2 +■ stopped`)
	p.press("Space", "Up", "Space", "u", "y")
	s.WaitState("web@1", "running")
	s.WaitState("web@2", "running")
	p.press("Home", "R", "y")
	p.wait("web@1: .*running")
	p.press("x")
	p.wait("signal to web@1")
	p.enter("nonsense")
	p.press("Enter")
	p.wait(`signal: .*nonsense`)
	p.press("x")
	p.enter("HUP")
	p.press("Enter")
	s.WaitLog("web@1", "got HUP\n")
	p.press("Escape")
	p.wait("zz-manual")

	// A pasted text is no answer and no key
	p.press("d")
	p.wait(`stop .*\? y: yes`)
	p.must("set-buffer", "yq")
	p.must("paste-buffer", "-p")
	p.press("n")
	p.wait("not done")

	// Panes follow the cursor
	p.press("Home", "l")
	p.wait("── log of api, following")
	p.press("End", "Up")
	p.wait("── log of web@2, following", "(?m)^(..:..:.. )?line 9 of 9$")
	p.press("Enter")
	p.waitNot("zz-manual")
	p.enter("/line 4 OF")
	p.press("Enter")
	p.wait("not found: line 4 OF")
	p.enter("/line 4 of")
	p.press("Enter")
	p.wait("search|n: next")
	p.press("y")
	p.wait("copied the line: line 4 of 9")
	harness.Until(t, "tmux has the copy", func() bool {
		out, err := p.tmux("show-buffer").Output()
		return err == nil && string(out) == "line 4 of 9"
	})
	p.press("Escape")
	p.wait("zz-manual", "q: quit")
	p.press("Home", "Down", "w")
	p.wait("── why: db ", "(?m)^db failed at", "no space left")
	p.press("e")
	p.wait("── events of db", "state .*running -> failed")
	p.press("t", "End", "Up")
	p.wait("── processes of web@2", `\*\d+ [SR] .* sh -c trap`)
	p.press("g")
	p.wait("── dependencies", `(?m)^◌ api waiting, blocked by db \(failed\)$`, `(?m)^  requires ✗ db failed, blocks 1 program$`)
	p.press("?")
	p.wait("── help", "Ctrl-Z +suspend")
	p.press("Escape")
	p.waitNot("── help")
	p.press("m")
	p.wait("mouse on")
	if got := strings.TrimSpace(p.must("display-message", "-p", "#{mouse_any_flag}")); got != "1" {
		t.Errorf("the mouse is not on: %s", got)
	}

	// Any size does
	p.press("l")
	for _, size := range []struct{ width, height int }{{40, 12}, {10, 3}, {1, 1}, {200, 50}, {60, 20}} {
		p.must("resize-window", "-x", strconv.Itoa(size.width), "-y", strconv.Itoa(size.height))
		if size.width >= 40 {
			p.wait(`(?m)^\d+ program`, "(?m)^ web@2 +● running", "── log of web@2")
		}
	}
	p.press("q")
	p.wantEnded(0)
}

// TestTopEnds: each end leaves the terminal as it was, and what cannot work is refused.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[control]\nviewers = ['bin']\n[program.web]\ncommand = 'sleep infinity'\n")
	s.BuildUI()
	wantRefusal := func(exit int, want string, args ...string) {
		t.Helper()
		if r := s.Run(append([]string{"top", "--runtime-dir", s.RuntimeDir}, args...)...); r.Exit != exit || !strings.Contains(r.ErrOut, want) {
			t.Errorf("exit status %d, %q", r.Exit, r.ErrOut)
		}
	}
	wantRefusal(2, "superd top needs a terminal; use superd ctl status")
	wantRefusal(2, "unknown flag", "--nonsense")
	p := openTop(t, s, 80, 24, "")
	p.wait("no superd answers on ")
	p.wantEnded(4)
	s.Start()
	s.WaitState("web", "running")
	p = openTop(t, s, 80, 24, "", "wbe")
	p.wait(`no program, instance or group is named "wbe"; did you mean "web"\?`)
	p.wantEnded(1)
	for _, end := range []string{"q", "C-c", "SIGTERM", "SIGHUP", "SIGINT", "C-z"} {
		p := openTop(t, s, 80, 24, "")
		p.wait("● running", "q: quit")
		p.press("m", "l")
		p.wait("log of web")
		switch end {
		case "SIGTERM":
			s.Kill(p.pid(), syscall.SIGTERM)
		case "SIGHUP":
			s.Kill(p.pid(), syscall.SIGHUP)
		case "SIGINT":
			s.Kill(p.pid(), syscall.SIGINT)
		case "C-z":
			pid := p.pid()
			p.press(end)
			harness.Until(t, "it has left the screen", func() bool {
				return strings.TrimSpace(p.must("display-message", "-p", "#{alternate_on}")) == "0"
			})
			s.Kill(pid, syscall.SIGCONT)
			p.wait("● running", "log of web")
			p.press("q")
		default:
			p.press(end)
		}
		p.wantEnded(0)
	}
	if os.Geteuid() != 0 {
		return // only root can become a viewer
	}
	p = openTop(t, s, 160, 24, "setpriv --reuid=2 --regid=2 --clear-groups")
	p.wait("● running")
	p.press("d", "y")
	p.wait("stop: .*may only view programs")
	p.press("q")
	p.wantEnded(0)
}

// TestTopLarge: 1,000 programs, kill -9 of superd meanwhile, and no work when nothing changes.
func TestTopLarge(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	programs.WriteString(`
		[defaults]
		command = "sleep infinity"
		[program.counts]
		command = ["sh", "-c", "i=0; while [ -e DIR/go ]; do i=$((i+1)); echo n $i.; sleep 0.1; done; exec sleep infinity"]
		`)
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&programs, "[program.p%03d]\nautostart = %v\n", i, i%50 == 0)
	}
	s := harness.NewSite(t, programs.String())
	s.BuildUI()
	s.Write("go", "")
	d := s.Start()
	p := openTop(t, s, 100, 40, "")
	p.wait("1000 programs, 20 running, 980 stopped", "(?m)^ counts +● running", "(?m)^ p036 ")
	p.press("End")
	p.wait("(?m)^ p999 +■ stopped")
	p.press("PPage", "PPage", "Home", "Enter")
	p.wait("── log of counts, following", `(?m)n 20\.$`)
	newest := func() int {
		all := regexp.MustCompile(`(?m)n (\d+)\.$`).FindAllStringSubmatch(p.text(), -1)
		if len(all) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(all[len(all)-1][1])
		return n
	}
	before := newest()
	d.Kill()
	p.wait(`superd does not answer since ..:..:..: .*superd.*\. Connecting again`)
	s.Start()
	p.wait("superd answers again")
	p.waitNot("does not answer")
	harness.Until(t, "the log continues", func() bool { return newest() > before })
	p.press("Home")
	p.waitNot("following")
	// From its first line on
	all := regexp.MustCompile(`(?m)n (\d+)\.$`).FindAllStringSubmatch(p.text(), -1)
	for i, match := range all {
		if match[1] != strconv.Itoa(i+1) {
			t.Errorf("line %d of the log is %q", i+1, match[0])
		}
	}
	p.press("Escape")
	p.wait("(?m)^ p001 ")
	p.press("Escape")
	p.waitNot("── log")
	p.press("s")
	p.wait("by state")
	p.press("s", "s", "s", "s", "s")
	p.wait("by name", "(?m)^ p036 ")

	s.Kill(s.Status("p050").Pid, syscall.SIGKILL)
	p.enter("/p050")
	p.press("Enter")
	p.wait(`(?m)^ p050 +● running +\d+ +<1m +1 `)
	p.press("Escape")
	p.wait("(?m)^ p049 ")

	if err := os.Remove(s.Path("go")); err != nil {
		t.Fatal(err)
	}
	wantQuiet(t, s, p.pid())
	p.press("q")
	p.wantEnded(0)
}

// wantQuiet fails the test if superd-ui does anything while nothing changes. It reads what the
// programs use ever more rarely.
func wantQuiet(t *testing.T, s *harness.Site, pid int) {
	t.Helper()
	const window, mostTicks, mostSwitches = 10 * time.Second, 1, 120
	var seen []string
	for range 8 {
		ticks, switches := s.CPUTicks(pid), s.ContextSwitches(pid)
		harness.Window(t, window)
		ticks, switches = s.CPUTicks(pid)-ticks, s.ContextSwitches(pid)-switches
		seen = append(seen, fmt.Sprintf("%d ticks, %d switches", ticks, switches))
		if ticks <= mostTicks && switches <= mostSwitches {
			t.Logf("in windows of %v: %s", window, strings.Join(seen, "; "))
			return
		}
	}
	t.Errorf("in windows of %v: %s; want one with at most %d and %d", window, strings.Join(seen, "; "), mostTicks, mostSwitches)
}
