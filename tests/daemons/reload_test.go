package daemons

import (
	"io"
	"net/http"
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
