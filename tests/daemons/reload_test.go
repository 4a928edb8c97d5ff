package daemons

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestNginxReload: nginx takes a new configuration by a reload. One with a mistake is refused with
// nginx's own words.
func TestNginxReload(t *testing.T) {
	s := newSite(t, "nginx")
	port := s.port("PORT")
	conf := func(answer string) {
		s.file("nginx.conf", `
			worker_processes 1;
			pid DIR/nginx.pid;
			error_log stderr;
			events { }
			http {
				access_log off;
				client_body_temp_path DIR/body;
				proxy_temp_path DIR/proxy;
				fastcgi_temp_path DIR/fastcgi;
				uwsgi_temp_path DIR/uwsgi;
				scgi_temp_path DIR/scgi;
				server {
					listen 127.0.0.1:PORT;
					location / { `+answer+` }
				}
			}
			`)
	}
	conf(`return 200 "one";`)
	s.start(`
		[program.nginx]
		command = ["/usr/sbin/nginx", "-c", "DIR/nginx.conf", "-g", "daemon off;"]
		ready.http = "http://127.0.0.1:PORT/"
		check_command = ["/usr/sbin/nginx", "-t", "-q", "-c", "DIR/nginx.conf"]
		reload_signal = "HUP"
		stop_signal = "QUIT"
		`)
	served := func(answer string) bool {
		r, err := http.Get("http://127.0.0.1:" + port + "/")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return err == nil && string(body) == answer
	}
	pid := s.Status("nginx").Pid
	conf(`return 200 "two";`)
	s.MustCtl("reload", "nginx")
	harness.Until(t, "the new configuration is in force", func() bool { return served("two") })
	conf("retrun 200;")
	for _, verb := range []string{"reload", "restart"} {
		r := s.Ctl(verb, "nginx")
		if r.Exit != 1 || !strings.Contains(r.ErrOut, `unknown directive "retrun"`) {
			t.Errorf("%s with a mistake: exit status %d, %q", verb, r.Exit, r.ErrOut)
		}
	}
	if now := s.Status("nginx").Pid; now != pid || !served("two") {
		t.Errorf("process %d, %d before; it serves the configuration before: %v", now, pid, served("two"))
	}
	s.stop("nginx")
}

// TestSSHReload: sshd takes a new configuration by a reload. With a mistake it ends with 255, after
// which it is not started again.
func TestSSHReload(t *testing.T) {
	s := newSite(t, "openssh-server")
	s.port("PORT")
	s.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "DIR/host")
	if _, err := os.Stat("/run/sshd"); err != nil {
		t.Cleanup(func() { os.Remove("/run/sshd") })
	}
	good := s.expand("Port PORT\nListenAddress 127.0.0.1\nHostKey DIR/host\nPidFile none\nUsePAM no\n")
	s.file("sshd_config", good)
	s.start(`
		[program.sshd]
		command = ["/usr/sbin/sshd", "-D", "-e", "-f", "DIR/sshd_config"]
		pre_start = [["install", "-d", "-m", "0755", "/run/sshd"]]
		ready.notify = true
		check_command = ["/usr/sbin/sshd", "-t", "-f", "DIR/sshd_config"]
		reload_command = "kill -HUP ${MAINPID}"
		no_restart_exit_codes = [255]
		`)
	s.MustCtl("reload", "sshd")
	s.WaitLog("sshd", "Received SIGHUP; restarting.")
	s.file("sshd_config", good+"Prot 22\n")
	if r := s.Ctl("reload", "sshd"); r.Exit != 1 || !strings.Contains(r.ErrOut, "Bad configuration option: Prot") {
		t.Errorf("reload with a mistake: %v", r)
	}
	s.MustCtl("stop", "sshd")
	s.Ctl("start", "sshd")
	if st := s.WaitState("sshd", "failed"); !strings.Contains(st.Reason, "no_restart_exit_codes") {
		t.Errorf("start with a mistake: %v", st)
	}
}
