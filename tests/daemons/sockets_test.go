package daemons

import (
	"os"
	"os/exec"
	"testing"
)

// newHolder makes a machine whose superd holds the socket of the server in an example of
// examples/sockets. /var/www/app is for its application.
func newHolder(t *testing.T, name string, packages ...string) *machine {
	m := newMachine(t, name, append(packages, "apache2-utils")...)
	m.examples = "sockets"
	m.run("mkdir", "-p", "/var/www/app")
	return m
}

func TestSocketOfGunicorn(t *testing.T) {
	m := newHolder(t, "gunicorn", "gunicorn")
	m.write("/var/www/app/app.py", `
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"hello\n"]
`)
	m.boot()
	m.losesNoRequest("127.0.0.1:8001")
	m.losesIdleConnections("127.0.0.1:8001")
	m.stops()
}

func TestSocketOfUvicorn(t *testing.T) {
	m := newHolder(t, "uvicorn", "python3-uvicorn")
	m.write("/var/www/app/asgi.py", `
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for step in "startup", "shutdown":
            await receive()
            await send({"type": "lifespan." + step + ".complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
    await send({"type": "http.response.body", "body": b"hello\n"})
`)
	m.boot()
	m.losesNoRequest("127.0.0.1:8002")
	m.losesIdleConnections("127.0.0.1:8002")
	m.stops()
}

func TestSocketOfNode(t *testing.T) {
	m := newHolder(t, "node", "nodejs")
	code, err := os.ReadFile("../../examples/sockets/server.js")
	if err != nil {
		t.Fatal(err)
	}
	m.write("/var/www/app/server.js", string(code))
	m.boot()
	m.losesNoRequest("127.0.0.1:8003")
	m.losesIdleConnections("127.0.0.1:8003")
	m.stops()
}

func TestSocketOfGo(t *testing.T) {
	m := newHolder(t, "go")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", m.path("/var/www/app/server"),
		"../../examples/sockets/server").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	m.boot()
	m.losesNoRequest("127.0.0.1:8004")
	m.losesIdleConnections("127.0.0.1:8004")
	m.stops()
}

func TestSocketOfNginx(t *testing.T) {
	m := newHolder(t, "nginx", "nginx")
	m.run("sed", "-i", "/^pid/d", "/etc/nginx/nginx.conf")
	conf := func(text string) {
		m.write("/etc/nginx/sites-available/default", `
			server {
				listen 80 default_server;
				listen [::]:80 default_server;
				location / { return 200 "`+text+`"; }
			}
			`)
	}
	conf("hello")
	m.boot()
	m.losesNoRequest("127.0.0.1:80")
	m.losesIdleConnections("127.0.0.1:80")
	m.answersAfterReload("[::1]:80", func() { conf("goodbye") }, "goodbye")
	m.stops()
}

func TestSocketOfHAProxy(t *testing.T) {
	m := newHolder(t, "haproxy", "haproxy")
	debian := m.read("/etc/haproxy/haproxy.cfg")
	conf := func(text string) {
		m.write("/etc/haproxy/haproxy.cfg", debian+`
frontend web
	bind "${BIND}"
	http-request return status 200 content-type text/plain string `+text+"\n")
	}
	conf("hello")
	m.boot()
	m.losesNoRequest("127.0.0.1:8005")
	m.losesIdleConnections("127.0.0.1:8005")
	m.answersAfterReload("127.0.0.1:8005", func() { conf("goodbye") }, "goodbye")
	m.stops()
}

func TestSocketOfPHPFPM(t *testing.T) {
	m := newHolder(t, "php-fpm", "php8.2-fpm")
	// As systemd-tmpfiles does
	m.run("install", "-d", "-o", "www-data", "-g", "www-data", "/run/php")
	m.write("/var/www/answer.php", `<?php echo "answer";`)
	m.run("sed", "-i", "s/^pid.*/process_control_timeout = 10s/", "/etc/php/8.2/fpm/php-fpm.conf")
	m.boot()
	stop := m.load(func() error {
		got, err := m.script("/run/php/php8.2-fpm.sock", "/var/www/answer.php")
		return ok(got, err, "answer")
	})
	m.rolls()
	m.MustCtl("reload", "php-fpm")
	stop()
	m.stops()
}

// TestSocketOfMemcached: haproxy has the socket, and waits for the connections that it has when
// memcached is restarted.
func TestSocketOfMemcached(t *testing.T) {
	m := newHolder(t, "memcached", "memcached", "haproxy")
	m.write("/etc/haproxy/memcached.cfg", `
defaults
	mode tcp
	timeout connect 5s
	timeout client 1h
	timeout server 1h
listen memcached
	bind "${BIND}"
	server memcached unix@/run/memcached/memcached.sock
`)
	m.boot()
	set := func() error {
		got, err := m.oneLine("127.0.0.1:11211", "set key 0 0 4\r\nkept")
		return ok(got, err, "STORED")
	}
	stop := m.load(set)
	m.restarts(set)
	stop()
	m.stops()
}
