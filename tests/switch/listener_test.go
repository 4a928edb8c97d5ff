package switchtest

import (
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

// listenerConf has a listener that is written with supervisor.childutils. DIR is its directory.
const listenerConf = `
[unix_http_server]
file = DIR/supervisor.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisord]
nodaemon = true
silent = true
logfile = DIR/supervisord.log
pidfile = DIR/supervisord.pid

[eventlistener:watch]
command = /usr/bin/python3 DIR/listen.py DIR/events.txt
events = PROCESS_STATE,PROCESS_LOG,PROCESS_COMMUNICATION,REMOTE_COMMUNICATION,TICK_5,SUPERVISOR_STATE_CHANGE
buffer_size = 100
stderr_logfile = DIR/listener.err

[program:lives]
command = sleep 1000
startsecs = 0
[program:ends]
command = true
autorestart = false
startsecs = 0
[program:fails]
command = sh -c 'exit 3'
autorestart = false
startsecs = 0
[program:again]
command = sh -c 'test -e DIR/ran && exec sleep 1000; touch DIR/ran; exit 2'
startsecs = 0
[program:says]
command = sh -c 'echo one; exec sleep 1000'
startsecs = 0
autostart = false
stdout_events_enabled = true
[program:talks]
command = sh -c 'echo "<!--XSUPERVISOR:BEGIN-->hello<!--XSUPERVISOR:END-->"; exec sleep 1000'
startsecs = 0
autostart = false
stdout_capture_maxbytes = 1KB
`

// listenScript writes each event to a file, a line each, and what supervisord answers to it. It
// rejects the first event.
const listenScript = `
import os, sys
from supervisor import childutils
rpc = childutils.getRPCInterface(os.environ)
rejects = True
while True:
    headers, payload = childutils.listener.wait(sys.stdin, sys.stdout)
    with open(sys.argv[1], 'a') as out:
        out.write('%s %s %s\n' % (headers['eventname'], payload.replace('\n', '|'), rpc.supervisor.getState()['statename']))
    if rejects:
        childutils.listener.fail(sys.stdout)
    else:
        childutils.listener.ok(sys.stdout)
    rejects = False
`

// remoteScript is a client that sends an event.
const remoteScript = `
import sys
from supervisor import childutils
childutils.getRPCInterface({'SUPERVISOR_SERVER_URL': sys.argv[1]}).supervisor.sendRemoteCommEvent('kind', 'some data')
`

// TestListener: a listener gets the same events about each process under both.
func TestListener(t *testing.T) {
	s := newSite(t)
	conf := func(name string) string {
		s.Mkdir(name)
		s.Write(name+"/listen.py", listenScript)
		s.Write(name+"/remote.py", remoteScript)
		return s.Write(name+"/supervisord.conf", strings.ReplaceAll(listenerConf, "DIR", s.Path(name)))
	}
	cmd := exec.Command("/usr/bin/supervisord", "-n", "-c", conf("was"))
	cmd.Env, cmd.Dir = s.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	was := eventsOf(t, s, "was")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}

	r := s.Run("import", "supervisord", conf("is"), "-o", s.Path("is/superd.toml"))
	if r.Exit != 0 {
		t.Fatalf("superd import: exit status %d: %s", r.Exit, r.ErrOut)
	}
	s.Configure(s.Read("is/superd.toml"))
	s.Start()
	is := eventsOf(t, s, "is")
	for name, events := range was {
		if !slices.Equal(events, is[name]) {
			t.Errorf("%s: under supervisord\n%s\nunder superd\n%s", name, strings.Join(events, "\n"), strings.Join(is[name], "\n"))
		}
		t.Logf("%s: %s", name, strings.Join(events, ", "))
	}
	if len(was) < 7 || len(was) != len(is) {
		t.Errorf("events about %d processes under supervisord and %d under superd", len(was), len(is))
	}
}

// Parts of events that differ between runs.
var (
	pidOf     = regexp.MustCompile(`pid:\d+`)
	processOf = regexp.MustCompile(`processname:(\w+)`)
)

// eventsOf starts and stops programs below a supervisord or superd, and returns the events that its
// listener has got, by process. Those without a process are below "".
func eventsOf(t *testing.T, s *harness.Site, name string) map[string][]string {
	t.Helper()
	url := "unix://" + s.Path(name+"/supervisor.sock")
	events := func() string {
		text, err := os.ReadFile(filepath.Join(s.Path(name), "events.txt"))
		if err != nil {
			return ""
		}
		return string(text)
	}
	wait := func(parts ...string) {
		t.Helper()
		harness.Until(t, "the listener gets "+strings.Join(parts, ", "), func() bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(events(), part) })
		})
	}
	run := func(command string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command, args...)
		cmd.Env = s.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", command, args, err, out)
		}
	}
	wait("processname:lives groupname:lives from_state:STARTING", "processname:ends groupname:ends from_state:RUNNING",
		"processname:fails groupname:fails from_state:RUNNING", "processname:again groupname:again from_state:EXITED", "TICK_5")
	run("/usr/bin/supervisorctl", "-s", url, "stop", "lives")
	run("/usr/bin/supervisorctl", "-s", url, "start", "lives", "says", "talks")
	wait("PROCESS_LOG_STDOUT", "PROCESS_COMMUNICATION_STDOUT")
	run("/usr/bin/python3", s.Path(name+"/remote.py"), url)
	wait("REMOTE_COMMUNICATION")

	byProcess := map[string][]string{}
	for line := range strings.Lines(events()) {
		line = pidOf.ReplaceAllString(strings.TrimSpace(line), "pid:N")
		process := ""
		if found := processOf.FindStringSubmatch(line); found != nil {
			process = found[1]
		}
		if strings.HasPrefix(line, "TICK_5 ") {
			continue
		}
		byProcess[process] = append(byProcess[process], line)
	}
	return byProcess
}
