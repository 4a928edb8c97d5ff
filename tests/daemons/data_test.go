package daemons

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

const redis = `
	[program.redis]
	command = ["/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", "REDIS_PORT", "--dir", "DIR/redis",
		"--save", "3600 1", "--supervised", "systemd", "--daemonize", "no"]
	user = "redis"
	ready = { notify = true }
	sandbox = { preset = "strict", read_write = ["DIR/redis"] }
	`

func TestRedis(t *testing.T) {
	s := newSite(t, "redis-server")
	s.port("REDIS_PORT")
	s.folder("redis", "redis")
	s.start(redis)
	s.want("OK\n", "redis-cli", "-p", "REDIS_PORT", "set", "key", "kept")
	if got := s.Field(s.Status("redis").Pid, "status", "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs = %s, want that of the sandbox", got)
	}
	s.stop("redis")
	s.WaitLog("redis", "DB saved on disk")
	s.MustCtl("start", "redis")
	s.want("kept\n", "redis-cli", "-p", "REDIS_PORT", "get", "key")
}

func TestPostgreSQL(t *testing.T) {
	s := newSite(t, "postgresql")
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Fatalf("no postgres: %v", err)
	}
	s.replacements = append(s.replacements, "PGBIN", filepath.Dir(found[0]))
	s.port("PORT")
	s.folder("db", "postgres")
	s.run("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "PGBIN/initdb", "-D", "DIR/db", "--auth=trust", "--no-sync")
	s.start(`
		[program.postgres]
		command = ["PGBIN/postgres", "-D", "DIR/db", "-c", "listen_addresses=127.0.0.1", "-c", "port=PORT",
			"-c", "unix_socket_directories="]
		user = "postgres"
		oom_score_adj = 200
		limits = { nofile = "1024:2048", memlock = "64KiB" }
		ready = { notify = true }
		stop_signal = "SIGINT"
		stop_timeout = "60s"
		sandbox = { preset = "strict", read_write = ["DIR/db"] }
		`)
	pid := strconv.Itoa(s.Status("postgres").Pid)
	s.want("200\n", "cat", "/proc/"+pid+"/oom_score_adj")
	s.want("1024 2048\n", "sh", "-c", "sed -n 's/^Max open files *//p' /proc/"+pid+"/limits | awk '{ print $1, $2 }'")
	psql := []string{"psql", "-h", "127.0.0.1", "-p", "PORT", "-U", "postgres", "-Atqc"}
	s.run(append(psql, "create table t (n int); insert into t select generate_series(1, 1000)")...)
	s.stop("postgres")
	log := s.WaitLog("postgres", "database system is shut down")
	s.MustCtl("start", "postgres")
	s.want("1000\n", append(psql, "select count(*) from t")...)
	if log = s.Log("postgres")[len(log):]; !strings.Contains(log, "database system was shut down at") || strings.Contains(log, "recovery") {
		t.Errorf("it was not shut down in order:\n%s", log)
	}
}

func TestMosquitto(t *testing.T) {
	s := newSite(t, "mosquitto")
	s.port("PORT")
	s.folder("data", "mosquitto")
	s.file("mosquitto.conf", `
user mosquitto
listener PORT 127.0.0.1
allow_anonymous true
persistence true
persistence_location DIR/data/
log_dest stderr
`)
	s.start(`
		[program.mosquitto]
		command = ["/usr/sbin/mosquitto", "-c", "DIR/mosquitto.conf"]
		ready = { notify = true }
		[program.mosquitto.sandbox]
		preset = "strict"
		capabilities = ["CAP_SETUID", "CAP_SETGID"]
		read_only = ["DIR/mosquitto.conf"]
		read_write = ["DIR/data"]
		`)
	if as := userOf(t, s.Status("mosquitto").Pid); as != "mosquitto" {
		t.Errorf("it runs as %s", as)
	}
	s.run("mosquitto_pub", "-p", "PORT", "-t", "topic", "-m", "kept", "-r", "-q", "1")
	s.stop("mosquitto")
	s.MustCtl("start", "mosquitto")
	s.want("kept\n", "mosquitto_sub", "-p", "PORT", "-t", "topic", "-C", "1", "-W", "60")
}

// TestCelery: tasks under way at a stop are finished, and waiting ones stay in the queue.
func TestCelery(t *testing.T) {
	s := newSite(t, "python3-celery", "redis-server")
	s.port("REDIS_PORT")
	s.folder("redis", "redis")
	s.folder("app", "www-data")
	s.file("app/tasks.py", `
import os, time
from celery import Celery
app = Celery("tasks", broker="redis://127.0.0.1:REDIS_PORT/0")
@app.task
def work(n):
    with open(f"DIR/app/begun.{n}", "a") as f: f.write("begun\n")
    while not os.path.exists("DIR/go"): time.sleep(0.05)
    with open(f"DIR/app/done.{n}", "a") as f: f.write("done\n")
`)
	s.start(redis + `
		[program.celery]
		command = ["/usr/bin/python3", "-m", "celery", "-A", "tasks", "worker", "--concurrency=2", "--loglevel=INFO"]
		directory = "DIR/app"
		user = "www-data"
		requires = ["redis"]
		ready = { line = 'celery@\S+ ready' }
		start_timeout = "80s"
		stop_timeout = "80s"
		`)
	const tasks = 6
	s.run("env", "PYTHONPATH=DIR/app", "/usr/bin/python3", "-c", fmt.Sprintf("import tasks\nfor n in range(%d): tasks.work.delay(n)", tasks))
	files := func(kind string) (written int) {
		for n := range tasks {
			if s.Read(fmt.Sprintf("app/%s.%d", kind, n)) != "" {
				written++
			}
		}
		return written
	}
	harness.Until(t, "two tasks have begun", func() bool { return files("begun") == 2 })
	s.MustCtl("stop", "--no-wait", "celery")
	s.WaitLog("celery", "Warm shutdown")
	if st := s.Status("celery"); st.State != "stopping" || files("done") > 0 {
		t.Errorf("%v, want it to wait for its tasks", st)
	}
	s.file("go", "")
	s.stopped("celery")
	if begun, done := files("begun"), files("done"); done != begun || begun == tasks {
		t.Errorf("of %d tasks that had begun %d were finished\n%s", begun, done, s.Log("celery"))
	}
	s.MustCtl("start", "celery")
	harness.Until(t, "all tasks are done", func() bool { return files("done") == tasks })
	for n := range tasks {
		for _, kind := range []string{"begun", "done"} {
			if b, err := os.ReadFile(s.Path(fmt.Sprintf("app/%s.%d", kind, n))); string(b) != kind+"\n" {
				t.Errorf("task %d: %q, %v: want it %s once", n, b, err, kind)
			}
		}
	}
}
