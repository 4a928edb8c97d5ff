package tests

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"superd/tests/harness"
)

// sshSite returns a site with a running superd, which also runs OpenSSH's server on loopback, with
// keys of its own. The host "box" leads there; "liar" has another key than is known, and nothing
// listens on "closed".
func sshSite(t *testing.T) *harness.Site {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if err != nil {
			sshd, err = exec.LookPath(path)
		}
	}
	if _, noClient := exec.LookPath("ssh"); err != nil || noClient != nil {
		t.Skip("needs openssh-server and openssh-client")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		// Where the server confines itself before a login
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	s := harness.NewSite(t, fmt.Sprintf(`
		[program.sshd]
		command = [%q, "-D", "-e", "-f", "DIR/sshd_config"]
		ready = { tcp = "127.0.0.1:%d" }
		[program.web]
		command = ["sh", "-c", "echo hello; exec sleep infinity"]
		`, sshd, port))
	superd, err := exec.LookPath(s.Command().Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"host", "other", "id"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.Path(key)).CombinedOutput(); err != nil {
			t.Fatalf("make key: %v: %s", err, out)
		}
	}
	s.Write("authorized", s.Read("id.pub"))
	s.Write("known", "box "+s.Read("host.pub")+"liar "+s.Read("other.pub"))
	s.Write("sshd_config", fmt.Sprintf(`ListenAddress 127.0.0.1
Port %d
HostKey %s
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
SetEnv PATH=%s:/usr/bin:/bin
`, port, s.Path("host"), s.Path("authorized"), filepath.Dir(superd)))
	host := fmt.Sprintf("\tHostName 127.0.0.1\n\tPort %d\n\tUser %s\n\tIdentityFile %s\n\tIdentitiesOnly yes\n", port, me.Username, s.Path("id"))
	s.Write("ssh_config", "Host box\n\tHostKeyAlias box\n"+host+"Host liar\n\tHostKeyAlias liar\n"+host+
		"Host closed\n\tHostName 127.0.0.1\n\tPort 1\nHost *\n\tStrictHostKeyChecking yes\n\tGlobalKnownHostsFile none\n\tUserKnownHostsFile "+s.Path("known")+"\n")
	s.Write("ssh", "#!/bin/sh\nexec ssh -F "+s.Path("ssh_config")+" \"$@\"\n")
	s.Chmod("ssh", 0o755)
	s.Env = append(s.Env, "SUPERD_SSH="+s.Path("ssh"))
	free.Close()
	s.Start()
	s.WaitState("sshd", "running")
	s.WaitLog("web", "hello\n")
	return s
}

// TestHostsBySSH: superd ctl --host works through OpenSSH's own client and server, and tells what
// these say when they refuse.
func TestHostsBySSH(t *testing.T) {
	t.Parallel()
	s := sshSite(t)
	ctl := func(args ...string) harness.Result {
		return s.Run(append([]string{"ctl", "--runtime-dir", s.RuntimeDir}, args...)...)
	}
	r := ctl("--host", "box", "status", "--brief", "web")
	if r.Exit != 0 || !strings.Contains(r.Out, "box   web   running") {
		t.Errorf("status: exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
	if r := ctl("--host", "box", "logs", "web"); r.Exit != 0 || !strings.Contains(r.Out, "hello") {
		t.Errorf("logs: exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
	pid := s.Status("web").Pid
	if r := ctl("--host", "box", "restart", "web"); r.Exit != 0 {
		t.Errorf("restart: exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
	if st := s.Status("web"); st.State != "running" || st.Pid == pid {
		t.Errorf("after a restart through ssh: %v", st)
	}
	r = ctl("--host", "box,liar,closed", "status", "--brief", "web")
	for _, want := range []string{"box     web   running", "Host key verification failed", "Connection refused"} {
		if r.Exit != 1 || !strings.Contains(r.Out, want) {
			t.Errorf("hosts that refuse: exit status %d, %q, want %q", r.Exit, r.Out, want)
		}
	}
	if r := s.Run("ctl", "--runtime-dir", s.Path("it's none"), "--host", "box", "status"); r.Exit != 4 || !strings.Contains(r.ErrOut, "it's none/superd.sock") {
		t.Errorf("no superd there: exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
	// Nothing of a connection is left behind, also when the client is killed
	cmd := s.Command("ctl", "--runtime-dir", s.RuntimeDir, "--host", "box", "logs", "-f", "web")
	out := new(harness.Output)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Wait(t, "hello")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	harness.Until(t, "the proxy has ended", func() bool {
		for _, p := range s.Processes() {
			if strings.Contains(p.Command, "ctl proxy") {
				return false
			}
		}
		return true
	})
}
