package daemons

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"superd/tests/harness"
)

// TestRsyslog: no message is lost when files are rotated, or at a stop.
func TestRsyslog(t *testing.T) {
	m := newMachine(t, "rsyslog", "rsyslog")
	m.boot()
	var sent atomic.Int64
	request := func() error {
		conn, err := net.Dial("unixgram", m.path("/dev/log"))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "<13>Nov 21 07:20:45 daemon: message %d.", sent.Add(1))
		return err
	}
	const file = "/var/log/syslog"
	written := func() string { return m.read(file+".1") + m.read(file) }
	m.reloads(request, func() {
		m.run("mv", file, file+".1") // as logrotate does
	}, func() bool { return m.read(file) != "" })
	m.refuses("/etc/rsyslog.conf", "module(load=\"imuxsok\")\n", "could not load module 'imuxsok'")
	m.upgrades(request)
	for range 1000 {
		if err := request(); err != nil {
			t.Fatal(err)
		}
	}
	// It does not read its socket to the end when it is stopped.
	harness.Until(t, "it has taken all messages", func() bool {
		return regexp.MustCompile(`(?m)^u_dgr +\w+ +0 +0 +/dev/log `).MatchString(m.run("ss", "-xan"))
	})
	m.stops()
	numbers := regexp.MustCompile(`message (\d+)\.`).FindAllString(written(), -1)
	once := make(map[string]bool)
	for _, n := range numbers {
		once[n] = true
	}
	if int64(len(numbers)) != sent.Load() || int64(len(once)) != sent.Load() {
		t.Errorf("of %d messages %d are written, %d different ones", sent.Load(), len(numbers), len(once))
	}
	m.MustCtl("start", m.name)
	if err := request(); err != nil {
		t.Error(err)
	}
	harness.Until(t, "a message is written after a start", func() bool {
		return strings.Contains(written(), fmt.Sprintf("message %d.", sent.Load()))
	})
	if owner := m.run("stat", "-c", "%U:%G %a", file); owner != "root:adm 640\n" {
		t.Errorf("%s is of %s", file, owner)
	}
}

// TestRsyslogLink: with the change that the example names, a program with private devices still
// reaches rsyslog after its restart.
func TestRsyslogLink(t *testing.T) {
	m := newMachine(t, "rsyslog", "rsyslog")
	m.substitute("ready.notify         = true\n", `ready.notify         = true
runtime_directory    = "rsyslog"
pre_start            = [["ln", "-sfn", "/run/rsyslog/dev-log", "/dev/log"]]
`)
	m.substitute(`"/usr/bin/kill", `, `"/usr/bin/kill", "/usr/bin/ln", `)
	m.run("sed", "-i", `s|(load="imuxsock")|(load="imuxsock" SysSock.Name="/run/rsyslog/dev-log")|`, "/etc/rsyslog.conf")
	m.boot(`
		[program.client]
		command = ["sleep", "infinity"]
		directory = "/"
		after = ["rsyslog"]
		sandbox.private_devices = true
		`)
	client := m.Status("client").Pid
	for _, text := range []string{"before", "after a restart"} {
		m.run("nsenter", "--mount", "--target", strconv.Itoa(client), "logger", "--socket", "/dev/log", "--socket-errors=on", text)
		harness.Until(t, "the message is written", func() bool { return strings.Contains(m.read("/var/log/syslog"), text) })
		m.MustCtl("restart", m.name)
	}
	if now := m.Status("client").Pid; now != client {
		t.Errorf("the client is process %d, was %d", now, client)
	}
}
