package daemons

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// TestForking: nginx, sshd and redis in the background, as their older units run them. superd finds
// the main process of nginx among its workers without a pid file.
func TestForking(t *testing.T) {
	s := newSite(t, "nginx", "redis-server", "openssh-server")
	words := []string{"DIR", s.Dir}
	for _, word := range []string{"NGINX_PORT", "REDIS_PORT", "SSH_PORT"} {
		words = append(words, word, freePort(t))
	}
	expand := strings.NewReplacer(words...).Replace
	s.Mkdir("redis")
	s.run("chown", "redis:", s.Path("redis"))
	s.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.Path("host"))
	s.Write("nginx.conf", expand(`
		worker_processes 2;
		pid DIR/nginx.pid;
		error_log DIR/error.log;
		events { }
		http {
			access_log off;
			client_body_temp_path DIR/body;
			proxy_temp_path DIR/proxy;
			fastcgi_temp_path DIR/fastcgi;
			uwsgi_temp_path DIR/uwsgi;
			scgi_temp_path DIR/scgi;
			server { listen 127.0.0.1:NGINX_PORT; location / { return 200 "hello"; } }
		}
		`))
	s.Configure(expand(`
		[defaults]
		type = "forking"
		[program.nginx]
		command = ["/usr/sbin/nginx", "-c", "DIR/nginx.conf", "-g", "daemon on; master_process on;"]
		ready.http = "http://127.0.0.1:NGINX_PORT/"
		stop_signal = "QUIT"
		[program.redis]
		command = ["/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", "REDIS_PORT", "--dir", "DIR/redis",
			"--daemonize", "yes", "--pidfile", "DIR/redis/redis.pid"]
		user = "redis"
		pid_file = "DIR/redis/redis.pid"
		ready.tcp = "127.0.0.1:REDIS_PORT"
		[program.sshd]
		command = ["/usr/sbin/sshd", "-f", "none", "-h", "DIR/host", "-p", "SSH_PORT", "-o", "ListenAddress=127.0.0.1",
			"-o", "PidFile=DIR/sshd.pid"]
		pre_start = [["install", "-d", "-m", "0755", "/run/sshd"]]
		pid_file = "DIR/sshd.pid"
		`))
	s.Start()
	s.WaitRunning()
	for name, title := range map[string]string{"nginx": "nginx: master", "redis": "redis-server", "sshd": "sshd: "} {
		if line := s.run("ps", "-o", "args=", "-p", strconv.Itoa(s.Status(name).Pid)); !strings.Contains(line, title) {
			t.Errorf("main process of %s: %q", name, line)
		}
	}
	s.want("PONG\n", "redis-cli", "-p", expand("REDIS_PORT"), "ping")
	before := s.Status("nginx").Pid
	if err := unix.Kill(before, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.WaitStatus("nginx", "runs again, without its former workers", func(st harness.Status) bool {
		return st.State == "running" && st.Pid != before
	})
	for _, name := range []string{"nginx", "redis", "sshd"} {
		s.MustCtl("stop", name)
	}
	for _, p := range s.Processes() {
		for _, daemon := range []string{"nginx", "redis", "sshd"} {
			if strings.HasPrefix(p.Command, daemon) {
				t.Errorf("%s (%d) is left", p.Command, p.Pid)
			}
		}
	}
}

// freePort returns a port of 127.0.0.1 that was free.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
