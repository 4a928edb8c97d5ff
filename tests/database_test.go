package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// postgres returns the directory of PostgreSQL's programs, which Debian does not put on PATH.
func postgres(t *testing.T) (bin string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no PostgreSQL (make deps installs it): %v, %v", found, err)
	}
	return found[len(found)-1]
}

// TestPostgreSQL creates, migrates and fills a PostgreSQL database. The database is killed, hangs
// and is stopped; its writers continue, or wait and come back. In the end it has everything that it
// has acknowledged.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	user := ""
	if os.Getuid() == 0 {
		user = "user = 'nobody'" // PostgreSQL refuses to run as root
	}
	port := freePort(t)
	config := `
		[defaults]
		` + user + `
		environment = { PGHOST = "DIR/db", PGPORT = "` + port + `", PGUSER = "app", PGDATABASE = "postgres", PGCONNECT_TIMEOUT = "2" }
		backoff.initial = "50ms"
		[program.cluster]
		type = "oneshot"
		command = ["` + postgres(t) + `/initdb", "-D", "DIR/db/data", "-A", "trust", "-U", "app", "-E", "UTF8", "--locale=C", "--no-sync"]
		[program.db]
		command = ["` + postgres(t) + `/postgres", "-D", "DIR/db/data", "-k", "DIR/db", "-h", "127.0.0.1", "-p", "${PGPORT}", "-c", "fsync=off"]
		stop_signal = "SIGINT" # its fast shutdown
		requires = ["cluster"]
		ready = { exec = "pg_isready", interval = "200ms" }
		health = { exec = ["psql", "-Atqc", "select 1"], interval = "300ms", timeout = "2s", failures = 2 }
		[program.migrate]
		type = "oneshot"
		command = ["psql", "-qc", "create table numbers (writer text, n int, primary key (writer, n))"]
		requires = ["db"]
		[program.writer]
		command = ["sh", "DIR/write"]
		replicas = 2
		requires = ["db", "migrate"]
		ready = { line = '^wrote \d+$' }
		`
	s := harness.NewSite(t, config)
	s.Mkdir("db")
	s.Chmod("db", 0o777)
	// A writer repeats a number until the database has acknowledged it.
	s.Write("write", `
		n=$(psql -Atqc "select coalesce(max(n), 0) from numbers where writer = '$SUPERD_INSTANCE'") || exit
		while n=$((n + 1)); do
			until psql -qc "insert into numbers values ('$SUPERD_INSTANCE', $n) on conflict do nothing"; do sleep 0.05; done
			echo wrote $n
		done`)
	s.Start()
	writers := []string{"writer@1", "writer@2"}
	pids := map[string]int{}
	for _, name := range writers {
		pids[name] = s.WaitState(name, "running").Pid
	}
	up := append(states(s, 0, "exited"), states(s, 0, "running")...)
	before(t, up, "cluster", "db")
	before(t, up, "migrate", "writer@1")

	// wrote returns the newest number that the database has acknowledged.
	wrote := func(name string) (n int) {
		for line := range strings.Lines(s.Log(name)) {
			if number, ok := strings.CutPrefix(line, "wrote "); ok {
				n, _ = strconv.Atoi(strings.TrimSpace(number))
			}
		}
		return n
	}
	checkWrites := func(why string) {
		t.Helper()
		for _, name := range writers {
			from := wrote(name)
			harness.Until(t, name+" writes on, after the database "+why, func() bool { return wrote(name) > from })
		}
	}
	sameWriters := func(why string) {
		t.Helper()
		for _, name := range writers {
			if st := s.Status(name); st.Pid != pids[name] || st.State != "running" {
				t.Errorf("the database %s, and its writer: %v, want pid %d", why, st, pids[name])
			}
		}
	}
	db := s.Status("db").Pid
	another := func(what string) harness.Status {
		t.Helper()
		st := s.WaitStatus("db", what, func(st harness.Status) bool { return st.State == "running" && st.Pid != db })
		db = st.Pid
		return st
	}
	checkWrites("has come up")
	for _, ready := range []string{`exec = "pg_isready"`, `tcp = "127.0.0.1:` + port + `"`} {
		s.Configure(strings.Replace(config, `exec = "pg_isready"`, ready, 1))
		s.MustCtl("reload")
		if st := s.Status("db"); st.Pid != db {
			t.Fatalf("it is asked by %s now, and is another process: %v", ready, st)
		}
		s.Kill(db, syscall.SIGKILL)
		if st := another("is there again after SIGKILL"); !strings.Contains(st.Reason, "; ready after ") {
			t.Errorf("%v, want it ready", st)
		}
		checkWrites("was killed")
		sameWriters("was killed")
	}

	// It hangs: its health check uses it as its clients do.
	s.Kill(db, syscall.SIGSTOP)
	another("is started again, as it hangs")
	if why := s.MustCtl("why", "db").Out; !strings.Contains(why, "unhealthy: 2 failed checks in a row: exec psql -Atqc select 1: ") {
		t.Errorf("why db:\n%s", why)
	}
	checkWrites("hung")
	sameWriters("hung")

	s.MustCtl("stop", "db")
	for _, name := range writers {
		if st := s.Status(name); st.State != "waiting" || !strings.Contains(st.Reason, "waits for db, which the operator has stopped") {
			t.Errorf("the database is stopped: %v", st)
		}
	}
	if st := s.Status("db"); st.Exit.String() != "0" {
		t.Errorf("%v, want that it ended in order", st)
	}
	s.MustCtl("start", "db")
	for _, name := range writers {
		s.WaitState(name, "running")
	}
	checkWrites("was stopped and started")
	s.MustCtl("stop", "writer")
	for _, name := range writers {
		query := exec.Command("psql", "-h", s.Path("db"), "-p", port, "-U", "app", "-d", "postgres", "-Atqc", "select count(*), max(n) from numbers where writer = '"+name+"'")
		out, err := query.CombinedOutput()
		var count, most int
		if _, scanErr := fmt.Sscanf(string(out), "%d|%d", &count, &most); err != nil || scanErr != nil {
			t.Fatalf("ask the database: %v, %v: %s", err, scanErr, out)
		}
		// A number acknowledged just before the stop may not have been printed.
		if n := wrote(name); count != most || most < n || most > n+1 {
			t.Errorf("the database has %d numbers of %s up to %d; %d were acknowledged", count, name, most, n)
		}
	}
}
