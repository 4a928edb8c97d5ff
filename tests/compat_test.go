package tests

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/compat/xmlrpc"
	"superd/tests/harness"
)

// callSupervisor calls a method at a socket, as the user of the test.
func callSupervisor(socket, method string, params ...any) (any, error) {
	client := http.Client{Timeout: harness.Deadline, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	answer, err := client.Post("http://supervisor/RPC2", "text/xml", bytes.NewReader(xmlrpc.AppendCall(nil, method, params...)))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return xmlrpc.ReadAnswer(answer.Body)
}

func stateOf(socket, process string) string {
	info, err := callSupervisor(socket, "supervisor.getProcessInfo", process)
	if err != nil {
		return err.Error()
	}
	state, _ := info.(map[string]any)["statename"].(string)
	return state
}

// TestSupervisorSocket: the socket answers, follows the configuration, and outlives kills and
// upgrades of superd.
func TestSupervisorSocket(t *testing.T) {
	t.Parallel()
	const programs = "\n[program.web]\ncommand = ['sh', '-c', 'echo one; exec sleep infinity']\nreplicas = 2\n"
	s := harness.NewSite(t, "[compat]\nsupervisor_socket = 'DIR/a.sock'\n"+programs)
	d := s.Start()
	a, b := s.Path("a.sock"), s.Path("b.sock")
	running := func(socket string) {
		t.Helper()
		harness.Until(t, "the socket answers", func() bool { return stateOf(socket, "web:web_01") == "RUNNING" })
	}
	running(a)
	if v, err := callSupervisor(a, "supervisor.stopProcess", "web:web_00"); v != true || err != nil {
		t.Errorf("stop: %v, %v", v, err)
	}
	if state := s.Status("web@1").State; state != "stopped" {
		t.Errorf("web@1 is %s after a stop", state)
	}
	if v, err := callSupervisor(a, "supervisor.startProcess", "web:*"); err != nil {
		t.Errorf("start: %v, %v", v, err)
	}
	if text, err := callSupervisor(a, "supervisor.readProcessStdoutLog", "web:web_01", 0, 3); text != "one" || err != nil {
		t.Errorf("log: %v, %v", text, err)
	}

	s.Kill(d.Pid, syscall.SIGKILL) // the keeper starts another supervisor
	running(a)
	s.MustCtl("upgrade")
	running(a)

	s.Configure("[compat]\nsupervisor_socket = 'DIR/b.sock'\n" + programs)
	s.MustCtl("reload")
	running(b)
	harness.Until(t, "the other socket is gone", func() bool { return !exists(a) })
	s.Configure(programs)
	s.MustCtl("reload")
	harness.Until(t, "the socket is gone", func() bool { return !exists(b) })
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestSupervisorSocketRefused: superd replaces no socket that is in use and no file, and opens none
// where other users may write.
func TestSupervisorSocketRefused(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	d := s.Start()
	used, err := net.Listen("unix", s.Path("used.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { used.Close() })
	s.Write("file", "text")
	s.Mkdir("open")
	s.Chmod("open", 0o777)
	for path, message := range map[string]string{
		"used.sock": "another process answers there", "file": "not a socket", "open/a.sock": "may write",
		"missing/a.sock": "no such file",
	} {
		s.Configure("[compat]\nsupervisor_socket = 'DIR/" + path + "'\n")
		s.MustCtl("reload")
		harness.Until(t, path+" is refused", func() bool {
			return strings.Contains(d.ErrOut.String(), "socket for clients of supervisord not opened") &&
				strings.Contains(d.ErrOut.String(), message)
		})
	}
	if s.Read("file") != "text" {
		t.Error("superd replaced a file")
	}
}

// TestSupervisorctl: superd under the name supervisorctl has its commands and exit statuses.
func TestSupervisorctl(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = ['sh', '-c', 'echo one; exec sleep infinity']\n"+
		"[program.off]\ncommand = 'sleep infinity'\nautostart = false\n")
	s.Start()
	s.WaitState("web", "running")
	binary, err := exec.LookPath("superd")
	if err != nil {
		t.Fatal(err)
	}
	link := s.Path("supervisorctl")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		out    string
	}{
		{"status web", 0, "RUNNING"}, {"status", 3, "off                              STOPPED   Not started"},
		{"start web", 0, "web: ERROR (already started)"}, {"start off", 0, "off: started"},
		{"restart off", 0, "off: stopped\noff: started"}, {"stop off", 0, "off: stopped"}, {"stop off", 0, "off: ERROR (not running)"},
		{"stop nosuch", 1, "nosuch: ERROR (no such process)"}, {"status nosuch", 4, "nosuch: ERROR (no such process)"},
		{"pid off", 7, "0"}, {"signal HUP off", 7, "off: ERROR (not running)"}, {"tail -4 web", 0, "one"},
		{"frob", 1, "*** Unknown syntax: frob"}, {"--frob", 2, "Error: unknown flag: --frob"}, {"help start", 0, "Start a process"},
		{"reread", 0, "No config updates to processes"}, {"avail", 0, "in use    manual    999:999"}, {"remove off", 1, "is in the configuration"},
	} {
		cmd := exec.CommandContext(t.Context(), link, append([]string{"-c", s.RuntimeDir}, strings.Fields(test.args)...)...)
		cmd.WaitDelay = time.Second
		out, _ := cmd.CombinedOutput() // the status tells
		if status := cmd.ProcessState.ExitCode(); status != test.status || !strings.Contains(string(out), test.out) {
			t.Errorf("supervisorctl %s: status %d, want %d:\n%s", test.args, status, test.status, out)
		}
	}
	shell := exec.CommandContext(t.Context(), link, "-c", s.RuntimeDir)
	shell.Stdin = strings.NewReader("start off\n\nstatus off\nquit\n")
	out, err := shell.CombinedOutput()
	if err != nil || strings.Count(string(out), "supervisor> ") != 4 || !strings.Contains(string(out), "off: started") {
		t.Errorf("shell: %v\n%s", err, out)
	}
}
