package daemons

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestCelery: tasks under way at a stop are finished, and waiting ones stay in the queue.
func TestCelery(t *testing.T) {
	m := newMachine(t, "celery", "python3-celery", "redis-server")
	m.run("install", "-d", "-o", "www-data", "/var/lib/tasks")
	const dir = "/var/lib/tasks/"
	m.write(dir+"tasks.py", `
import os, time
from celery import Celery
app = Celery("tasks", broker="redis://127.0.0.1/0")
@app.task
def work(n):
    with open(f"begun.{n}", "a") as f: f.write("begun\n")
    while not os.path.exists("go"): time.sleep(0.05)
    with open(f"done.{n}", "a") as f: f.write("done\n")
`)
	redis, err := os.ReadFile("../../examples/services/redis.toml")
	if err != nil {
		t.Fatal(err)
	}
	m.boot(string(redis))
	const tasks = 6
	m.run("env", "PYTHONPATH="+dir, "/usr/bin/python3", "-c", fmt.Sprintf("import tasks\nfor n in range(%d): tasks.work.delay(n)", tasks))
	files := func(kind string) (written int) {
		for n := range tasks {
			if m.read(fmt.Sprint(dir, kind, ".", n)) != "" {
				written++
			}
		}
		return written
	}
	harness.Until(t, "two tasks have begun", func() bool { return files("begun") == 2 })
	pid := m.pid()
	m.MustCtl("upgrade")
	if now := m.pid(); now != pid {
		t.Errorf("after an upgrade it is process %d, %d before", now, pid)
	}
	m.MustCtl("stop", "--no-wait", "celery")
	m.WaitLog("celery", "Warm shutdown")
	if st := m.Status("celery"); st.State != "stopping" || files("done") > 0 {
		t.Errorf("%v, want it to wait for its tasks", st)
	}
	m.write(dir+"go", "")
	m.stopped("celery")
	if begun, done := files("begun"), files("done"); done != begun || begun == tasks {
		t.Errorf("of %d tasks that had begun %d were finished\n%s", begun, done, m.Log("celery"))
	}
	m.MustCtl("start", "celery")
	harness.Until(t, "all tasks are done", func() bool { return files("done") == tasks })
	for n := range tasks {
		for _, kind := range []string{"begun", "done"} {
			if got := m.read(fmt.Sprint(dir, kind, ".", n)); strings.TrimSpace(got) != kind {
				t.Errorf("task %d: %q: want it %s once", n, got, kind)
			}
		}
	}
	m.stops() // before redis, without which it takes longer
}
