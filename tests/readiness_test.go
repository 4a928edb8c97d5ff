package tests

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// A readyWorld is a site with a program of each kind of readiness. They become ready when open is
// called.
type readyWorld struct {
	*harness.Site
	open  func()
	kinds []string
}

func newReadyWorld(t *testing.T) *readyWorld {
	var up atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(web.Close)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	s := harness.NewSite(t, fmt.Sprintf(`
		[defaults]
		ready = { interval = "100ms" }
		[program.notify]
		command = ["child", "notify", "DIR/gate", 'READY=1\nSTATUS=serving']
		ready = { notify = true }
		[program.fd]
		command = ["sh", "-c", "read x < DIR/gate; echo >&7; exec 7>&-; exec sleep infinity"]
		ready = { fd = 7 }
		[program.step]
		command = ["sh", "-c", "read x < DIR/gate; echo >&3; exec 3>&-; exec sleep infinity"]
		ready = { fd = 3 }
		umask = "022"
		[program.line]
		command = ["sh", "-c", "echo preparing; read x < DIR/gate; echo listening on 80; exec sleep infinity"]
		ready = { line = '^listening on \d+$' }
		[program.err]
		command = ["sh", "-c", "echo preparing; echo preparing >&2; read x < DIR/gate; echo listening on 80 >&2; exec sleep infinity"]
		ready = { line = '^listening on \d+$' }
		log = { stderr = "separate" }
		[program.tcp]
		command = "sleep infinity"
		ready = { tcp = %q }
		[program.http]
		command = "sleep infinity"
		ready = { http = %q }
		[program.exec]
		command = "sleep infinity"
		ready = { exec = ["test", "-e", "DIR/there"] }
		`, address, web.URL))
	open := s.Gate("gate")
	return &readyWorld{s, func() {
		open()
		up.Store(true)
		s.Write("there", "")
		port, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { port.Close() })
	}, []string{"notify", "fd", "step", "line", "err", "tcp", "http", "exec"}}
}

// starting waits until each program is started, and not ready.
func (w *readyWorld) starting() map[string]int {
	w.T.Helper()
	pids := map[string]int{}
	for _, name := range w.kinds {
		st := w.WaitStatus(name, "has been started", func(st harness.Status) bool { return st.Pid != 0 })
		pids[name] = st.Pid
		if st.State != "starting" || st.Ready || !strings.Contains(st.Reason, "not ready yet: ") {
			w.T.Errorf("%s: %s, ready %v, reason %q; want it starting", name, st.State, st.Ready, st.Reason)
		}
	}
	return pids
}

// ready waits until each program is ready, with the processes given.
func (w *readyWorld) ready(pids map[string]int) {
	w.T.Helper()
	for _, name := range w.kinds {
		st := w.WaitState(name, "running")
		if st.Pid != pids[name] || !st.Ready || !strings.Contains(st.Reason, "; ready after ") {
			w.T.Errorf("%s: pid %d, ready %v, reason %q; want pid %d", name, st.Pid, st.Ready, st.Reason, pids[name])
		}
	}
	if st := w.Status("notify"); st.StatusText != "serving" {
		w.T.Errorf("status text %q, want what the program said", st.StatusText)
	}
}

// TestReadiness: superd waits for each kind of readiness.
func TestReadiness(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		w := newReadyWorld(t)
		w.Start(options...)
		pids := w.starting()
		if st := w.WaitStatus("http", "was asked", func(st harness.Status) bool { return strings.Contains(st.Reason, "503") }); !strings.Contains(st.Reason, "not yet") {
			t.Errorf("reason %q, want what the server answered", st.Reason)
		}
		if r := w.Ctl("status", "tcp"); r.Exit != 3 {
			t.Errorf("ctl status of one that is starting ends with %d, want 3", r.Exit)
		}
		w.open()
		w.ready(pids)
	})
}

// TestReadinessIsTakenOver kills superd while programs are starting: the next one waits for the
// readiness of each, whether it was notified before or after.
func TestReadinessIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("notified after ", late), func(t *testing.T) {
			t.Parallel()
			w := newReadyWorld(t)
			d := w.Start()
			pids := w.starting()
			supervisor := w.Track(d.Pid)
			if !late {
				w.Kill(d.Pid, syscall.SIGSTOP) // the next superd has to read what is sent now
				w.open()
			}
			supervisor.Kill()
			d.FindSupervisor()
			if late {
				w.starting()
				w.open()
			}
			w.ready(pids)
		})
	}
}

// TestStartTimeout: a start that takes too long fails, and the reason names what was missing.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		backoff.initial = "100s"
		backoff.max = "100s"
		[program.tcp]
		command = "sleep infinity"
		ready = { tcp = "127.0.0.1:1", interval = "50ms" }
		start_timeout = "1s"
		[program.mute]
		command = "sleep infinity"
		ready = { notify = true }
		start_timeout = "1s"
		[program.ended]
		command = "true"
		ready = { notify = true }
		[program.extended]
		command = ["child", "notify", "/dev/null", "EXTEND_TIMEOUT_USEC=3600000000"]
		ready = { notify = true }
		start_timeout = "1s"
		start_limit.failures = 0 # a child that is too slow is not what this is about: there is another one
		backoff = { initial = "1ms", max = "1ms" }
		`)
	s.Start()
	for name, reason := range map[string]string{
		"tcp":   "tcp 127.0.0.1:1: connection refused; ended by the stop signal (killed by SIGTERM",
		"mute":  "READY=1 by sd_notify; ended by the stop signal (killed by SIGTERM",
		"ended": ", before it was ready",
	} {
		st := s.WaitState(name, "backoff")
		if !strings.Contains(st.Reason, reason) {
			t.Errorf("%s: %q, want it to say %q", name, st.Reason, reason)
		}
		if name == "ended" {
			continue
		}
		after, late := strings.CutPrefix(st.Reason, "not ready after ")
		after, _, _ = strings.Cut(after, ": ")
		if took, err := time.ParseDuration(after); !late || err != nil || took < time.Second {
			t.Errorf("%s: %q, want it not ready after 1s or more", name, st.Reason)
		}
	}
	s.WaitStatus("extended", "is starting when its start time-out would be over", func(st harness.Status) bool {
		return st.State == "starting" && st.UptimeS != nil && *st.UptimeS > 1.5
	})
	if out := s.MustCtl("why", "extended").Out; !strings.Contains(out, "not ready yet: READY=1 by sd_notify") {
		t.Errorf("why: %s", out)
	}
}

// TestSystemdNotify: systemd-notify notifies for the program that runs it, and can name another
// main process.
func TestSystemdNotify(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[program.web]
			command = ["sh", "-c", "systemd-notify --ready --status='3 clients'; exec sleep infinity"]
			ready = { notify = true }
			[program.daemon]
			command = ["sh", "-c", "sleep infinity & systemd-notify --ready --pid=$$!; echo $$! > DIR/pid"]
			ready = { notify = true }
			backoff.initial = "100s"
			backoff.max = "100s"
			`)
		d := s.Start(options...)
		if st := s.WaitState("web", "running"); st.StatusText != "3 clients" {
			t.Errorf("status text %q", st.StatusText)
		}
		var pid int
		s.WaitStatus("daemon", "has changed its main process", func(st harness.Status) bool {
			pid = st.Pid
			text, err := os.ReadFile(s.Path("pid"))
			return err == nil && st.State == "running" && strings.TrimSpace(string(text)) == fmt.Sprint(pid)
		})
		supervisor := s.Track(d.Pid)
		supervisor.Kill()
		d.FindSupervisor()
		if st := s.WaitState("daemon", "running"); st.Pid != pid {
			t.Errorf("pid %d, want %d", st.Pid, pid)
		}
		s.Kill(pid, syscall.SIGKILL)
		if st := s.WaitState("daemon", "backoff"); st.Exit == nil {
			t.Errorf("daemon: %+v, want it to have ended", st)
		}
	})
}

// TestNewMainProcessIsStopped: a process named by MAINPID= gets the stop signal, and the rest of
// the group that it came from ends with it.
func TestNewMainProcessIsStopped(t *testing.T) {
	for _, mode := range []string{"tree", "group"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[program.daemon]
				command = ["sh", "-c", "sh DIR/child & systemd-notify --ready --pid=$$!"]
				ready = { notify = true }
				stop_timeout = "1h"
				kill_mode = "`+mode+`"
				`)
			const child = `trap 'echo ended by its handler; exit 0' TERM; sleep infinity & echo $! $$ > DIR/pids; while :; do wait; done`
			if err := os.WriteFile(s.Path("child"), []byte(strings.ReplaceAll(child, "DIR", s.Dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			s.Start()
			var sleeper, main int
			s.WaitStatus("daemon", "has changed its main process", func(st harness.Status) bool {
				text, err := os.ReadFile(s.Path("pids"))
				if err != nil {
					return false
				}
				fmt.Sscan(string(text), &sleeper, &main)
				return st.State == "running" && st.Pid == main
			})
			s.MustCtl("stop", "daemon")
			s.WaitLog("daemon", "ended by its handler\n")
			if harness.Alive(sleeper) || harness.Alive(main) {
				t.Errorf("of processes %d and %d something lives after the stop", sleeper, main)
			}
		})
	}
}

// TestForeignNotifications: only the program's own processes can notify for it; garbage and floods
// do no harm.
func TestForeignNotifications(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["child", "notify", "DIR/gate", 'READY=1']
		ready = { notify = true }
		[program.flood]
		command = ["sh", "-c", "while :; do systemd-notify --no-block STATUS=$$i WATCHDOG=1 || :; i=x$$i; done"]
		ready = { notify = true }
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitStatus("web", "has been started", func(st harness.Status) bool { return st.Pid != 0 })
	conn, err := net.Dial("unixgram", s.NotifySocket("web"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"READY=1", "\x00\xff garbage", "MAINPID=1", strings.Repeat("STATUS=x\n", 1000), "READY=1"} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	d.ErrOut.Wait(t, "does not belong to the program")
	if st := s.Status("web"); st.State != "starting" || st.StatusText != "" {
		t.Errorf("%s, status text %q: a notification of another process was accepted", st.State, st.StatusText)
	}
	open()
	s.WaitState("web", "running")
}

// TestNotificationsOfEndedProcesses: a message counts if a process of the program has sent it, even
// if the sender has ended when it is read, and only then.
func TestNotificationsOfEndedProcesses(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		s := harness.NewSite(t, `
			[defaults]
			ready = { notify = true }
			[program.web]
			command = ["sh", "-c", "read x < DIR/gate; systemd-notify --no-block --ready --status=mine; echo sent; exec sleep infinity"]
			[program.silent]
			command = "sleep infinity"
			`)
		open := s.Gate("gate")
		d := s.Start(options...)
		for _, name := range []string{"web", "silent"} {
			s.WaitStatus(name, "has been started", func(st harness.Status) bool { return st.Pid != 0 })
		}
		sockets := map[string]string{"web": s.NotifySocket("web"), "silent": s.NotifySocket("silent")}
		s.Kill(d.Pid, syscall.SIGSTOP)
		open()
		for _, name := range []string{"silent", "web"} {
			for range 3 { // the socket has space for ten
				foreign := exec.Command("systemd-notify", "--no-block", "--ready", "--status=foreign")
				foreign.Env = append(s.Env, "NOTIFY_SOCKET="+sockets[name])
				if out, err := foreign.CombinedOutput(); err != nil {
					t.Fatalf("systemd-notify: %v: %s", err, out)
				}
			}
		}
		logFile := s.Path("log/web.log")
		s.Kill(d.Pid, syscall.SIGCONT)
		harness.Until(t, "the program has sent its message", func() bool { b, _ := os.ReadFile(logFile); return string(b) == "sent\n" })
		if st := s.WaitState("web", "running"); st.StatusText != "mine" {
			t.Errorf("status text %q, want the program's own", st.StatusText)
		}
		d.ErrOut.Wait(t, "does not belong to the program")
		if st := s.Status("silent"); st.State != "starting" || st.StatusText != "" {
			t.Errorf("%v, status text %q: a notification of another process was accepted", st, st.StatusText)
		}
	})
}

// TestAddressesWithVariables: addresses of readiness and health checks have the variables of the
// run, but not those of an env file.
func TestAddressesWithVariables(t *testing.T) {
	t.Parallel()
	port := listenAt(t, "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	s := harness.NewSite(t, fmt.Sprintf(`
		[program.web]
		command = "sleep infinity"
		replicas = 1
		environment.PORT = "${%d+SUPERD_REPLICA}"
		ready.tcp = "127.0.0.1:${PORT}"
		health = { tcp = "127.0.0.1:${PORT}", interval = "50ms" }
		[program.filed]
		command = "sleep infinity"
		env_file = "DIR/env"
		ready.tcp = "127.0.0.1:${WEB_PORT}"
		start_timeout = "200ms"
		restart = "never"
		`, port-1))
	s.Write("env", fmt.Sprintf("WEB_PORT=%d\n", port))
	s.Start()
	s.WaitStatus("web", "healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
	st := s.WaitState("filed", "failed")
	if want := "expand ready.tcp: ${WEB_PORT} is not set"; !strings.Contains(st.Reason, want) {
		t.Errorf("reason %q, want %q in it", st.Reason, want)
	}
}
