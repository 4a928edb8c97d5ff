package daemons

import (
	"bufio"
	"flag"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

var units = flag.Bool("units", false, "run the daemons by their imported units, too")

// TestImportedUnits: daemons run by the units of their packages as superd import makes them, with
// nothing changed by hand. make test-switch runs this.
func TestImportedUnits(t *testing.T) {
	if !*units {
		t.Skip("make test-switch runs this")
	}
	reads := func(address, request, want string) func(m *machine) error {
		return func(m *machine) error { return m.reads("tcp", address, request, want) }
	}
	gets := func(url, want string) func(m *machine) error {
		return func(m *machine) error {
			got, err := m.get(url)
			return ok(got, err, want)
		}
	}
	tests := []struct {
		unit, packages string
		prepare        func(m *machine)
		serves         func(m *machine) error // nil: that it runs and is ready suffices
	}{
		{"apache2", "apache2", nil, gets("http://127.0.0.1/", "Apache2")},
		{"cron", "cron", nil, nil},
		{"haproxy", "haproxy", nil, func(m *machine) error {
			return m.reads("unix", m.path("/run/haproxy/admin.sock"), "show info\n", "Name: HAProxy")
		}},
		{"memcached", "memcached", nil, reads("127.0.0.1:11211", "version\r\n", "VERSION")},
		{"mosquitto", "mosquitto", nil, reads("127.0.0.1:1883", "\x10\x0d\x00\x04MQTT\x04\x02\x00\x05\x00\x01a", "\x20\x02\x00\x00")},
		{"named", "bind9", nil, reads("127.0.0.1:53", "\x00\x1b\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01", "\x7f\x00\x00\x01")},
		{"nginx", "nginx", nil, gets("http://127.0.0.1/", "")},
		{"pgbouncer", "pgbouncer", nil, nil},
		{"php8.2-fpm", "php8.2-fpm", nil, nil},
		{"postfix@-", "postfix", nil, reads("127.0.0.1:25", "", "220 ")},
		{"postgresql@15-main", "postgresql-15", func(m *machine) {
			if m.read("/etc/postgresql/15/main/postgresql.conf") == "" {
				m.run("pg_createcluster", "15", "main")
			}
		},
			reads("127.0.0.1:5432", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "S")}, // asks for TLS
		{"prometheus-node-exporter", "prometheus-node-exporter", nil, gets("http://127.0.0.1:9100/metrics", "node_")},
		{"rabbitmq-server", "rabbitmq-server", nil, reads("127.0.0.1:5672", "AMQP\x00\x00\x09\x01", "\x01\x00\x00")},
		{"redis-server", "redis-server", nil, reads("127.0.0.1:6379", "PING\r\n", "+PONG")},
		{"rsyslog", "rsyslog", nil, nil},
		{"ssh", "openssh-server", nil, reads("127.0.0.1:22", "", "SSH-2.0")},
		{"unbound", "unbound", nil, reads("127.0.0.1:53", "\x00\x1b\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01", "\x7f\x00\x00\x01")},
		// It has no backend
		{"varnish", "varnish", nil, reads("127.0.0.1:6081", "GET / HTTP/1.0\r\n\r\n", " 503 ")},
	}
	for _, tt := range tests {
		t.Run(tt.unit, func(t *testing.T) {
			m := newMachine(t, strings.TrimRight(strings.Replace(tt.unit, "@", "-", 1), "-"), tt.packages)
			if tt.prepare != nil {
				tt.prepare(m)
			}
			m.BuildUI()
			r := m.Run("import", "systemd", "/lib/systemd/system/"+tt.unit+".service", "-o", m.Path("unit.toml"))
			if r.Exit != 0 {
				t.Fatalf("superd import: exit status %d: %s", r.Exit, r.ErrOut)
			}
			t.Logf("what import says:\n%s", r.ErrOut)
			// At the boot of a machine, systemd makes the directories of packages
			m.run("systemd-tmpfiles", "--create", "--prefix=/run")
			m.Write("superd.toml", "[superd]\nruntime_dir = 'run'\nlog_dir = 'log'\n"+m.withoutResources(m.Read("unit.toml")))
			m.daemon = m.Start(func(cmd *exec.Cmd) {
				path, err := exec.LookPath("nsenter")
				if err != nil {
					t.Fatal(err)
				}
				cmd.Path, cmd.Args, cmd.Err = path, m.inside(cmd.Args...), nil
			})
			all := m.All()
			if len(all) != 1 {
				t.Fatalf("%d programs", len(all))
			}
			m.name = all[0].Name
			m.WaitState(m.name, "running")
			if tt.serves != nil {
				last := error(nil)
				harness.Until(t, "it serves", func() bool {
					last = tt.serves(m)
					return last == nil
				})
			}
			if st := m.Status(m.name); st.State != "running" || st.Restarts != 0 {
				t.Errorf("%v, want that it runs without a restart", st)
			}
			m.MustCtl("stop", "--timeout", "80s", m.name)
			m.WaitState(m.name, "stopped")
		})
	}
}

// resources are keys with values that only a superd with CAP_SYS_RESOURCE may set.
var resources = regexp.MustCompile(`\b(nofile|memlock|oom_score_adj)( *= *)("[^"]*"|-?[0-9]+)`)

// withoutResources returns a configuration without what this machine has no right to.
func (m *machine) withoutResources(text string) string {
	if !m.lacks(unix.CAP_SYS_RESOURCE) {
		return text
	}
	for _, found := range resources.FindAllString(text, -1) {
		m.T.Logf("without CAP_SYS_RESOURCE: %q is left out", found)
	}
	return resources.ReplaceAllStringFunc(text, func(found string) string {
		key := resources.FindStringSubmatch(found)
		return key[1] + key[2] + map[string]string{"nofile": "1024", "memlock": `"64KiB"`, "oom_score_adj": "0"}[key[1]]
	})
}

// reads sends a request, and reads until the answer has a text.
func (m *machine) reads(protocol, address, request, want string) error {
	dial := m.dial
	if protocol == "unix" {
		dial = net.Dial
	}
	conn, err := dial(protocol, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Deadline)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return err
	}
	answer, lines := "", bufio.NewReader(conn)
	for !strings.Contains(answer, want) {
		c, err := lines.ReadByte()
		if err != nil {
			return ok(answer, err, want)
		}
		answer += string(c)
	}
	return nil
}
