package tests

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// listener answers events as a listener of supervisord, and writes them to standard error. It
// rejects the first one.
const listener = `
answer='RESULT 4
FAIL'
while echo READY && read -r header; do
	payload=$(head -c "${header##*len:}")
	echo "$SUPERVISOR_PROCESS_NAME got $header, $payload;" >&2
	printf '%s' "$answer"
	answer='RESULT 2
OK'
done
`

const listenerPrograms = `
[compat]
supervisor_socket = "DIR/supervisor.sock"
[program.web]
command = "sleep infinity"
groups = ["site"]
[program.listener]
command = "superd eventlistener --buffer 100 --events PROCESS_STATE,PROCESS_GROUP,REMOTE_COMMUNICATION -- sh DIR/listener.sh"
environment = { SUPERVISOR_SERVER_URL = "unix://DIR/supervisor.sock" }
[program.bad]
command = ["superd", "eventlistener", "--events", "TICK_5", "--", "sh", "-c", "echo hello; exec sleep infinity"]
[program.reads]
command = "superd eventlistener --events PROCESS_LOG,PROCESS_COMMUNICATION --output-of prints --messages-of prints -- sh DIR/listener.sh"
[program.prints]
command = ["sh", "-c", "while read x; do echo 'a<!--XSUPERVISOR:BEGIN-->b<!--XSUPERVISOR:END-->c'; done <DIR/steps"]
`

// TestEventListener: a listener of supervisord gets the events, in order, each until it accepts it,
// across a kill of superd and its own restarts.
func TestEventListener(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, listenerPrograms)
	s.Write("listener.sh", listener)
	step := s.Steps("steps")
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	log := s.WaitLog("listener", "serial:1 ")
	first, _, _ := strings.Cut(log, ";\n")
	if !strings.HasPrefix(first, "listener got ver:3.0 server:superd serial:0 pool:listener poolserial:0 eventname:PROCESS_STATE_STARTING") ||
		strings.Count(log, first) != 2 {
		t.Errorf("the first event is not sent again, as it was rejected:\n%s", log)
	}
	s.WaitLog("listener", "processname:web groupname:site from_state:STARTING pid:"+strconv.Itoa(web))
	pid := s.Status("listener").Pid

	s.Kill(d.Pid, syscall.SIGKILL)
	harness.Until(t, "the successor answers", func() bool { return s.Ctl("version").Exit == 0 })
	s.Kill(web, syscall.SIGKILL)
	s.WaitLog("listener", "processname:web groupname:site from_state:RUNNING expected:0 pid:"+strconv.Itoa(web))
	harness.Until(t, "a listener gets what a client sends", func() bool {
		_, err := callSupervisor(s.Path("supervisor.sock"), "supervisor.sendRemoteCommEvent", "kind", "data")
		return err == nil && strings.Contains(s.Log("listener"), "type:kind\ndata;")
	})
	s.Configure(listenerPrograms + "[program.more]\ncommand = 'sleep infinity'\ngroups = ['others']\n")
	s.MustCtl("reload")
	s.WaitLog("listener", "groupname:others;")
	s.WaitState("more", "running")
	if now := s.Status("listener").Pid; now != pid {
		t.Errorf("the listener has pid %d, had %d", now, pid)
	}

	s.MustCtl("stop", "listener")
	s.MustCtl("stop", "more")
	s.MustCtl("start", "listener")
	s.WaitLog("listener", "processname:more groupname:others from_state:STOPPING")

	harness.Until(t, "a listener gets the output", func() bool {
		step("x") // what came before it listened is not sent
		log := s.Log("reads")
		return strings.Contains(log, "channel:stdout\na<!--XSUPERVISOR:BEGIN-->b") && strings.Contains(log, "\nb;")
	})
	s.WaitLog("bad", `end event listener: it wrote "hello\n" where READY was due`)
}

// poolListener answers events as a listener of supervisord. That of a is answered when the file go
// is there, and that of c ends the process which first gets it.
const poolListener = `
while echo READY && read -r header; do
	payload=$(head -c "${header##*len:}")
	name=${payload#processname:}
	name=${name%% *}
	echo "$SUPERVISOR_PROCESS_NAME $name;" >&2
	while [ $name = a ] && ! [ -e DIR/go ]; do sleep 0.01; done
	[ $name != c ] || ! mkdir DIR/ended 2>/dev/null || exit 7
	printf 'RESULT 2\nOK'
	echo "$SUPERVISOR_PROCESS_NAME answers $name;" >&2
done
`

// TestEventListenerPool: each event goes to one process of a pool, and is sent again if that ends
// before it has answered.
func TestEventListenerPool(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
[program.pool]
command = "superd eventlistener --processes 2 --events PROCESS_STATE_STOPPED -- sh DIR/listener.sh"
[program.a]
command = "sleep infinity"
[program.b]
command = "sleep infinity"
[program.c]
command = "sleep infinity"
[program.d]
command = "sleep infinity"
`)
	s.Write("listener.sh", strings.ReplaceAll(poolListener, "DIR", s.Dir))
	s.Start()
	for _, name := range []string{"a", "b", "c", "d"} {
		s.WaitState(name, "running")
		s.MustCtl("stop", name)
	}
	s.WaitLog("pool", " answers d;")
	s.Write("go", "")
	log := s.WaitLog("pool", " answers a;")
	holds, other := "pool_00", "pool_01"
	if strings.HasPrefix(log, other+" a;") || strings.Contains(log, "\n"+other+" a;") {
		holds, other = other, holds
	}
	var got []string
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "superd eventlistener: ") {
			line = strings.ReplaceAll(strings.ReplaceAll(line, holds, "HOLDS"), other, "OTHER")
			got = append(got, strings.TrimSuffix(line, ";\n"))
		}
	}
	// b may come before a
	slices.SortStableFunc(got, func(x, y string) int { return strings.Compare(y[:len("HOLDS")], x[:len("HOLDS")]) })
	want := []string{"OTHER b", "OTHER answers b", "OTHER c", "OTHER c", "OTHER answers c", "OTHER d", "OTHER answers d",
		"HOLDS a", "HOLDS answers a"}
	if !slices.Equal(got, want) {
		t.Errorf("the processes got %q, want %q", got, want)
	}
	if text := other + " has ended with status 7, and is started again after 1s"; !strings.Contains(log, text) {
		t.Errorf("no message %q:\n%s", text, log)
	}
	s.MustCtl("stop", "pool")
	if st := s.Status("pool"); st.Restarts != 0 {
		t.Errorf("the program was restarted %d times", st.Restarts)
	}
}

// TestEventListenerRefused: mistakes in the command line are named.
func TestEventListenerRefused(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	for args, want := range map[string]string{
		"--events NONE -- x":                 `there is no event "NONE": the events are EVENT, PROCESS_STATE,`,
		"-- x":                               "no event is named",
		"--events TICK_5":                    "the command of the listener is missing: write it after --",
		"--events TICK_5 --buffer 0 -- x":    "--buffer is 0: at least 1 event has to fit",
		"--events TICK_5 --processes 0 -- x": "--processes is 0: a pool has at least 1",
		"--events TICK_5 -- x":               "SUPERD_NAME is not set",
		"--events TICK_5 --name a -- /a/b":   "start event listener: fork/exec /a/b: no such file or directory",
	} {
		if r := s.Run(append([]string{"eventlistener"}, strings.Fields(args)...)...); !strings.Contains(r.ErrOut, want) || r.Exit == 0 {
			t.Errorf("superd eventlistener %s: status %d, %q, want %q", args, r.Exit, r.ErrOut, want)
		}
	}
}
