package daemons

import (
	"testing"
)

func TestNginx(t *testing.T) {
	m := newMachine(t, "nginx", "nginx")
	conf := func(text string) {
		m.write("/etc/nginx/sites-available/default", `
			server {
				listen 80 default_server;
				location / { return 200 "`+text+`"; }
				location /slow { proxy_pass http://127.0.0.1:8000; }
			}
			`)
	}
	received, release := m.backend("127.0.0.1:8000")
	conf("answer one")
	m.boot()
	serves := func(text string) error {
		got, err := m.get("http://127.0.0.1/")
		return ok(got, err, text)
	}
	served := func() error { return serves("answer") }
	m.reloads(served, func() { conf("answer two") }, func() bool { return serves("two") == nil })
	m.refuses("/etc/nginx/nginx.conf", "retrun 200;\n", `unknown directive "retrun"`)
	m.upgrades(served)
	m.healthy()
	if m.read("/run/nginx.pid") == "" {
		t.Error("there is no /run/nginx.pid, by which logrotate finds it")
	}
	m.answers(func() error {
		got, err := m.get("http://127.0.0.1/slow")
		return ok(got, err, "slow answer")
	}, received, release)
}
