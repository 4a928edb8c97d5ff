package daemons

import (
	"fmt"
	"net/smtp"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"superd/tests/harness"
)

// TestPostfix: each mail that it has accepted is delivered once.
func TestPostfix(t *testing.T) {
	m := newMachine(t, "postfix", "postfix")
	m.write("/etc/passwd", m.read("/etc/passwd")+"receiver:x:2000:2000::/nonexistent:/bin/false\n")
	m.run("postconf", "-e", "smtpd_banner = one", "maillog_file = /dev/stdout", "maillog_file_prefixes = /dev")
	m.boot()

	var sent atomic.Int64
	greeting := func() string {
		conn, err := m.dial("tcp", "127.0.0.1:25")
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		var code, text string
		fmt.Fscan(conn, &code, &text)
		return text
	}
	request := func() error {
		conn, err := m.dial("tcp", "127.0.0.1:25")
		if err != nil {
			return err
		}
		defer conn.Close()
		client, err := smtp.NewClient(conn, "localhost")
		if err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return client.Mail("sender@localhost") },
			func() error { return client.Rcpt("receiver@localhost") },
			func() error {
				w, err := client.Data()
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "Subject: mail %d.\n\ntext\n", sent.Add(1))
				return w.Close()
			},
			client.Quit,
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
	m.reloads(request, func() { m.run("postconf", "-e", "smtpd_banner = two") }, func() bool {
		return greeting() == "two" && strings.Contains(m.Log(m.name), ": reload -- version")
	})
	m.refuses("/etc/postfix/main.cf", "no value\n", "missing '=' after attribute name")
	m.refuses("/etc/postfix/master.cf", "smtp inet\n", "bad field count")
	m.upgrades(request)

	m.run("postconf", "-e", "defer_transports = local") // so that the queue has mails at the stop
	m.MustCtl("reload", m.name)
	for range 5 {
		if err := request(); err != nil {
			t.Error(err)
		}
	}
	m.MustCtl("stop", m.name)
	if st := m.Status(m.name); st.State != "stopped" || st.Exit.String() != "SIGTERM" {
		t.Errorf("%v, want that SIGTERM of stop_command ended it", st)
	}
	m.run("postconf", "-e", "defer_transports =")
	m.MustCtl("start", m.name)
	m.run("postqueue", "-f")
	var mails []string
	harness.Until(t, "all mails are delivered", func() bool {
		mails = regexp.MustCompile(`(?m)^Subject: mail \d+\.$`).FindAllString(m.read("/var/mail/receiver"), -1)
		return int64(len(mails)) >= sent.Load()
	})
	once := make(map[string]bool)
	for _, mail := range mails {
		once[mail] = true
	}
	if int64(len(once)) != sent.Load() || len(mails) != len(once) {
		t.Errorf("of %d mails %d are delivered, %d different ones", sent.Load(), len(mails), len(once))
	}
	if as := userOf(t, m.pid()); as != "root" {
		t.Errorf("it runs as %s", as)
	}
	m.want("NoNewPrivs:\t1\n", "grep", "NoNewPrivs", "/proc/"+strconv.Itoa(m.pid())+"/status")
}
