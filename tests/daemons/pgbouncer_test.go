package daemons

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestPgBouncer: a stop waits for the transaction under way.
func TestPgBouncer(t *testing.T) {
	m := newMachine(t, "pgbouncer", "pgbouncer", "postgresql")
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Fatalf("no postgres: %v", err)
	}
	const data, ini = "/var/lib/postgresql/test", "/etc/pgbouncer/pgbouncer.ini"
	m.run("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups",
		filepath.Join(filepath.Dir(found[0]), "initdb"), "-D", data, "--auth=trust", "--no-sync")
	databases := func(names ...string) {
		text := "[databases]\n"
		for _, name := range names {
			text += name + " = host=127.0.0.1 dbname=postgres user=postgres\n"
		}
		m.write("/etc/pgbouncer/databases.ini", text)
	}
	databases("one")
	m.write(ini, m.read(ini)+"auth_type = any\npool_mode = transaction\n%include /etc/pgbouncer/databases.ini\n")
	m.boot(`
		[program.db]
		command = ["` + found[0] + `", "-D", "` + data + `", "-c", "unix_socket_directories="]
		user = "postgres"
		directory = "/"
		ready.notify = true
		stop_signal = "INT"
		`)
	psql := func(database, statements string) *exec.Cmd {
		return m.command("psql", "-h", "127.0.0.1", "-p", "6432", "-U", "postgres", "-Atqc", statements, database)
	}
	serves := func(database string) error {
		out, err := psql(database, "select 'served'").CombinedOutput()
		return ok(string(out), err, "served\n")
	}
	request := func() error { return serves("one") }
	m.reloads(request, func() { databases("one", "two") }, func() bool { return serves("two") == nil })
	m.refuses(ini, "[pgbouncer]\nlisten_port\n", "syntax error in configuration (/etc/pgbouncer/pgbouncer.ini:2)")
	m.upgrades(request)

	if out, err := psql("one", "create table t (n int)").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	transaction := psql("one", "begin; insert into t values (1); select pg_sleep(2); insert into t values (2); commit; select 'committed'")
	var out strings.Builder
	transaction.Stdout, transaction.Stderr = &out, &out
	if err := transaction.Start(); err != nil {
		t.Fatal(err)
	}
	active := []string{"psql", "-h", "127.0.0.1", "-U", "postgres", "-Atqc",
		"select count(*) from pg_stat_activity where wait_event = 'PgSleep'"}
	harness.Until(t, "the transaction is under way", func() bool { return m.run(active...) == "1\n" })
	m.stops()
	if err := transaction.Wait(); err != nil || !strings.Contains(out.String(), "committed") {
		t.Errorf("the transaction under way at the stop: %v, %s", err, &out)
	}
	m.MustCtl("start", m.name)
	if rows, err := psql("two", "select count(*) from t").CombinedOutput(); string(rows) != "2\n" {
		t.Errorf("%s, %v, want 2 rows", rows, err)
	}
	if log := m.read("/var/log/postgresql/pgbouncer.log"); !strings.Contains(log, "got SIGINT") {
		t.Errorf("its log is:\n%s", log)
	}
}
