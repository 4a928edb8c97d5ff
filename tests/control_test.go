package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

func TestControlSocketAbuse(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	d := s.Start()
	pid := s.WaitState("web", "running").Pid
	before := len(s.FDs(d.Pid))

	// A wrong request gets a 4xx answer or a closed connection, soon.
	huge := strings.Repeat("x", 16<<20)
	for name, request := range map[string]string{
		"garbage":            "\x00\xff\x16\x03\x01 what is this\r\n\r\n",
		"no such path":       "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"wrong method":       "DELETE /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"no such program":    "POST /v1/programs/nobody/start HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"escaping name":      "POST /v1/programs/..%2f..%2fetc/start HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"huge request line":  "GET /" + huge + " HTTP/1.1\r\n\r\n",
		"huge header":        "GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Header: " + huge + "\r\n\r\n",
		"huge body":          fmt.Sprintf("POST /v1/programs/web/signal HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(huge), huge),
		"body of no JSON":    "POST /v1/programs/web/signal HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{{{",
		"half a request":     "GET /v1/sta",
		"body that is short": "POST /v1/programs/web/signal HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf",
	} {
		if answer := exchange(t, s, request); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 4") {
			t.Errorf("%s: answer %.80q, want 4xx or none", name, answer)
		}
	}

	// A thousand silent connections block the socket for a short time only.
	var idle []net.Conn
	for range 1000 {
		c, err := s.Dial()
		if err != nil {
			break // refused is fine
		}
		defer c.Close()
		idle = append(idle, c)
	}
	s.Kill(pid, syscall.SIGKILL)
	harness.Until(t, "ctl is answered again", func() bool { return s.Ctl("status").Exit == 0 })
	s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Restarts == 1 })
	for _, c := range idle {
		c.Close()
	}
	harness.Until(t, "the descriptors are back", func() bool { return len(s.FDs(d.Pid)) <= before+2 })
	if peak := s.KiB(d.Pid, "status", "VmHWM"); peak > 128<<10 {
		t.Errorf("superd's memory peaked at %d KiB, want it bounded", peak)
	}
}

// exchange sends a request and returns what comes until the connection is closed.
func exchange(t *testing.T, s *harness.Site, request string) string {
	t.Helper()
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(harness.Deadline)); err != nil {
		t.Fatal(err)
	}
	// Writing fails when superd has closed the connection already, after an answer or without.
	if _, err := io.WriteString(c, request); err == nil && strings.HasPrefix(request, "GET /v1/sta") && !strings.Contains(request, "\n") {
		c.(*net.UnixConn).CloseWrite()
	}
	answer, err := io.ReadAll(c)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Errorf("no end of the connection within %v of %.40q", harness.Deadline, request)
	}
	return string(answer)
}

func TestForeignUserRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("may not become another user")
	}
	s := harness.NewSite(t, `
		[program.web]
		command = "sleep infinity"
		`)
	s.Start()
	before := s.WaitState("web", "running")
	otherUser := &syscall.Credential{Uid: 65534, Gid: 65534}
	for _, command := range [][]string{{"status"}, {"stop", "web"}, {"signal", "KILL", "web"}, {"reload"}, {"logs", "web"}, {"shutdown"}} {
		r := s.RunAs(otherUser, append([]string{"ctl", "--runtime-dir", s.RuntimeDir}, command...)...)
		wantMessage(t, r, 1, "user 65534 may not")
	}
	if after := s.Status("web"); after.Pid != before.Pid || after.State != "running" {
		t.Errorf("after the refusals: %v, want pid %d running", after, before.Pid)
	}
}

func TestStatusSurface(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		groups = ["front", "all"]
		[program.once]
		command = ["sh", "-c", "exit 3"]
		groups = ["all"]
		restart = "never"
		[program.off]
		command = "true"
		autostart = false
		`)
	s.Start()
	s.WaitState("once", "failed")
	s.WaitStatus("web", "has written", func(st harness.Status) bool { return st.State == "running" && st.LastLine == "hello" })

	var objects []map[string]any
	if err := json.Unmarshal([]byte(s.MustCtl("status", "--json").Out), &objects); err != nil {
		t.Fatal(err)
	}
	keys := []string{
		"name", "program", "groups", "state", "ready", "healthy", "pid", "since", "uptime_s", "restarts", "exit",
		"next_start_in_s", "cpu_s", "rss_bytes", "log_file", "last_line", "reason", "status_text", "health_check",
	}
	for _, o := range objects {
		for _, key := range keys {
			if _, ok := o[key]; !ok {
				t.Errorf("status --json of %v: no key %s", o["name"], key)
			}
		}
	}
	web := s.Status("web")
	if web.RSSBytes == nil || *web.RSSBytes <= 0 || web.CPUS == nil || web.UptimeS == nil || web.LogFile != s.Path("log/web.log") || web.Exit != nil || !web.Ready {
		t.Errorf("status of a running program: %+v", web)
	}

	// A program named explicitly that is not up makes exit status 3; the table has the reason.
	for _, tt := range []struct {
		names string
		exit  int
	}{
		{"", 0}, {"web", 0}, {"front", 0}, {"w*", 0}, {"once", 3}, {"all", 3}, {"off", 3}, {"web off", 3}, {"wbe", 1},
	} {
		if r := s.Ctl(append([]string{"status"}, strings.Fields(tt.names)...)...); r.Exit != tt.exit {
			t.Errorf("ctl status %s: exit status %d, want %d\n%s%s", tt.names, r.Exit, tt.exit, r.Out, r.ErrOut)
		}
	}
	if r := s.Ctl("start", "wbe"); r.Exit != 1 || !strings.Contains(r.ErrOut, "web") {
		t.Errorf("ctl start of a wrong name: exit status %d, %q, want 1 and the nearest name", r.Exit, r.ErrOut)
	}
}

func TestFollowLogs(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo first; read x < DIR/gate; yes | head -n 100000; echo last; exec sleep infinity"]
		log = { max_size = "50kB", keep = 100 }
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("web", "first\n")
	out := new(harness.Output)
	follow := s.Command("ctl", "logs", "-f", "web")
	follow.Stdout = out
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	out.Wait(t, "first\n")
	open()
	out.Wait(t, "last\n")
	if got, want := out.String(), "first\n"+strings.Repeat("y\n", 100_000)+"last\n"; got != want {
		t.Errorf("logs -f through rotations gave %d bytes, want %d", len(got), len(want))
	}
	s.MustCtl("shutdown") // ends a follower, too
	follow.Wait()
}
