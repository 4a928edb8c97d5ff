package daemons

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

// query sends a query on a connection of its own, by the protocol of postgresql. It returns the
// first column of the last row.
func (m *machine) query(sql string) (value string, err error) {
	c, err := m.client("tcp", "127.0.0.1:5432")
	if err != nil {
		return "", err
	}
	defer c.Close()
	send := func(kind, content string) {
		length := binary.BigEndian.AppendUint32(nil, uint32(4+len(content)))
		io.WriteString(c, kind+string(length)+content)
	}
	send("", "\x00\x03\x00\x00user\x00postgres\x00\x00")
	for asked := false; ; {
		var head struct {
			Kind   byte
			Length uint32
		}
		if err := binary.Read(c.lines, binary.BigEndian, &head); err != nil {
			return "", err
		}
		content := make([]byte, head.Length-4)
		if _, err := io.ReadFull(c.lines, content); err != nil {
			return "", err
		}
		switch {
		case head.Kind == 'Z' && asked:
			return value, nil
		case head.Kind == 'Z':
			asked = true
			send("Q", sql+"\x00")
		case head.Kind == 'D':
			length := binary.BigEndian.Uint32(content[2:])
			value = string(content[6 : 6+length])
		case head.Kind == 'E':
			return "", fmt.Errorf("%s: %s", sql, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
}

// TestPostgreSQL: what is committed is kept by a stop, which ends sessions in order.
func TestPostgreSQL(t *testing.T) {
	m := newMachine(t, "postgresql", "postgresql-15")
	if _, err := os.Stat(m.path("/etc/postgresql/15/main/postgresql.conf")); err != nil {
		m.run("pg_createcluster", "15", "main")
	}
	server := "-900"
	if effective, err := strconv.ParseUint(m.Field(os.Getpid(), "status", "CapEff"), 16, 64); err != nil || effective>>24&1 == 0 {
		server = "100" // no CAP_SYS_RESOURCE
		m.substitute("oom_score_adj  = -900", "oom_score_adj  = "+server)
	}
	const hba, conf = "/etc/postgresql/15/main/pg_hba.conf", "/etc/postgresql/15/main/conf.d/test.conf"
	m.write(hba, "host all all 127.0.0.1/32 trust\n"+m.read(hba))
	m.boot()
	adjusted := func(pid, wanted string) {
		t.Helper()
		if got := m.read("/proc/" + pid + "/oom_score_adj"); got != wanted+"\n" {
			t.Errorf("oom_score_adj of process %s: %q, want %s", pid, got, wanted)
		}
	}
	checkpointer, err := m.query("select pid from pg_stat_activity where backend_type = 'checkpointer'")
	if err != nil {
		t.Fatal(err)
	}
	adjusted(strconv.Itoa(m.pid()), server)
	adjusted(checkpointer, "0")
	one := func() error {
		got, err := m.query("select 1")
		return ok(got, err, "1")
	}
	m.reloads(one, func() { m.write(conf, "work_mem = 7MB\n") }, func() bool {
		got, err := m.query("show work_mem")
		return ok(got, err, "7MB") == nil
	})
	m.refuses(conf, "work_mem = much\n", `invalid value for parameter "work_mem": "much"`)
	m.upgrades(one)
	m.healthy()

	if _, err := m.query("create table t (n int)"); err != nil {
		t.Fatal(err)
	}
	session := make(chan error, 1)
	go func() {
		_, err := m.query("begin; insert into t values (-1); select pg_sleep(600); commit")
		session <- err
	}()
	harness.Until(t, "a transaction is under way", func() bool {
		got, err := m.query("select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
		return ok(got, err, "1") == nil
	})
	confirmed := m.writes(func(n int) error {
		_, err := m.query("insert into t values (" + strconv.Itoa(n) + ")")
		return err
	}, m.stops)
	if err := <-session; err == nil || !strings.Contains(err.Error(), "terminating connection due to administrator command") {
		t.Errorf("the session ends with %v", err)
	}
	log := m.WaitLog("postgresql", "database system is shut down")
	m.MustCtl("start", "postgresql")
	got, err := m.query("select count(distinct n) from t where n >= 0")
	if kept, _ := strconv.Atoi(got); err != nil || kept < confirmed || kept > confirmed+1 {
		t.Errorf("%s rows, %v, want the %d that were confirmed", got, err, confirmed)
	}
	if got, err := m.query("select count(*) from t where n < 0"); ok(got, err, "0") != nil {
		t.Errorf("%s rows that were not committed, %v", got, err)
	}
	if log = m.Log("postgresql")[len(log):]; !strings.Contains(log, "database system was shut down at") || strings.Contains(log, "recovery") {
		t.Errorf("it was not shut down in order:\n%s", log)
	}
}
