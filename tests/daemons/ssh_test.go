package daemons

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestSSH: those who are logged in notice neither a reload nor a stop of sshd.
func TestSSH(t *testing.T) {
	m := newMachine(t, "ssh", "openssh-server", "openssh-client")
	m.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", m.Path("key"))
	m.write("/etc/ssh/authorized_keys", m.Read("key.pub"))
	const conf = "/etc/ssh/sshd_config.d/test.conf"
	m.write(conf, "AuthorizedKeysFile /etc/ssh/authorized_keys\n")
	m.boot()

	// sshd closes its sockets during a reload: a client tries again.
	ssh := []string{"ssh", "-F", "none", "-i", m.Path("key"), "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectionAttempts=10",
		"root@127.0.0.1"}
	login := func() error {
		out, err := m.command(append(ssh, "echo hello")...).CombinedOutput()
		return ok(string(out), err, "hello\n")
	}
	session := m.command(append(ssh, "cat")...)
	in, errIn := session.StdinPipe()
	out, errOut := session.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	echo := func(text string) error {
		fmt.Fprintln(in, text)
		line, err := lines.ReadString('\n')
		return ok(line, err, text+"\n")
	}
	said := func(text string) {
		t.Helper()
		if err := echo(text); err != nil {
			t.Errorf("the session: %v", err)
		}
	}
	said("before")
	banner := func() bool {
		conn, err := m.dial("tcp", "127.0.0.1:22")
		if err != nil {
			return false
		}
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && strings.Contains(line, "Debian")
	}
	pid := m.pid()
	m.write(conf, m.read(conf)+"DebianBanner no\n")
	m.MustCtl("reload", m.name)
	harness.Until(t, "the new configuration is in force", func() bool { return !banner() && login() == nil })
	if now := m.pid(); now != pid {
		t.Errorf("after a reload it is process %d, %d before", now, pid)
	}
	said("after the reload")
	m.refuses("/etc/ssh/sshd_config", "Prot 22\n", "Bad configuration option: Prot")
	m.upgrades(login)
	said("after the upgrade")
	m.MustCtl("stop", m.name)
	said("after the stop")
	m.MustCtl("start", m.name)
	said("after the start")
	if err := login(); err != nil {
		t.Error(err)
	}
	in.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 || session.Wait() != nil {
		t.Errorf("the session ends with %q, %v", rest, err)
	}
	harness.Until(t, "nothing is left of the session", func() bool {
		return !strings.Contains(m.MustCtl("tree", m.name).Out, "cat")
	})

	m.MustCtl("stop", m.name)
	m.write("/etc/ssh/sshd_config", "Prot 22\n")
	m.Ctl("start", m.name)
	if st := m.WaitState(m.name, "failed"); !strings.Contains(st.Reason, "no_restart_exit_codes") {
		t.Errorf("start with a mistake: %v", st)
	}
	m.WaitLog(m.name, "Bad configuration option: Prot")
}
