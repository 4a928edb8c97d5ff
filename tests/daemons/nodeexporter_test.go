package daemons

import (
	"regexp"
	"testing"
)

// TestNodeExporter: it has no reload. A restart reads its options anew, and is refused if it has no
// such options.
func TestNodeExporter(t *testing.T) {
	const defaults = "/etc/default/prometheus-node-exporter"
	m := newMachine(t, "prometheus-node-exporter", "prometheus-node-exporter")
	m.boot()
	serves := func(text string) error {
		got, err := m.get("http://127.0.0.1:9100/metrics")
		return ok(got, err, text)
	}
	request := func() error { return serves("node_load1 ") }
	if err := request(); err != nil {
		t.Error(err)
	}
	metrics, err := m.get("http://127.0.0.1:9100/metrics")
	if !regexp.MustCompile(`node_filesystem_readonly\{[^}]*mountpoint="/"\} 0\n`).MatchString(metrics) {
		t.Errorf("%v: it does not see / as it is outside of its sandbox", err)
	}
	m.write(defaults, "ARGS=\"--no-collector.loadavg\"\n")
	m.MustCtl("restart", m.name)
	if err := request(); err == nil {
		t.Error("the restart has not read its options")
	}
	m.write(defaults, "ARGS=\"\"\n")
	m.MustCtl("restart", m.name)
	m.refusesRestart(defaults, "ARGS=\"--no-such\"\n", "unknown long flag '--no-such'")
	m.upgrades(request)
	m.MustCtl("stop", m.name)
	if st := m.Status(m.name); st.State != "stopped" || st.Exit.String() != "SIGTERM" {
		t.Errorf("%v, want that SIGTERM ended it", st)
	}
}
