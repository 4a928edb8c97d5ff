package daemons

import (
	"fmt"
	"os"
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
