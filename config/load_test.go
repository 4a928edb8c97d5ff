package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/config/codec"
	"superd/config/filewatch"
	"superd/internal/rlimit"
)

// mustLoad loads text as /etc/superd/superd.toml, and fails if it has a mistake.
func mustLoad(t *testing.T, text string) *Config {
	t.Helper()
	c, err := load("superd.toml", memory(map[string]string{"superd.toml": text}))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.Errors {
		t.Fatal(e)
	}
	return c
}

// program loads a configuration of one program.
func program(t *testing.T, text string) *Program {
	t.Helper()
	return mustLoad(t, text).Programs[0]
}

func TestDefaults(t *testing.T) {
	got := program(t, `program.web.command = "/usr/bin/web -x"`)
	want := &Program{
		Name:    "web",
		Command: []string{"/usr/bin/web", "-x"},
		File:    "superd.toml",
		Line:    1,
		Settings: &Settings{
			Directory:          "/etc/superd",
			InheritEnvironment: true,
			Replicas:           1,
			Type:               TypeService,
			ScheduleMissed:     MissedOnce,
			Autostart:          true,
			Restart:            RestartAlways,
			SuccessExitCodes:   []int{0},
			Backoff:            Backoff{100 * time.Millisecond, time.Minute, 2, 0.1, 10 * time.Second},
			StartLimit:         StartLimit{0, time.Minute, 10 * time.Minute},
			StartTimeout:       30 * time.Second,
			StopSignal:         syscall.SIGTERM,
			StopTimeout:        10 * time.Second,
			KillMode:           KillMainFirst,
			Log:                Log{Format: LogRaw, MaxSize: 10_000_000, Keep: 10, Stderr: StderrMerge, Overflow: OverflowBlock, Sink: SinkFile, Facility: "daemon"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("load gives\n%+v\nwant\n%+v", got, want)
	}
}

func TestEachKeyReachesItsField(t *testing.T) {
	c := mustLoad(t, `
[superd]
runtime_dir = "run"
log_dir = "/var/log/x/"
[program.db]
command = "db"
[program.web]
command = ["web", "a b"]
directory = "srv/../www"
environment = { PORT = "8080" }
env_file = "web.env"
inherit_environment = false
user = "www-data"
groups = ["frontend"]
supplementary_groups = ["x"]
umask = 0o027
autostart = false
restart = "never"
success_exit_codes = [3, 0, 3]
backoff = { initial = "1s", max = "2s", factor = 3, jitter = 0, reset_after = "0s" }
start_limit = { failures = 4, within = "5s", retry_after = "6s" }
start_timeout = "7s"
stop_signal = "int"
stop_timeout = "0s"
kill_mode = "group"
log = { file = "x/../web.txt", max_size = "1KiB", keep = 8 }
limits = { nofile = 1, core = 0 }
`)
	if got, want := c.Superd, (Superd{RuntimeDir: "/etc/superd/run", LogDir: "/var/log/x", ExitWhen: ExitNever}); got != want {
		t.Errorf("superd = %+v, want %+v", got, want)
	}
	if len(c.Errors) > 0 {
		t.Errorf("errors: %v", c.Errors)
	}
	got := c.Programs[1]
	mask := uint32(0o027)
	want := &Program{
		Name:        "web",
		Command:     []string{"web", "a b"},
		Environment: map[string]string{"PORT": "8080"},
		File:        "superd.toml",
		Line:        7,
		Settings: &Settings{
			Directory:           "/etc/superd/www",
			EnvFiles:            []codec.EnvFile{{Path: "/etc/superd/web.env"}},
			Groups:              []string{"frontend"},
			User:                "www-data",
			SupplementaryGroups: []string{"x"},
			Umask:               &mask,
			Limits:              Limits{Rlimits: rlimit.Limits{{Resource: rlimit.Core}, {Resource: rlimit.NoFile, Soft: 1, Hard: 1}}},
			Replicas:            1,
			Type:                TypeService,
			ScheduleMissed:      MissedOnce,
			Restart:             RestartNever,
			SuccessExitCodes:    []int{0, 3},
			Backoff:             Backoff{time.Second, 2 * time.Second, 3, 0, 0},
			StartLimit:          StartLimit{4, 5 * time.Second, 6 * time.Second},
			StartTimeout:        7 * time.Second,
			StopSignal:          syscall.SIGINT,
			KillMode:            KillGroup,
			Log:                 Log{File: "web.txt", Format: LogRaw, MaxSize: 1024, Keep: 8, Stderr: StderrMerge, Overflow: OverflowBlock, Sink: SinkFile, Facility: "daemon"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("load gives\n%+v\nwant\n%+v", got, want)
	}
}

func TestMoreKeysReachTheirFields(t *testing.T) {
	all := mustLoad(t, `
[program.db]
command = "db"
[program.web]
command = "web"
replicas = 2
essential = true
requires = ["db"]
after = ["db"]
ready = { exec = "check it", interval = "3s", timeout = "4s" }
health = { http = "http://127.0.0.1/", failures = 5, action = "none" }
watchdog = "6s"
pre_start = [["a", "b"], "c d"]
post_stop = [["e"]]
log = { compress = true, stderr = "label", format = "text", overflow = "drop" }
limits = { memory = "1KB", cpu = 0.5, tasks = 2 }
rolling = { surge = 0, max_unavailable = 1, pause = "7s", abort_on_failure = false, wait_timeout = "9s" }
drain_timeout = "8s"
watch = { ignore = ["*.log"], debounce = "1s", signal = "HUP" }
[program.zap]
command = "zap"
type = "oneshot"
schedule = "@every 5m"
schedule_jitter = "6s"
schedule_missed = "skip"
`)
	zap, p := all.Programs[2], all.Programs[1]
	if zap.Type != TypeOneshot || zap.Schedule != "@every 5m" || zap.ScheduleJitter != 6*time.Second || zap.ScheduleMissed != MissedSkip || len(zap.Invalid) > 0 {
		t.Errorf("load gives %+v, want a one-shot that runs every 5 minutes", zap)
	}
	memory, cpu, tasks := int64(1000), 0.5, int64(2)
	want := p.Clone()
	want.Replicas = 2
	want.Essential, want.Watchdog = true, 6*time.Second
	want.Requires, want.After = []string{"db"}, []string{"db"}
	want.Ready = &Ready{Exec: []string{"check", "it"}, Interval: 3 * time.Second, Timeout: 4 * time.Second}
	want.Health = &Health{HTTP: "http://127.0.0.1/", Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 5, Action: HealthNone}
	want.PreStart, want.PostStop = [][]string{{"a", "b"}, {"c", "d"}}, [][]string{{"e"}}
	want.Log.Compress, want.Log.Stderr, want.Log.Format, want.Log.Overflow = CompressGzip, StderrLabel, LogText, OverflowDrop
	want.Rolling, want.DrainTimeout = &Rolling{MaxUnavailable: 1, Pause: 7 * time.Second, WaitTimeout: 9 * time.Second}, 8*time.Second
	want.Watch = &filewatch.Settings{Paths: []string{p.Directory}, Ignore: []string{"*.log"}, Debounce: time.Second, Signal: syscall.SIGHUP}
	want.Log.File = "" // each instance has its own
	want.Limits = Limits{Memory: &memory, CPU: &cpu, Tasks: &tasks}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("load gives\n%+v\nwant\n%+v", *p, want)
	}
	if len(p.Invalid) > 0 {
		t.Errorf("refused: %v", p.Invalid)
	}
	if got, want := p.LogPath("/log", p.Instances()[1]), "/log/web@2.log"; got != want {
		t.Errorf("log path of the second instance = %s, want %s", got, want)
	}
}

func TestSupplementaryGroupsMayBeNone(t *testing.T) {
	for text, want := range map[string][]string{
		`program.a = { command = "x" }`:                            nil,
		`program.a = { command = "x", supplementary_groups = [] }`: {},
	} {
		if got := program(t, text).SupplementaryGroups; !reflect.DeepEqual(got, want) {
			t.Errorf("groups of %s = %#v, want %#v", text, got, want)
		}
	}
}

func TestDefaultsTable(t *testing.T) {
	c := mustLoad(t, `
[defaults]
command = "all"
environment = { A = "1", B = "1" }
backoff = { initial = "1s", max = "2s" }
groups = ["g"]
ready = { tcp = "x:1", interval = "9s" }
[program.a]
[program.b]
environment = { B = "2" }
backoff.max = "3s"
groups = []
ready.notify = true
[program.c]
ready = { notify = false }
`)
	a, b, p := c.Programs[0], c.Programs[1], c.Programs[2]
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"a's environment", a.Environment, map[string]string{"A": "1", "B": "1"}},
		{"b's environment is joined", b.Environment, map[string]string{"A": "1", "B": "2"}},
		{"a's backoff", a.Backoff.Max, 2 * time.Second},
		{"b's backoff is joined", b.Backoff.Initial, time.Second},
		{"b's backoff is its own", b.Backoff.Max, 3 * time.Second},
		{"a's groups", a.Groups, []string{"g"}},
		{"b's groups are its own", b.Groups, []string(nil)},
		{"a's readiness", a.Ready, &Ready{TCP: "x:1", Interval: 9 * time.Second, Timeout: 2 * time.Second}},
		{"b's readiness is its own", b.Ready, &Ready{Notify: true, Interval: 9 * time.Second, Timeout: 2 * time.Second}},
		{"c's readiness is switched off", p.Ready, (*Ready)(nil)},
		{"a's command", a.Command, []string{"all"}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s = %+v, want %+v", tt.what, tt.got, tt.want)
		}
	}
}

func TestLoadReadsRealFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := write("superd[1].toml", "include = [\"conf.d/*.toml\", \"*.toml\"]\n[program.web]\ncommand = \"sh\"\n")
	b := write("conf.d/b.toml", "[program.b]\ncommand = \"sh\"\ndirectory = \"sub\"\nenv_file = \"b.env\"\n")
	a := write("conf.d/a.toml", "[program.a]\ncommand = \"sh\"\n")
	write("conf.d/b.env", "A=1\n")
	if err := os.Mkdir(filepath.Join(dir, "conf.d/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Examine(main)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{main, a, b}; !reflect.DeepEqual(c.Files, want) {
		t.Errorf("files = %q, want %q", c.Files, want)
	}
	if got, want := c.Programs[1].Directory, filepath.Join(dir, "conf.d/sub"); got != want {
		t.Errorf("directory = %s, want %s: relative to the included file", got, want)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}

	t.Chdir(dir)
	c, err = Load("superd[1].toml")
	if err != nil || len(c.Files) != 3 || c.Files[1] != "conf.d/a.toml" {
		t.Errorf("relative load reads %q, %v", c.Files, err)
	}
}

func TestLoadOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 16<<20+1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, want string
		is         error
	}{
		{filepath.Join(dir, "none.toml"), ": read configuration: no such file or directory: name another file, or correct this one", fs.ErrNotExist},
		{dir, ": read configuration: is a directory: name another file, or correct this one", syscall.EISDIR},
		{big, ": read configuration: larger than 16 MiB: name another file, or correct this one", nil},
	} {
		_, err := Load(tt.path)
		if err == nil || err.Error() != tt.path+tt.want || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("Load(%s) = %v, want %s%s", tt.path, err, tt.path, tt.want)
		}
	}
}

// chain returns a configuration of n programs of which each requires the next, and the last one
// last.
func chain(n int, last string) string {
	var b strings.Builder
	for i := range n {
		next := last
		if i+1 < n {
			next = fmt.Sprintf("p%05d", i+1)
		}
		fmt.Fprintf(&b, "[program.p%05d]\ncommand = \"x\"\nrequires = [%q]\nenvironment = { A = \"1\" }\n", i, next)
	}
	return b.String()
}

func TestLongChainOfRequirements(t *testing.T) {
	const n = 10_000
	started := time.Now()
	files := map[string]string{"superd.toml": chain(n, "p00000")}
	c, err := load("superd.toml", memory(files))
	if err != nil {
		t.Fatal(err)
	}
	cycles := c.Errors
	const want = "superd.toml:3:13: program.p00000.requires: circular dependency: " +
		"p00000 -> p00001 -> p00002 -> p00003 -> … 9992 more … -> p09996 -> p09997 -> p09998 -> p09999 -> p00000: remove one of these"
	if len(cycles) != 1 || cycles[0].Error() != want {
		t.Errorf("errors = %.1000v\nwant %s", cycles, want)
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("load takes %v", took)
	}
}

func TestManyMistakesEndInTime(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "[program.p%d]\ncommand = \"x\"\nrequires = [\"q%d\", \"q\", \"r\"]\nafter=[\"p%d\", \"p%d\"]\n", i, i, (i+1)%1000, (i+7)%1000)
	}
	started := time.Now()
	c, err := load("superd.toml", memory(map[string]string{"superd.toml": b.String()}))
	if err != nil || len(c.Errors) < 3000 {
		t.Fatalf("%d errors, %v", len(c.Errors), err)
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("load takes %v", took)
	}
}

func BenchmarkLoad1000Programs(b *testing.B) {
	files := map[string]string{"superd.toml": chain(1000, "")}
	for b.Loop() {
		if _, err := load("superd.toml", memory(files)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestManyDependencies: however many cycles there are, no program of one may run; a chain of any
// length is not a cycle.
func TestManyDependencies(t *testing.T) {
	t.Parallel()
	const pairs, links = 300, 10_000
	var text strings.Builder
	for i := range pairs {
		fmt.Fprintf(&text, "[program.a%d]\ncommand = 'x'\nrequires = ['b%d']\n[program.b%d]\ncommand = 'x'\nafter = ['a%d']\n", i, i, i, i)
	}
	for i := range links {
		fmt.Fprintf(&text, "[program.p%d]\ncommand = 'x'\n", i)
		if i > 0 {
			fmt.Fprintf(&text, "requires = ['p%d']\n", i-1)
		}
	}
	path := filepath.Join(t.TempDir(), "superd.toml")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Programs {
		if inChain := p.Name[0] == 'p'; inChain && len(p.Invalid) > 0 {
			t.Fatalf("%s: %v; a chain is sound", p.Name, p.Invalid)
		} else if p.Name[0] == 'a' && len(p.Invalid) == 0 && len(c.Program("b"+p.Name[1:]).Invalid) == 0 {
			t.Errorf("%s and its partner wait for each other and may run", p.Name)
		}
	}
	if got := len(c.Errors); got != pairs {
		t.Errorf("%d mistakes, want one for each of %d cycles", got, pairs)
	}
}

func TestRelativeAddressOfASink(t *testing.T) {
	c, err := load("superd.toml", memory(map[string]string{"superd.toml": `include = ["conf.d/*"]`, "conf.d/web.toml": `
		[program.web]
		command = "x"
		log = { sink = "journald", address = "../j.sock" }
		`}))
	if err != nil || len(c.Errors) > 0 {
		t.Fatal(err, c.Errors)
	}
	if got, want := c.Program("web").Log.Address, "/etc/superd/j.sock"; got != want {
		t.Errorf("address is %q, want %q", got, want)
	}
}
