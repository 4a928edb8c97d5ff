package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// A reloaded is the output of `superd ctl reload --json`.
type reloaded struct {
	DryRun                  bool `json:"dry_run"`
	Added, Removed, Changed []string
	Programs                []struct {
		Program, Change string
		Keys            []struct {
			Key     string
			Old     *string
			New     *string
			Restart bool
			Text    string
		}
	}
	Superd []struct{ Key string }
	Notes  []string
}

func reload(s *harness.Site, args ...string) (r reloaded) {
	s.T.Helper()
	out := s.MustCtl(append([]string{"reload", "--json"}, args...)...).Out
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.T.Fatalf("reload --json: %v in %q", err, out)
	}
	return r
}

// change returns the change of a program and its keys; a key that needs a restart has a "!".
func (r reloaded) change(name string) string {
	for _, p := range r.Programs {
		if p.Program == name {
			text := p.Change
			for _, k := range p.Keys {
				if text += " " + k.Key; k.Restart {
					text += "!"
				}
			}
			return text
		}
	}
	return "not there"
}

// TestReloadOfIncludesAndDefaults: included files come and go; [defaults] apply to programs that do
// not set the key themselves.
func TestReloadOfIncludesAndDefaults(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	main := func(defaults string) {
		s.Write("superd.toml", `
			include = ["conf.d/*.toml"]
			[superd]
			runtime_dir = 'run'
			log_dir = 'log'
			[defaults]
			command = "sleep infinity"
			`+defaults+`
			[program.web]
			`)
	}
	s.Mkdir("conf.d")
	main("")
	s.Write("conf.d/b.toml", "[program.b]\nstop_timeout = '3s'\nenvironment = { MODE = 'own' }\n")
	s.Start()
	pids := waitNames(t, s, "b", "web")

	// A new file: the other programs are not affected.
	s.Write("conf.d/a.toml", "[program.a]\n[program.z]\n")
	s.Write("conf.d/c.not", "[program.c]\n")
	if r := reload(s); !slices.Equal(r.Added, []string{"a", "z"}) || len(r.Removed)+len(r.Changed) != 0 || r.DryRun {
		t.Errorf("a file more: %+v", r)
	}
	four := waitNames(t, s, "a", "b", "web", "z")
	if got := unchanged(pids, four); !slices.Equal(got, []string{"b", "web"}) {
		t.Errorf("a file more: only %v were left alone", got)
	}

	// Defaults that apply to running programs, except to those with a value of their own.
	main("stop_timeout = '7s'")
	r := reload(s, "--dry-run")
	if second := reload(s); fmt.Sprint(r.Programs) == "[]" || !r.DryRun || r.change("a") != second.change("a") {
		t.Errorf("a dry run reports %+v, a reload %+v", r, second)
	}
	for name, want := range map[string]string{"a": "applied live stop_timeout", "b": "unchanged", "web": "applied live stop_timeout", "z": "applied live stop_timeout"} {
		if got := r.change(name); got != want {
			t.Errorf("another stop_timeout for all: %s is %q, want %q", name, got, want)
		}
	}
	if now := s.WaitRunning(); !maps.Equal(now, four) {
		t.Errorf("pids %v, want %v", now, four)
	}

	// Defaults that need a restart; tables are merged, so b's own MODE stays.
	main("stop_timeout = '7s'\nenvironment = { MODE = 'common' }")
	r = reload(s)
	for name, want := range map[string]string{"a": "restart needed environment.MODE!", "b": "unchanged"} {
		if got := r.change(name); got != want {
			t.Errorf("another environment for all: %s is %q, want %q", name, got, want)
		}
	}
	for _, p := range r.Programs {
		for _, k := range p.Keys {
			if k.Old != nil || k.New != nil || strings.Contains(k.Text, "common") {
				t.Errorf("it shows the value of a variable: %+v", k)
			}
		}
	}
	harness.Until(t, "all but b are restarted", func() bool { return slices.Equal(unchanged(four, s.WaitRunning()), []string{"b"}) })
	if second := reload(s); second.change("web") != "unchanged" {
		t.Errorf("the same once more: web is %q", second.change("web"))
	}
	pids = s.WaitRunning()

	// A mistake in one of the files refuses the whole configuration.
	main("")
	s.Write("conf.d/b.toml", "[program.b]\nstop_timeout = 3\n[program.web]\n")
	refused := s.Ctl("reload")
	for _, want := range []string{"conf.d/b.toml:2:", "stop_timeout", "conf.d/b.toml:3:", "is already defined at"} {
		if refused.Exit != 2 || !strings.Contains(refused.ErrOut, want) {
			t.Errorf("a broken file: exit status %d, %q, want %q in it", refused.Exit, refused.ErrOut, want)
		}
	}
	if now := s.WaitRunning(); !maps.Equal(now, pids) {
		t.Errorf("pids %v after what was refused, want %v", now, pids)
	}

	// Files are removed.
	main("stop_timeout = '7s'\nenvironment = { MODE = 'common' }")
	for _, name := range []string{"conf.d/a.toml", "conf.d/b.toml"} {
		if err := os.Remove(s.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if r := reload(s); !slices.Equal(r.Removed, []string{"a", "b", "z"}) {
		t.Errorf("two files less: %+v", r)
	}
	if now := waitNames(t, s, "web"); now["web"] != pids["web"] {
		t.Errorf("two files less: %v, want pid %d", now, pids["web"])
	}
}

// TestReloadAppliesChanges: each kind of change is applied to the running program, or needs a
// restart, and takes effect.
func TestReloadAppliesChanges(t *testing.T) {
	t.Parallel()
	const base = `
		[program.db]
		command = "sleep infinity"
		[program.web]
		`
	program := func(keys ...string) string {
		text := base
		all := map[string]string{"command": `["sh", "-c", "echo $VALUE; umask; exec sleep infinity"]`, "umask": `"022"`}
		for _, k := range keys {
			name, value, _ := strings.Cut(k, " = ")
			all[name] = value
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text += name + " = " + all[name] + "\n"
		}
		return text
	}
	s := harness.NewSite(t, program())
	s.Mkdir("elsewhere")
	s.Write("web.env", "VALUE=first\n")
	s.Start()
	s.WaitRunning()
	live := []struct {
		key  string
		then func(t *testing.T, pid int) // checks that it is in force; web need not run afterwards
	}{
		{key: `restart = "never"`, then: func(t *testing.T, pid int) {
			s.Kill(pid, syscall.SIGKILL)
			s.WaitState("web", "failed")
		}},
		{key: `backoff = { initial = "1h", max = "1h" }`, then: func(t *testing.T, pid int) {
			s.Kill(pid, syscall.SIGKILL)
			if st := s.WaitState("web", "backoff"); st.NextStartInS == nil || *st.NextStartInS < 3000 {
				t.Errorf("%v, next start in %v, want an hour", st, st.NextStartInS)
			}
		}},
		{key: `start_limit = { failures = 1, retry_after = "0s" }`, then: func(t *testing.T, pid int) {
			s.Kill(pid, syscall.SIGKILL)
			if st := s.WaitState("web", "failed"); !strings.Contains(st.Reason, "start limit hit: 1") {
				t.Errorf("%v", st)
			}
		}},
		{key: `stop_signal = "SIGKILL"`, then: func(t *testing.T, pid int) {
			s.MustCtl("stop", "web")
			if st := s.Status("web"); st.Exit.String() != "SIGKILL" {
				t.Errorf("%v, want it ended by the new signal", st)
			}
		}},
		{key: `stop_timeout = "0s"`},
		{key: `start_timeout = "1s"`},
		{key: `kill_mode = "group"`},
		{key: `groups = ["front"]`, then: func(t *testing.T, pid int) {
			if r := s.MustCtl("status", "front"); !strings.Contains(r.Out, "web") {
				t.Errorf("its new group has %q", r.Out)
			}
		}},
		{key: `health = { exec = "false", interval = "20ms", failures = 2, action = "none" }`, then: func(t *testing.T, pid int) {
			if st := s.WaitStatus("web", "is unhealthy", func(st harness.Status) bool { return st.Healthy != nil && !*st.Healthy }); st.Pid != pid {
				t.Errorf("action = none: %v", st)
			}
		}},
		// Healthy until the test says so: the status after the reload shows the first process
		{key: `health = { exec = ["test", "!", "-e", "DIR/sick"], interval = "20ms", timeout = "80s", failures = 2 }`, then: func(t *testing.T, pid int) {
			s.Write("sick", "")
			s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.Restarts > 0 })
			if err := os.Remove(s.Path("sick")); err != nil {
				t.Fatal(err)
			}
		}},
		{key: `requires = ["db"]`, then: func(t *testing.T, pid int) {
			s.MustCtl("stop", "db")
			s.WaitState("web", "waiting")
			s.MustCtl("start", "db")
			s.WaitState("web", "running")
		}},
		{key: `after = ["db"]`},
		{key: `pre_start = [["touch", "DIR/prepared"]]`, then: func(t *testing.T, pid int) {
			s.MustCtl("restart", "web")
			s.Files("prepared")
		}},
		{key: `ready = { exec = ["test", "-e", "DIR/there"], interval = "20ms" }`, then: func(t *testing.T, pid int) {
			s.MustCtl("restart", "--no-wait", "web")
			s.WaitStatus("web", "waits for it", func(st harness.Status) bool { return st.State == "starting" && st.Pid != 0 && st.Pid != pid })
			s.Write("there", "")
			s.WaitState("web", "running")
		}},
		{key: `log = { max_size = 1, keep = 2 }`, then: func(t *testing.T, pid int) {
			harness.Until(t, "the log is rotated", func() bool {
				s.MustCtl("restart", "web") // it prints two lines
				return len(s.Files("log/web.log*")) == 3
			})
		}},
	}
	for _, tt := range live {
		t.Run("live "+tt.key, func(t *testing.T) {
			before := s.Status("web")
			name, _, _ := strings.Cut(tt.key, " ")
			s.Configure(program(tt.key))
			if got := reload(s).change("web"); !strings.HasPrefix(got, "applied live "+name) || strings.Contains(got, "!") {
				t.Errorf("web is %q, want %s applied live", got, name)
			}
			if st := s.Status("web"); st.Pid != before.Pid || st.State != "running" {
				t.Fatalf("%v, want it running with pid %d", st, before.Pid)
			}
			if tt.then != nil {
				tt.then(t, before.Pid)
			}
			pid := s.Status("web").Pid
			s.Configure(program())
			if got := reload(s).change("web"); !strings.HasPrefix(got, "applied live "+name) {
				t.Errorf("taken back, web is %q, want %s applied live", got, name)
			}
			s.MustCtl("start", "web")
			if st := s.WaitState("web", "running"); pid != 0 && st.Pid != pid && !strings.HasPrefix(tt.key, "health") {
				t.Errorf("taken back: %v, want pid %d", st, pid)
			}
		})
	}

	restart := []struct {
		key  string
		file string // content of web.env meanwhile
		want string // end of its log
	}{
		{key: `command = ["sh", "-c", "echo another; exec sleep infinity"]`, want: "another\n"},
		{key: `environment = { VALUE = "x" }`, want: "x\n0022\n"},
		{key: `directory = "DIR/elsewhere"`},
		{key: `umask = "077"`, want: "\n0077\n"},
		{key: `limits = { nofile = 100 }`},
		{key: `nice = 1`},
		{key: `oom_score_adj = 1`},
		{key: `inherit_environment = false`},
		{key: `log = { file = "other.log" }`},
		{key: `log = { format = "text" }`},
		{key: `env_file = "web.env"`, want: "first\n0022\n"},
		{key: `env_file = "web.env"`, file: "VALUE=second\n", want: "second\n0022\n"},
	}
	for _, tt := range restart {
		t.Run("restart "+tt.key+tt.file, func(t *testing.T) {
			name, _, _ := strings.Cut(tt.key, " ")
			if tt.file != "" { // the same configuration with another content of the file
				s.Configure(program(tt.key))
				reload(s)
				s.WaitState("web", "running")
				s.Write("web.env", tt.file)
			}
			before := s.WaitState("web", "running").Pid
			s.Configure(program(tt.key))
			dry := reload(s, "--dry-run").change("web")
			if st := s.Status("web"); st.Pid != before {
				t.Errorf("dry run: %v", st)
			}
			if got := reload(s).change("web"); !strings.HasPrefix(got, "restart needed "+name) || !strings.HasSuffix(got, "!") || got != dry {
				t.Errorf("web is %q, by a dry run %q, want that %s takes a restart", got, dry, name)
			}
			st := s.WaitStatus("web", "is another process", func(st harness.Status) bool { return st.State == "running" && st.Pid != before })
			if tt.want != "" {
				harness.Until(t, "it has printed "+tt.want, func() bool { return strings.HasSuffix(s.Log("web"), tt.want) })
			}
			if st.Restarts != 0 {
				t.Errorf("a reload counts as a restart: %v", st)
			}
			if second := reload(s); second.change("web") != "unchanged" || s.Status("web").Pid != st.Pid {
				t.Errorf("the same once more: web is %q, pid %d, was %d", second.change("web"), s.Status("web").Pid, st.Pid)
			}
			s.Configure(program())
			reload(s)
			s.WaitState("web", "running")
		})
	}
}

// TestReloadWithoutDifference: a reload without a difference writes no byte, affects no process and
// records nothing.
func TestReloadWithoutDifference(t *testing.T) {
	t.Parallel()
	const same = `
		[program.web]
		command = ["sleep", "infinity"]
		environment = { A = "1", B = "2" }
		env_file = "web.env"
		health = { exec = "true", interval = "1h" }
		replicas = 2
		[program.done]
		type = "oneshot"
		command = "true"
		[program.later]
		type = "oneshot"
		command = "true"
		schedule = "@every 1h"
		[program.db]
		command = "sleep infinity"
		stop_timeout = "90s"
		`
	s := harness.NewSite(t, same)
	s.Write("web.env", "C=3\n")
	d := s.Start()
	s.WaitState("done", "exited")
	s.WaitState("later", "waiting")
	s.WaitState("web@2", "running")
	s.WaitState("db", "running")
	s.MustCtl("stop", "web@1")
	// A snapshot covers everything that a reload could change.
	snapshot := func() string {
		all := s.All()
		for i := range all { // what changes by itself
			all[i].UptimeS, all[i].CPUS, all[i].RSSBytes, all[i].NextStartInS = nil, nil, nil, nil
		}
		return fmt.Sprintf("%+v\n%s\n%s\n%v", all, s.Read("run/journal"), s.Read("run/events.jsonl"), s.Programs())
	}
	// The effects of the commands above are written soon.
	var before string
	quiet := 0
	harness.Until(t, "everything is written", func() bool {
		now := snapshot()
		if quiet++; now != before {
			before, quiet = now, 0
		}
		return quiet == 20
	})
	for i, config := range []string{
		same,
		"# a comment\n" + same,
		`
		[program.later]
		schedule = "@every 1h"
		command = ["true"]
		type = "oneshot"
		[program.db]
		command = ["sleep", 'infinity']
		stop_timeout = "1m30s" # the same
		restart = "always" # as by default
		[program.done]
		type = "oneshot"
		command = "true"
		[program.web]
		env_file = "DIR/web.env"
		health.interval = "60m"
		health.exec = ["true"]
		replicas = 2
		command = "sleep infinity"
		[program.web.environment]
		B = "2"
		A = "1"
		`,
	} {
		s.Configure(config)
		s.Write("web.env", strings.Repeat("# a comment\n", i)+"C=3\n")
		r := reload(s)
		if len(r.Added)+len(r.Removed)+len(r.Changed)+len(r.Superd) != 0 {
			t.Errorf("reload %d says %+v, want no difference", i, r)
		}
		d.Signal(syscall.SIGHUP)
		d.ErrOut.WaitTimes(t, "configuration reloaded: no change", 2*(i+1))
		if now := snapshot(); now != before {
			t.Fatalf("reload %d has left something:\n%s\nbefore:\n%s", i, now, before)
		}
	}
	// The check itself: a difference shows.
	s.Configure(strings.Replace(same, "90s", "91s", 1))
	reload(s)
	if now := snapshot(); now == before {
		t.Error("another stop_timeout leaves nothing")
	}
}
