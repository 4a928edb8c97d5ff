package supervisord

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"superd/importer/draft"
)

var (
	oracle  = flag.Bool("oracle", false, "compare with supervisord itself, which Python has to find")
	mutants = flag.Int("oracle.mutants", 1500, "number of mutated files")
)

// seedFiles are configurations as people write them. What they say is of this test's own making.
var seedFiles = []string{`
[unix_http_server]
file=/run/supervisor.sock   ; the socket
chmod=0700
[supervisord]
logfile=/var/log/supervisord.log ; main log
childlogdir=/var/log/supervisor
environment=LANG="C.UTF-8",STAGE=prod
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix:///run/supervisor.sock
[include]
files = conf.d/*.conf
`, `
[supervisord]
nodaemon=true

; a web application
[program:web]
command=/srv/venv/bin/gunicorn shop.wsgi:application
    --bind=127.0.0.1:80%(process_num)02d
    --workers=3
process_name=%(program_name)s_%(process_num)02d
numprocs=4
numprocs_start=1
directory=/srv/shop
user=www-data
autostart=true
autorestart=unexpected
exitcodes=0,2
startsecs=10
startretries=3
stopsignal=QUIT
stopwaitsecs=30
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile=/var/log/shop/web-%(process_num)d.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=5
environment=PATH="/srv/venv/bin:%(ENV_PATH)s",DJANGO_SETTINGS_MODULE='shop.settings'
priority=100
umask=022

[program:worker]
command=celery -A shop worker -l info -n worker@%%h
stdout_logfile=/dev/stdout
stdout_logfile_maxbytes=0
stderr_logfile=/dev/stderr
stderr_logfile_maxbytes=0
[group:shop]
programs=web,worker
priority=50
`, `
[supervisord]
[program:shell]
command=bash -c "sleep 5 && exec server --a 'b c' ; true"
[program:cron]
command = /usr/sbin/cron -f   # in the foreground
autorestart : true
[fcgi-program:php]
command=/usr/bin/php-cgi
socket=unix:///run/%(program_name)s.sock
socket_owner=www-data:www-data
socket_mode=0770
numprocs=2
process_name=%(program_name)s%(process_num)d
[fcgi-program:tcp]
command=fcgi %(here)s/x
socket=tcp://localhost:9002
socket_backlog=128
[eventlistener:mem]
command=memmon -a 200MB
events=TICK_60,PROCESS_STATE
buffer_size=20
`, `
[DEFAULT]
autorestart=false
user=nobody
[supervisord]
environment=A=1,B="two, three",C='x=y'
[inet_http_server]
port=127.0.0.1:9001
username=u
password={SHA}x
[program:a]
command=env %(ENV_A)s %(ENV_B)s "%(ENV_C)s" %(group_name)s %(host_node_name)s
environment=D=%(ENV_A)s-x,E="%(program_name)s"
[program:a]
startsecs=0

[program: spaced ]
command = true
stdout_logfile=NONE
stderr_logfile=syslog
stdout_syslog=on
`}

// included is conf.d/extra.conf beside each file.
const included = `
[program:extra]
command=%(here)s/run --x
stopsignal=2
[program:web]
stopwaitsecs=7
`

// fragments are what mutations put into lines.
var fragments = []string{" ;", ";", " #", "#", `"`, "'", "\\", "%", "%%", "%(here)s", "%(ENV_PATH)s",
	"%(ENV_NONE)s", "%(program_name)s", "%(process_num)d", "%(process_num)03d", "%(process_num)s",
	"%(numprocs)d", "%(x)s", "%(here", "=", ":", ",", " ", "\t", "  ", "[", "]", "[program:x]", "0", "-1",
	"true", "Yes", "none", "AUTO", "1_000", "10KB", "1gb", "0o17", "é", " ", "\u00a0", "USR1", "SIGINT", "RTMIN",
	"command=x", "\n", "\n    ", "\r\n", "\n; comment\n", "\n\n  more\n", "numprocs=0", "numprocs=2"}

// mutate returns a file with some lines changed.
func mutate(rng *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for range 1 + rng.IntN(2) {
		i := rng.IntN(len(lines))
		switch rng.IntN(8) {
		case 0: // remove a line
			lines = slices.Delete(lines, i, i+1)
			if len(lines) == 0 {
				return ""
			}
		case 1: // repeat one elsewhere
			lines = slices.Insert(lines, rng.IntN(len(lines)), lines[i])
		case 2: // indent it
			lines[i] = strings.Repeat(" ", 1+rng.IntN(4)) + lines[i]
		case 3: // write its key in capitals
			key, value, _ := strings.Cut(lines[i], "=")
			lines[i] = strings.ToUpper(key) + "=" + value
		case 4: // give it another value
			key, _, ok := strings.Cut(lines[i], "=")
			if ok {
				lines[i] = key + "=" + fragments[rng.IntN(len(fragments))] + "\n"
			}
		default: // put something into it
			at := rng.IntN(len(lines[i]) + 1)
			lines[i] = lines[i][:at] + fragments[rng.IntN(len(fragments))] + lines[i][at:]
		}
	}
	return strings.Join(lines, "")
}

// TestOracle compares what supervisord and the importer read in real and mutated files.
// make test-switch installs Debian's supervisor and runs this.
func TestOracle(t *testing.T) {
	if !*oracle {
		t.Skip("make test-switch runs this")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	texts := slices.Clone(seedFiles)
	for _, path := range []string{"/etc/supervisor/supervisord.conf",
		"/usr/lib/python3/dist-packages/supervisor/skel/sample.conf"} {
		if text, err := os.ReadFile(path); err == nil {
			texts = append(texts, string(text))
		}
	}
	for i := range *mutants {
		texts = append(texts, mutate(rng, texts[i%len(seedFiles)]))
	}
	dir := t.TempDir()
	var paths []string
	for i, text := range texts {
		site := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Join(site, "conf.d"), 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(site, "supervisord.conf")
		paths = append(paths, path)
		for name, text := range map[string]string{path: text, filepath.Join(site, "conf.d/extra.conf"): included} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	script, err := filepath.Abs("testdata/oracle.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", script)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8", "PYTHONPATH=" + os.Getenv("PYTHONPATH")}
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\n") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	lines.Buffer(nil, 64<<20)
	system := draft.Machine()
	env := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
	system.Getenv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	system.Hostname = func() string { return "host1" }
	accepted, refused := 0, 0
	for _, path := range paths {
		if !lines.Scan() {
			t.Fatalf("supervisord says nothing of %s", path)
		}
		var want struct {
			Error     string
			Processes []map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		got, err := described(system, path)
		text, _ := os.ReadFile(path)
		switch {
		case (err != nil) != (want.Error != ""):
			t.Errorf("supervisord: %q, importer: %v, of\n%s", want.Error, err, text)
		case err != nil:
			refused++
		case !reflect.DeepEqual(got, want.Processes) && len(got)+len(want.Processes) > 0:
			t.Errorf("supervisord has\n%s\nimporter\n%s\nof\n%s", show(want.Processes), show(got), text)
		default:
			accepted++
		}
	}
	t.Logf("%d files, of which supervisord accepts %d and refuses %d", len(paths), accepted, refused)
}

func show(processes []map[string]any) string {
	text, _ := json.Marshal(processes)
	return string(text)
}

// described returns the processes of a file as oracle.py describes them.
func described(system draft.System, path string) (all []map[string]any, err error) {
	r, err := load(system, path)
	if err != nil {
		return nil, err
	}
	if err := r.globals(); err != nil {
		return nil, err
	}
	groups, err := r.groups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		for _, p := range g.processes {
			var argv []string
			if words, err := splitCommand(p.Command); err == nil {
				argv = []string{}
				for _, w := range words {
					argv = append(argv, w.text)
				}
			}
			described := map[string]any{
				"group": g.name, "group_priority": g.priority, "name": p.Name,
				"command": p.Command, "argv": argv, "directory": p.Directory,
				"umask": p.Umask, "priority": p.Priority,
				"autostart": p.Autostart, "autorestart": p.Autorestart, "startsecs": p.Startsecs,
				"startretries": p.Startretries, "user": p.User,
				"stdout_logfile": p.StdoutLogfile, "stderr_logfile": p.StderrLogfile,
				"stdout_backups": p.StdoutBackups, "stderr_backups": p.StderrBackups,
				"stdout_maxbytes": p.StdoutMaxbytes, "stderr_maxbytes": p.StderrMaxbytes,
				"stdout_syslog": p.StdoutSyslog, "stderr_syslog": p.StderrSyslog,
				"stopsignal": p.Stopsignal, "stopwaitsecs": p.Stopwaitsecs,
				"stopasgroup": p.Stopasgroup, "killasgroup": p.Killasgroup,
				"exitcodes": p.Exitcodes, "redirect_stderr": p.RedirectStderr,
				"environment": p.Environment,
			}
			if len(p.Environment) == 0 {
				described["environment"] = nil
			}
			text, err := json.Marshal(described)
			if err != nil {
				return nil, err
			}
			var plain map[string]any // with the types of JSON
			if err := json.Unmarshal(text, &plain); err != nil {
				return nil, err
			}
			all = append(all, plain)
		}
	}
	return all, nil
}
