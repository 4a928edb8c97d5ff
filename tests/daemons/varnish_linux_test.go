package daemons

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVarnish: a reload loads the new VCL beside the one in use.
func TestVarnish(t *testing.T) {
	m := newMachine(t, "varnish", "varnish")
	if m.lacks(unix.CAP_SYS_RESOURCE) {
		m.substitute("nofile = 131072, memlock = 85983232", "nofile = 4096")
	}
	m.backend("127.0.0.1:8080")
	m.backend("127.0.0.1:8081")
	m.boot()

	var pages atomic.Int64
	serves := func(text string) error {
		got, err := m.get(fmt.Sprintf("http://127.0.0.1:6081/%d", pages.Add(1))) // not in the cache
		return ok(got, err, text)
	}
	request := func() error { return serves("127.0.0.1:808") }
	const file = "/etc/varnish/default.vcl"
	m.reloads(request, func() {
		m.write(file, strings.Replace(m.read(file), `.port = "8080"`, `.port = "8081"`, 1))
	}, func() bool { return serves("127.0.0.1:8081") == nil })
	m.refuses(file, m.read(file)+"sub vcl_recv { retrun (pass); }\n", "Symbol not found: 'retrun'")
	m.upgrades(request)
	m.stops()
}
