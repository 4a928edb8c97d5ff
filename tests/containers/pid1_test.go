package containers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// unknownUID is a user without an entry in /etc/passwd; the container has no such file at all.
const unknownUID = 54321

// TestStrictContainer: superd is PID 1 of the strictest container: a read-only root, a user without
// a name, no capabilities, 50 processes and 64 MiB. Programs start, show their output, and are
// restarted; the supervisor is killed and replaced; all stop in order, with status 0.
func TestStrictContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t, unknownUID, `
[program.web]
command = ["child", "deaf"]
stop_signal = "SIGINT"
requires = ["db"]

[program.db]
command = ["sh", "-c", "trap 'echo db is saved; exit 0' TERM; echo db is up; while :; do sleep 0.1; done"]

[program.setup]
type = "oneshot"
command = ["sh", "-c", "id -u; touch /etc/x 2>&1; echo set up"]
`)
	b.start()
	b.ready()
	harness.Until(t, "all is up", func() bool {
		return b.status("web").State == "running" && b.status("db").State == "running" && b.status("setup").State == "exited"
	})
	web := *b.status("web").Pid
	b.kill(b.supervisor())
	b.ready()
	if now := b.status("web"); now.Pid == nil || *now.Pid != web {
		t.Errorf("after the supervisor was killed web has pid %v, want %d", now.Pid, web)
	}
	b.kill(web)
	harness.Until(t, "web runs again", func() bool {
		now := b.status("web")
		return now.State == "running" && now.Pid != nil && *now.Pid != web
	})

	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, b.log())
	}
	for _, want := range []string{"db is up", strconv.Itoa(unknownUID), "set up", "Read-only file system", "db is saved"} {
		if !strings.Contains(b.log(), want) {
			t.Errorf("the output of the container lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(b.log())
	}
}

// TestOrphansAreReaped: PID 1 reaps the orphans of all programs, and of commands that an engine
// executes in the container.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	b := newBox(t, unknownUID, `
[program.orphans]
command = ["sh", "-c", "while :; do (sleep 0.01 &); sleep 0.01; done"]
`)
	b.limit("pids", map[string]any{"limit": 200})
	b.start()
	b.ready()
	b.run("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &) ; done")
	zombies := func() (n int) {
		for _, line := range strings.Split(b.run("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; true"), "\n") {
			if _, state, ok := strings.Cut(line, ") "); ok && state[0] == 'Z' {
				n++
			}
		}
		return n
	}
	// Each look may find one that has just ended: some look finds none.
	for range 5 {
		harness.Until(t, "no process is a zombie", func() bool { return zombies() == 0 })
	}
	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, b.log())
	}
}

// TestStopWithinTheEnginesGrace: a program that ignores its stop signal is killed in time for
// `docker stop`, and the log says so.
func TestStopWithinTheEnginesGrace(t *testing.T) {
	t.Parallel()
	b := newBox(t, unknownUID, `
[defaults]
stop_timeout = "4s"
[program.deaf]
command = ["child", "deaf"]
[program.polite]
command = ["sh", "-c", "trap 'echo goodbye; exit 0' TERM; echo hello; while :; do sleep 0.1; done"]
requires = ["deaf"]
`)
	b.start()
	b.ready()
	harness.Until(t, "both run", func() bool {
		return b.status("deaf").State == "running" && b.status("polite").State == "running" && *b.status("polite").LastLine == "hello"
	})
	begin := time.Now()
	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	if took := time.Since(begin); took < 4*time.Second {
		t.Errorf("superd ended after %v, before the stop time-out of the deaf program", took)
	}
	for _, want := range []string{"goodbye", "stop_timeout is over, killing"} {
		if !strings.Contains(b.log(), want) {
			t.Errorf("the output of the container lacks %q:\n%s", want, b.log())
		}
	}
}

// TestForkBombInContainer: a fork bomb reaches the container's limit of processes: superd answers,
// restarts what ends, and ends with the container's programs.
func TestForkBombInContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t, unknownUID, `
[program.bomb]
command = ["sh", "-c", "f() { f & sleep 100; }; f; while :; do sleep 1; done"]
stop_timeout = "2s"
[program.good]
command = ["child", "deaf"]
stop_signal = "SIGKILL"
`)
	b.start()
	harness.Until(t, "the bomb has met the limit", func() bool {
		// An engine can't execute a command there now: its process would exceed the limit.
		text, err := b.processes()
		return err == nil && text >= 49
	})
	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, b.log())
	}
}

// TestMemoryOfContainer: a program that exceeds the container's memory limit is killed, not superd.
func TestMemoryOfContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t, unknownUID, `
[program.hog]
command = ["sh", "-c", "echo begin; x=x; while :; do x=$x$x; done"]
backoff = { initial = "1h", max = "1h" }
[program.good]
command = ["child", "deaf"]
stop_signal = "SIGKILL"
`)
	b.start()
	b.ready()
	harness.Until(t, "the hog is killed", func() bool {
		exit := b.status("hog").Exit
		return exit != nil && exit.Signal != nil && *exit.Signal == "SIGKILL"
	})
	if why := b.ctl("why", "hog"); !strings.Contains(why, "SIGKILL") {
		t.Errorf("why hog: %s", why)
	}
	if good := b.status("good"); good.State != "running" || good.Restarts != 0 {
		t.Errorf("good is %s after %d restarts, want running after none", good.State, good.Restarts)
	}
	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, b.log())
	}
}

// TestEssentialEndsTheContainer: the end of an essential program ends the container, with its exit
// status.
func TestEssentialEndsTheContainer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end  string
		want int
	}{{"exit 7", 7}, {"kill -9 $$$$", 128 + 9}, {"true", 0}} {
		b := newBox(t, unknownUID, fmt.Sprintf(`
[program.job]
type = "oneshot"
command = ["sh", "-c", "echo working; %s"]
essential = true
[program.helper]
command = ["child", "deaf"]
stop_signal = "SIGKILL"
`, tt.end))
		b.start()
		if status := b.wait(); status != tt.want || !strings.Contains(b.log(), "working") {
			t.Errorf("after %q the container ended with %d, want %d\n%s", tt.end, status, tt.want, b.log())
		}
	}
}

// TestRootOfContainer: superd as root of a container, with the capabilities that engines leave,
// drops to the user of a program.
func TestRootOfContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t, 0, `
[superd]
log_dir = "/run/log"
[program.web]
command = ["sh", "-c", "id -u; while :; do sleep 1; done"]
user = "12345"
`)
	b.capabilities("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW",
		"CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
		"CAP_KILL", "CAP_AUDIT_WRITE")
	b.addFile("etc/passwd", "root:x:0:0::/:/bin/sh\nweb:x:12345:12345::/:/bin/sh\n")
	b.addFile("etc/group", "root:x:0:\nweb:x:12345:\n")
	b.start()
	b.ready()
	harness.Until(t, "web has printed its user", func() bool {
		line := b.status("web").LastLine
		return line != nil && *line == "12345"
	})
	if status := b.stop(); status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, b.log())
	}
}
