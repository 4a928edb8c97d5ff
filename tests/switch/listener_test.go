package switchtest

import (
	"fmt"
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
	was, is := underBoth(t, s, conf, func(name string) map[string][]string { return eventsOf(t, s, name) })
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

// underBoth calls f while supervisord has the file that conf makes for the directory "was", and
// then while superd has an import of the one for "is". It returns both results.
func underBoth[T any](t *testing.T, s *harness.Site, conf func(name string) string, f func(name string) T) (was, is T) {
	t.Helper()
	cmd := exec.Command("/usr/bin/supervisord", "-n", "-c", conf("was"))
	cmd.Env, cmd.Dir = s.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	was = f("was")
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
	return was, f("is")
}

// poolConf has a listener with two processes. DIR is its directory.
const poolConf = `
[unix_http_server]
file = DIR/supervisor.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisord]
nodaemon = true
silent = true
logfile = DIR/supervisord.log
pidfile = DIR/supervisord.pid

[eventlistener:pool]
command = /usr/bin/python3 DIR/listen.py DIR
process_name = %(program_name)s_%(process_num)02d
numprocs = 2
events = PROCESS_STATE_STOPPED
buffer_size = 3
startsecs = 0
stderr_logfile = DIR/listener.err

[program:x]
command = sleep 1000
process_name = %(process_num)d
numprocs = 10
startsecs = 0
`

// poolScript is a process of a pool. It holds the first event until the file go is there, ends when
// it first gets the third one, and rejects the fourth one once.
const poolScript = `
import os, sys, time
from supervisor import childutils
def once(name):
    try:
        os.mkdir(sys.argv[1] + '/' + name)
        return True
    except FileExistsError:
        return False
def note(*what):
    with open(sys.argv[1] + '/events.txt', 'a') as out:
        print(*what, file=out)
me = os.environ['SUPERVISOR_PROCESS_NAME']
while True:
    headers, payload = childutils.listener.wait(sys.stdin, sys.stdout)
    serial = headers['poolserial']
    note(me, headers['pool'], serial)
    if serial == '0':
        while not os.path.exists(sys.argv[1] + '/go'):
            time.sleep(0.01)
    if serial == '2' and once('ended'):
        sys.exit(7)
    if serial == '3' and once('rejected'):
        childutils.listener.fail(sys.stdout)
        continue
    if serial == '4': # the others wait longer than the buffer is
        while not os.path.exists(sys.argv[1] + '/further'):
            time.sleep(0.01)
    note(me, 'answers', serial)
    childutils.listener.ok(sys.stdout)
`

// TestListenerPool: each event goes to one process of a pool under both, comes again if that ends
// or rejects it, and is dropped if it waits in a full buffer.
func TestListenerPool(t *testing.T) {
	s := newSite(t)
	conf := func(name string) string {
		s.Mkdir(name)
		s.Write(name+"/listen.py", poolScript)
		return s.Write(name+"/supervisord.conf", strings.ReplaceAll(poolConf, "DIR", s.Path(name)))
	}
	was, is := underBoth(t, s, conf, func(name string) []string {
		text := func(file string) string {
			text, err := os.ReadFile(s.Path(name + "/" + file))
			if err != nil {
				return ""
			}
			return string(text)
		}
		wait := func(part string) {
			t.Helper()
			harness.Until(t, "a process of the pool has "+part, func() bool { return strings.Contains(text("events.txt"), part) })
		}
		stop := func(number int) {
			t.Helper()
			process := fmt.Sprintf("x:%d", number)
			if name == "is" {
				process = fmt.Sprintf("x:x_%02d", number)
			}
			out := ""
			harness.Until(t, process+" is stopped", func() bool { // and before, that it is up
				cmd := exec.CommandContext(t.Context(), "/usr/bin/supervisorctl", "-s",
					"unix://"+s.Path(name+"/supervisor.sock"), "stop", process)
				cmd.Env = s.Env
				text, _ := cmd.CombinedOutput() // what it says counts
				out = string(text)
				return strings.Contains(out, ": stopped")
			})
		}
		for i := range 4 {
			stop(i)
		}
		wait("answers 3")
		stop(4)
		wait("pool 4")
		for i := 5; i < 9; i++ { // the buffer has room for three
			stop(i)
		}
		harness.Until(t, "an event is dropped", func() bool {
			return strings.Contains(text("supervisord.log"), "event buffer overflowed") ||
				strings.Contains(text("listener.err"), "the oldest event is dropped")
		})
		s.Write(name+"/further", "")
		wait("answers 8")
		s.Write(name+"/go", "")
		wait("answers 0")
		var all []string
		holds := ""
		for line := range strings.Lines(text("events.txt")) {
			line = strings.TrimSpace(line)
			process, what, _ := strings.Cut(line, " ")
			if what == "pool 0" {
				holds = process
			}
			all = append(all, line)
		}
		for i := range all { // which process was ready first is chance
			process, what, _ := strings.Cut(all[i], " ")
			all[i] = map[bool]string{true: "first ", false: "second "}[process == holds] + what
		}
		slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(a[:5], b[:5]) })
		return all
	})
	if !slices.Equal(was, is) {
		t.Errorf("under supervisord\n%s\nunder superd\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
	}
	t.Log(strings.Join(was, ", "))
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
