package tests

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// freePort returns a TCP port of 127.0.0.1 on which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// systemd's own command tells superd what a service under systemd tells it.
func TestSystemdNotify(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "cat DIR/gate; systemd-notify --ready --status='serving 3 clients'; exec sleep infinity"]
		ready = { notify = true }
		[program.proxy]
		command = "sleep infinity"
		requires = ["web"]
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitStatus("web", "is starting with a process", func(st harness.Status) bool { return st.State == "starting" && st.Pid != 0 })
	if st := s.WaitState("proxy", "waiting"); st.Pid != 0 {
		t.Errorf("before READY=1: %v", st)
	}
	open()
	s.WaitState("proxy", "running")
	st := s.WaitStatus("web", "tells its status", func(st harness.Status) bool { return strings.Contains(st.Reason, "serving 3 clients") })
	if st.State != "running" || !st.Ready {
		t.Errorf("after READY=1: %v", st)
	}
}

// A real web server is ready when it answers, is found unhealthy when it doesn't, and is restarted, not so who needs it.
func TestWebServer(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := harness.NewSite(t, strings.ReplaceAll(`
		[program.web]
		command = "python3 -m http.server --bind 127.0.0.1 PORT"
		directory = "DIR/www"
		ready = { http = "http://127.0.0.1:PORT/", interval = "50ms" }
		health = { http = "http://127.0.0.1:PORT/", interval = "100ms", timeout = "500ms", failures = 2 }
		stop_timeout = "1s"
		[program.client]
		command = "sleep infinity"
		requires = ["web"]
		`, "PORT", port))
	s.Mkdir("www")
	s.Write("www/page", "hello")
	s.Start()
	s.WaitState("client", "running")
	before := s.Status("web")
	answer, err := http.Get("http://127.0.0.1:" + port + "/page")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the server is ready: %v, %v", answer, err)
	}
	answer.Body.Close()
	s.WaitStatus("web", "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
	s.Kill(before.Pid, syscall.SIGSTOP) // it hangs
	s.WaitStatus("web", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != before.Pid })
	s.WaitRunning()
}

// postgres returns where PostgreSQL's programs are, and the user as whom the server runs, empty for superd's own.
func postgres(t *testing.T) (bin, account string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // as Debian has it
	if len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			t.Fatal("no PostgreSQL: run tests/install-packages.sh")
		}
		found = []string{path}
	}
	if os.Geteuid() == 0 { // which it refuses
		account = "postgres"
	}
	return filepath.Dir(found[len(found)-1]), account
}

// A real database: made once, ready when it answers, killed and recovered under programs that need it, and stopped after them.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	bin, account := postgres(t)
	port := freePort(t)
	text := `
		[program.initdb]
		type = "oneshot"
		command = "BIN/initdb -D DIR/pg/data -U postgres --auth=trust --no-sync --no-instructions"
		USER
		[program.db]
		command = "BIN/postgres -D DIR/pg/data -k DIR/pg -h 127.0.0.1 -p PORT -c fsync=off"
		USER
		requires = ["initdb"]
		stop_signal = "SIGINT"
		ready = { exec = ["BIN/pg_isready", "-q", "-h", "127.0.0.1", "-p", "PORT"], interval = "100ms" }
		backoff = { initial = "1s" }
		[program.listening]
		command = "sleep infinity"
		requires = ["db"]
		[program.app]
		command = ["sh", "-c", "psql -qAt -c 'create table if not exists t (n int); insert into t values (1); select count(*) || chr(32) || chr(114) from t' && exec sleep infinity"]
		environment = { PGHOST = "127.0.0.1", PGPORT = "PORT", PGUSER = "postgres", PATH = "BIN:${PATH}" }
		requires = ["db"]
		restart = "never"
		`
	owner := ""
	if account != "" {
		owner = fmt.Sprintf("user = %q", account)
	}
	s := harness.NewSite(t, strings.NewReplacer("BIN", bin, "PORT", port, "USER", owner).Replace(text))
	s.Mkdir("pg")
	if account != "" {
		chown(t, s.Path("pg"), account)
	}
	d := s.Start()
	s.WaitLog("app", "1 r\n") // it has found the database ready at its first and only try
	app := s.WaitState("app", "running")
	if st := s.Status("initdb"); st.State != "exited" {
		t.Errorf("initdb: %v", st)
	}

	// Killed: it recovers, its programs are left alone.
	db := s.WaitState("db", "running")
	s.Kill(db.Pid, syscall.SIGKILL)
	s.WaitStatus("db", "runs again", func(st harness.Status) bool { return st.State == "running" && st.Pid != db.Pid })
	if st := s.Status("app"); st.Pid != app.Pid {
		t.Errorf("app after the crash of db: %v, want pid %d", st, app.Pid)
	}

	// Stopped and started: so are they, and what was written is there.
	s.MustCtl("stop", "db")
	s.WaitState("app", "waiting")
	s.MustCtl("start", "db")
	s.WaitLog("app", "2 r\n")
	s.WaitState("app", "running")

	s.MustCtl("shutdown")
	d.Wait()
	if log := s.Log("db"); strings.Count(log, "database system is shut down") != 2 {
		t.Errorf("db was not shut down well at the stop and at the end:\n%s", log)
	}
}

func chown(t *testing.T, path, name string) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
}
