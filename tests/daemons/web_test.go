package daemons

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"superd/tests/harness"
)

// TestNginx: a request under way at a stop is answered.
func TestNginx(t *testing.T) {
	s := newSite(t, "nginx")
	received, release := make(chan bool, 1), make(chan bool)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- true
		<-release
		io.WriteString(w, "slow answer")
	}))
	defer slow.Close()
	port := s.port("PORT")
	s.replacements = append(s.replacements, "BACKEND", slow.URL)
	s.folder("tmp", "www-data")
	s.file("nginx.conf", `
		user www-data;
		worker_processes 2;
		pid DIR/nginx.pid;
		error_log stderr;
		events { }
		http {
			access_log off;
			client_body_temp_path DIR/tmp/body;
			proxy_temp_path DIR/tmp/proxy;
			fastcgi_temp_path DIR/tmp/fastcgi;
			uwsgi_temp_path DIR/tmp/uwsgi;
			scgi_temp_path DIR/tmp/scgi;
			server {
				listen 127.0.0.1:PORT;
				location / { return 200 "answer"; }
				location /slow { proxy_pass BACKEND; }
			}
		}
		`)
	s.start(`
		[program.nginx]
		command = ["/usr/sbin/nginx", "-c", "DIR/nginx.conf", "-g", "daemon off;"]
		ready = { http = "http://127.0.0.1:PORT/" }
		stop_signal = "SIGQUIT"
		stop_timeout = "80s"
		[program.nginx.sandbox]
		preset = "strict"
		capabilities = ["CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE"]
		read_write = ["DIR", "/var/log/nginx", "-/var/lib/nginx"]
		`)
	get := func(path string) string {
		r, err := http.Get("http://127.0.0.1:" + port + path)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return fmt.Sprint(string(body), err)
	}
	if got := get("/"); got != "answer<nil>" {
		t.Errorf("GET / = %q", got)
	}
	answer := make(chan string)
	go func() { answer <- get("/slow") }()
	<-received
	s.MustCtl("stop", "--no-wait", "nginx")
	harness.Until(t, "nothing listens any more", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if st := s.Status("nginx"); st.State != "stopping" {
		t.Errorf("%v, want it to wait for the request", st)
	}
	close(release)
	if got := <-answer; got != "slow answer<nil>" {
		t.Errorf("GET /slow = %q", got)
	}
	s.stopped("nginx")
}
