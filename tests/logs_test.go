package tests

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// follow starts `superd ctl ARGS…` and returns its output.
func follow(t *testing.T, s *harness.Site, args ...string) *harness.Output {
	t.Helper()
	cmd := s.Command(append([]string{"ctl"}, args...)...)
	var out harness.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	return &out
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

// TestFollowersOutliveSuperd: a follower of logs, events or status continues at its cursor when
// superd crashes or is upgraded: each line once.
func TestFollowersOutliveSuperd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", 'i=0; while read n; do i=$$((i+1)); echo "number $$i"; done < DIR/steps']
		log = { max_size = "100B", keep = 100 }
		[program.text]
		command = ["sh", "-c", "exec sleep infinity"]
		log = { format = "text" }
		`)
	step := s.Steps("steps")
	d := s.Start()
	s.WaitRunning()
	logs := follow(t, s, "logs", "-f", "*")
	events := follow(t, s, "events", "-f", "--json")
	status := follow(t, s, "status", "--watch", "--json")
	events.Wait(t, `"state":"started"`)
	want := ""
	for i := 1; i <= 30; i++ {
		switch i {
		case 10:
			s.Kill(d.Pid, syscall.SIGKILL) // the keeper starts another
		case 20:
			s.MustCtl("upgrade")
		}
		step()
		line := fmt.Sprintf("count | number %d\n", i)
		logs.Wait(t, line)
		want += line
	}
	if got := logs.String(); got != want {
		t.Errorf("followed %q, want %q", got, want)
	}
	s.MustCtl("restart", "text")
	events.Wait(t, `"reason":"restart"`)
	cursors := regexp.MustCompile(`"cursor":(\d+)`).FindAllStringSubmatch(events.String(), -1)
	for i, c := range cursors {
		if c[1] != fmt.Sprint(i+1) {
			t.Fatalf("event %d has the cursor %s:\n%s", i+1, c[1], events)
		}
	}
	s.Ctl("stop", "text")
	harness.Until(t, "the status goes on", func() bool {
		lines := strings.Split(strings.TrimSpace(status.String()), "\n")
		return strings.Contains(lines[len(lines)-1], `"state":"stopped"`)
	})
}

// TestLogsOfRunsAndOfWhatIsAdded: a follower keeps its selector, so that it follows a program that
// a reload adds. Runs are distinguished in every format.
func TestLogsOfRunsAndOfWhatIsAdded(t *testing.T) {
	t.Parallel()
	const formats = `
		[defaults]
		restart = "never"
		[program.raw]
		command = ["sh", "-c", 'echo run $$SUPERD_INVOCATION_ID']
		[program.text]
		command = ["sh", "-c", 'echo run $$SUPERD_INVOCATION_ID']
		log = { format = "text" }
		[program.json]
		command = ["sh", "-c", 'echo run $$SUPERD_INVOCATION_ID']
		log = { format = "json" }
		[program.direct]
		command = ["sh", "-c", 'echo run $$SUPERD_INVOCATION_ID']
		log = { format = "direct" }
		`
	s := harness.NewSite(t, formats)
	s.Start()
	names := []string{"raw", "text", "json", "direct"}
	for run := range 3 {
		for _, name := range names {
			harness.Until(t, fmt.Sprintf("run %d of %s is over", run, name), func() bool { return strings.Count(s.Log(name), "run ") == run+1 })
			s.WaitState(name, "exited")
		}
		if run < 2 {
			s.MustCtl("restart", "--no-wait", "*")
			for _, name := range names {
				s.WaitStatus(name, "has started again", func(st harness.Status) bool { return strings.Count(s.Log(name), "run ") > run+1 })
			}
		}
	}
	line := regexp.MustCompile(`run [0-9a-f]{32}`)
	for _, name := range names {
		all := line.FindAllString(s.Log(name), -1)
		for back := range 3 {
			got := s.MustCtl("logs", "--run", fmt.Sprint(-back), name).Out
			if found := line.FindAllString(got, -1); !slices.Equal(found, all[2-back:3-back]) {
				t.Errorf("logs --run %d %s = %q, want %q", -back, name, got, all[2-back])
			}
		}
	}
	if got := s.MustCtl("logs", "--grep", "run", "-n", "1", "--json", "text").Out; !strings.Contains(got, `"stream":"stdout","partial":false,"line":"run `) {
		t.Errorf("logs --json = %q", got)
	}
	if got := s.MustCtl("logs", "--since", "1h", "*").Out; len(line.FindAllString(got, -1)) != 12 {
		t.Errorf("logs --since 1h = %q, want 12 lines", got)
	}

	out := follow(t, s, "logs", "-f", "-n", "1", "*")
	for _, name := range names {
		out.Wait(t, name) // it is there
	}
	s.Configure(formats + `
		[program.late]
		command = ["sh", "-c", "echo here I am"]
		[program.many]
		command = ["sh", "-c", 'echo $$SUPERD_INSTANCE']
		replicas = 2
		`)
	s.MustCtl("reload")
	out.Wait(t, "| here I am\n")
	out.Wait(t, "| many@2\n")
	s.MustCtl("scale", "--no-wait", "many=3")
	out.Wait(t, "| many@3\n")
}

// TestStderrBecomesSeparate: a follower sees standard error when a reload gives that a log of its
// own, removes it and adds it again.
func TestStderrBecomesSeparate(t *testing.T) {
	t.Parallel()
	const program = `
		[program.count]
		command = ["sh", "-c", 'while read n; do echo "out $$n"; echo "err $$n" >&2; done < DIR/steps']
		log.stderr = %q
		`
	s := harness.NewSite(t, fmt.Sprintf(program, "merge"))
	step := s.Steps("steps")
	s.Start()
	s.WaitRunning()
	logs := follow(t, s, "logs", "-f", "--json", "count")
	n := 0
	for _, stderr := range []string{"merge", "separate", "merge", "separate", "merge"} {
		s.Configure(fmt.Sprintf(program, stderr))
		s.MustCtl("reload")
		s.WaitRunning()
		for range 3 {
			n++
			step(n)
			logs.Wait(t, fmt.Sprintf(`"line":"out %d"`, n))
			logs.Wait(t, fmt.Sprintf(`"line":"err %d"`, n))
		}
	}
	for i := 1; i <= n; i++ {
		for _, name := range []string{"out", "err"} {
			if line := fmt.Sprintf(`"line":"%s %d"`, name, i); strings.Count(logs.String(), line) != 1 {
				t.Errorf("%s was followed %d times, want once", line, strings.Count(logs.String(), line))
			}
		}
	}
}

// TestLogsOfSeparateStderr: the separate log of standard error is read like that of standard
// output: last lines, each with its stream, and followed across rotations and a crash of superd,
// each line once.
func TestLogsOfSeparateStderr(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", 'i=0; while read n; do i=$$((i+1)); echo "out $$i"; echo "err $$i" >&2; done < DIR/steps']
		log = { stderr = "separate", max_size = "100B", keep = 100 }
		[program.direct]
		command = ["sh", "-c", 'echo out; echo err >&2; exec sleep infinity']
		log = { stderr = "separate", format = "direct" }
		`)
	step := s.Steps("steps")
	d := s.Start()
	s.WaitRunning()
	logs := follow(t, s, "logs", "-f", "--json", "count")
	for i := 1; i <= 30; i++ {
		switch i {
		case 10:
			s.Kill(d.Pid, syscall.SIGKILL) // the keeper starts another
		case 20:
			s.MustCtl("upgrade")
		}
		step()
		logs.Wait(t, fmt.Sprintf(`"line":"out %d"`, i))
		logs.Wait(t, fmt.Sprintf(`"line":"err %d"`, i))
	}
	next := map[string]int{"out": 1, "err": 1}
	for line := range strings.Lines(logs.String()) {
		name := "out"
		if strings.Contains(line, `"stream":"stderr"`) {
			name = "err"
		}
		if !strings.Contains(line, fmt.Sprintf(`"line":"%s %d"`, name, next[name])) {
			t.Fatalf("followed %q, want number %d of %s", line, next[name], name)
		}
		next[name]++
	}
	if next["out"] != 31 || next["err"] != 31 {
		t.Errorf("followed up to %v, want 30 of each", next)
	}
	if got := s.MustCtl("logs", "-n", "2", "count").Out; got != "out 29\nout 30\nerr 29\nerr 30\n" && got != "err 29\nerr 30\nout 29\nout 30\n" {
		t.Errorf("the last two lines of each are %q", got)
	}
	if got := s.MustCtl("logs", "--run", "0", "--grep", "err 7", "count").Out; got != "err 7\n" {
		t.Errorf("what matches is %q", got)
	}
	harness.Until(t, "what a program has written itself is shown", func() bool { return s.MustCtl("logs", "direct").Out == "out\nerr\n" })
}

// TestRunInAnotherLog: the output of a run is not in the log that its program has now. superd says
// so rather than show other output.
func TestRunInAnotherLog(t *testing.T) {
	t.Parallel()
	const other = "[program.other]\ncommand = \"sleep infinity\"\n"
	program := func(log string) string {
		return other + `
			[program.web]
			command = ["sh", "-c", "echo $SUPERD_INVOCATION_ID; exec sleep infinity"]
			log = ` + log
	}
	for _, formats := range [][2]string{{"raw", "raw"}, {"text", "raw"}, {"raw", "text"}, {"text", "text"}} {
		t.Run(formats[0]+" "+formats[1], func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, program(fmt.Sprintf(`{ file = "DIR/1.log", format = %q }`, formats[0])))
			s.Start()
			var first, now string
			harness.Until(t, "the first run has printed something", func() bool {
				first = s.MustCtl("logs", "--run", "0", "web").Out
				return strings.HasSuffix(first, "\n")
			})
			s.Configure(other)
			s.MustCtl("reload")
			harness.Until(t, "it is gone", func() bool { return s.Ctl("status", "web").Exit != 0 })
			s.Configure(program(fmt.Sprintf(`{ file = "DIR/2.log", format = %q }`, formats[1])))
			s.MustCtl("reload")
			harness.Until(t, "the second run has printed something", func() bool {
				now = s.Ctl("logs", "--run", "0", "web").Out
				return strings.HasSuffix(now, "\n") && now != first
			})
			before := s.MustCtl("logs", "--run", "-1", "web")
			if before.Out != "" || !strings.Contains(before.ErrOut, "no output of that run in this log") && !strings.Contains(before.ErrOut, "output is missing here") {
				t.Errorf("of the run before: %q, and %q; want nothing, and why\nthe present run: %q", before.Out, before.ErrOut, now)
			}
		})
	}
}
