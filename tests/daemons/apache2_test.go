package daemons

import (
	"regexp"
	"testing"
)

// TestApache2: its workers are replaced by a reload, and a stop waits for the request under way.
func TestApache2(t *testing.T) {
	m := newMachine(t, "apache2", "apache2")
	m.run("a2enmod", "-q", "proxy", "proxy_http")
	page := func(name string) {
		m.write("/etc/apache2/conf-enabled/page.conf",
			"ServerName localhost\nAlias /page /var/www/html/"+name+"\nProxyPass /slow http://127.0.0.1:8000/slow\n")
	}
	m.write("/var/www/html/one", "page one")
	m.write("/var/www/html/two", "page two")
	page("one")
	received, release := m.backend("127.0.0.1:8000")
	m.boot()

	serves := func(text string) error {
		got, err := m.get("http://127.0.0.1/page")
		return ok(got, err, text)
	}
	request := func() error { return serves("page") }
	m.reloads(request, func() { page("two") }, func() bool { return serves("page two") == nil })
	if got := m.run("ps", "-C", "apache2", "-o", "user=,group="); !regexp.MustCompile(`www-data +www-data\n`).MatchString(got) {
		t.Errorf("its processes run as %s", got)
	}
	m.refuses("/etc/apache2/sites-enabled/000-default.conf", "Lisen 80\n", "Invalid command 'Lisen'")
	m.upgrades(request)
	m.answers(func() error {
		got, err := m.get("http://127.0.0.1/slow")
		return ok(got, err, "slow answer")
	}, received, release)
}
