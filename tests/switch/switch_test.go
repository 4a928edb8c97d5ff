// Package switchtest runs the same files under other supervisors and, imported, under superd.
//
// make test-switch installs Debian's supervisor, unpacks the units of Debian's daemons, and runs
// this.
package switchtest

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

var (
	enabled = flag.Bool("switch", false, "run the tests, which need Debian's supervisor")
	units   = flag.String("units", "", "directory with the units of Debian's daemons")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

func newSite(t *testing.T) *harness.Site {
	t.Helper()
	if !*enabled {
		t.Skip("make test-switch runs this")
	}
	t.Parallel()
	s := harness.NewSite(t, "")
	s.BuildUI()
	return s
}

// programs of a file for supervisord. DIR is its directory.
const supervisordConf = `
[supervisord]
nodaemon = true
silent = true
logfile = DIR/supervisord.log
pidfile = DIR/supervisord.pid
environment = STAGE="a, b"

[program:last]
command = sh -c 'exec sleep 1000'
priority = 30
[program:first]
command = sh -c 'exec sleep 1000'
priority = 10
[program:middle]
command = sh -c 'exec sleep 1000'
priority = 20

; both streams in one file
[program:merged]
command = sh DIR/write.sh
autorestart = false
startsecs = 0
redirect_stderr = true
stdout_logfile = DIR/merged.log

[program:samefile]
command = sh DIR/write.sh out
autorestart = false
startsecs = 0
stdout_logfile = DIR/samefile.log
stderr_logfile = DIR/samefile.log

[program:separate]
command = sh DIR/write.sh
autorestart = false
startsecs = 0
stdout_logfile = DIR/separate.out
stderr_logfile = DIR/separate.err

[program:console]
command = sh DIR/write.sh
autorestart = false
startsecs = 0
redirect_stderr = true
stdout_logfile = /dev/stdout
stdout_logfile_maxbytes = 0

[program:env]
command = sh -c "env >DIR/env.txt" "%(ENV_STAGE)s"
autorestart = false
startsecs = 0
environment = A="%(ENV_STAGE)s",B='x "y"',PATH="/opt:%(ENV_PATH)s"
directory = /tmp
stdout_logfile = NONE
stderr_logfile = NONE
`

// writer writes to both streams: lines, parts of lines, bytes that are no text.
const writer = `
i=0
while [ $i -lt 300 ]; do
	echo "out $i"
	[ "$1" = out ] || echo "err $i" >&2
	printf 'a part '
	[ "$1" = out ] || printf '\001\033[1m\377\n' >&2
	printf 'of a line \000\r\n'
	i=$((i+1))
done
printf 'no end of line'
`

// outcome is what a supervisor makes of the file.
type outcome struct {
	files  map[string]string
	starts []string
	env    []string
}

// TestSupervisord: the same programs, order of starts, environment, and bytes of output.
func TestSupervisord(t *testing.T) {
	s := newSite(t)
	was := underSupervisord(t, s)
	is := underSuperd(t, s)
	for _, name := range []string{"merged.log", "samefile.log", "separate.out", "separate.err", "console"} {
		if was.files[name] != is.files[name] || was.files[name] == "" {
			t.Errorf("%s has %d bytes under supervisord and %d under superd, or other ones", name,
				len(was.files[name]), len(is.files[name]))
		}
	}
	if !slices.Equal(was.starts, is.starts) || len(was.starts) != 3 {
		t.Errorf("starts: %q under supervisord, %q under superd", was.starts, is.starts)
	}
	if !slices.Equal(was.env, is.env) || len(was.env) < 3 {
		t.Errorf("environment:\n%q under supervisord,\n%q under superd", was.env, is.env)
	}
}

// collect reads what the programs have left in a directory.
func collect(t *testing.T, dir, console string) outcome {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	o := outcome{files: map[string]string{"console": console}}
	for _, name := range []string{"merged.log", "samefile.log", "separate.out", "separate.err"} {
		o.files[name] = read(name)
	}
	for line := range strings.Lines(read("env.txt")) {
		// What the page on supervisord says to differ.
		if !strings.HasPrefix(line, "SUPERVISOR_") && !strings.HasPrefix(line, "SUPERD_") {
			o.env = append(o.env, strings.TrimSpace(line))
		}
	}
	slices.Sort(o.env)
	return o
}

// prepare makes a directory with the file, and returns both.
func prepare(s *harness.Site, name string) (dir, conf string) {
	s.Mkdir(name)
	dir = s.Path(name)
	s.Write(name+"/write.sh", writer)
	conf = s.Write(name+"/supervisord.conf", strings.ReplaceAll(supervisordConf, "DIR", dir))
	return dir, conf
}

func underSupervisord(t *testing.T, s *harness.Site) outcome {
	dir, conf := prepare(s, "was")
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	cmd := exec.Command("/usr/bin/supervisord", "-n", "-c", conf)
	cmd.Env, cmd.Dir = s.Env, "/"
	// A pipe, as of a container: supervisord can't log to a file by /dev/stdout.
	pipe, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = console.ReadFrom(pipe) // what is missing fails the test
	}()
	log := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "supervisord.log"))
		if err != nil {
			return ""
		}
		return string(text)
	}
	harness.Until(t, "supervisord has run the programs", func() bool {
		return strings.Count(log(), "INFO exited: ") >= 5 && strings.Count(log(), "INFO spawned: ") >= 8
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	<-copied
	o := collect(t, dir, s.Read("was/console"))
	o.starts = startsIn(log(), regexp.MustCompile(`spawned: '(\w+)'`))
	return o
}

// startsIn returns the programs that are to start in order, as a log has them.
func startsIn(log string, mark *regexp.Regexp) (names []string) {
	for _, found := range mark.FindAllStringSubmatch(log, -1) {
		if slices.Contains([]string{"first", "middle", "last"}, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

func underSuperd(t *testing.T, s *harness.Site) outcome {
	dir, conf := prepare(s, "is")
	r := s.Run("import", "supervisord", conf, "-o", filepath.Join(dir, "superd.toml"))
	if r.Exit != 0 {
		t.Fatalf("superd import: exit status %d: %s", r.Exit, r.ErrOut)
	}
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	s.Configure(s.Read("is/superd.toml"))
	d := s.Start(func(cmd *exec.Cmd) {
		cmd.Stdout = console
		cmd.Args = append(cmd.Args, "--output", "never")
	})
	for _, name := range []string{"merged", "samefile", "separate", "console", "env"} {
		s.WaitState(name, "exited")
	}
	for _, name := range []string{"first", "middle", "last"} {
		s.WaitState(name, "running")
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("superd ends with status %d", status)
	}
	o := collect(t, dir, s.Read("is/console"))
	o.starts = startsIn(d.ErrOut.String(), regexp.MustCompile(`"program started" instance=(\w+)`))
	return o
}

// TestUnits: superd accepts what it makes of the units of Debian's daemons.
func TestUnits(t *testing.T) {
	s := newSite(t)
	if *units == "" {
		t.Skip("make test-switch unpacks them")
	}
	var services []string
	for _, dir := range []string{"lib/systemd/system", "usr/lib/systemd/system"} {
		found, err := filepath.Glob(filepath.Join(*units, dir, "*.service"))
		if err != nil {
			t.Fatal(err)
		}
		services = append(services, found...)
	}
	if len(services) < 17 {
		t.Fatalf("only %d services in %s", len(services), *units)
	}
	for _, path := range services {
		name := filepath.Base(path)
		instance := strings.Replace(path, "@.service", "@1-main.service", 1)
		r := s.Run("import", "systemd", instance, "-o", s.Path("unit.toml"), "--force")
		if r.Exit != 0 {
			t.Errorf("superd import systemd %s: exit status %d: %s", name, r.Exit, r.ErrOut)
			continue
		}
		if check := s.Run("check", s.Path("unit.toml")); check.Exit != 0 {
			t.Errorf("superd check of %s: %s%s\n%s", name, check.Out, check.ErrOut, s.Read("unit.toml"))
		}
		t.Logf("%s: %d notes", name, strings.Count(r.ErrOut, "\n"))
	}
}
