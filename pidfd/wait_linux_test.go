package pidfd

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestWaitReportsHowItEnded(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   Exit
	}{
		{"success", "exit 0", Exit{Known: true}},
		{"a status", "exit 3", Exit{Known: true, Code: 3}},
		{"the largest status", "exit 255", Exit{Known: true, Code: 255}},
		{"SIGKILL", "kill -KILL $$", killed(unix.SIGKILL)},
		{"SIGTERM", "kill -TERM $$", killed(unix.SIGTERM)},
		{"a signal that would dump core, if it might", "ulimit -c 0; kill -QUIT $$", killed(unix.SIGQUIT)},
		{"a status that looks like a signal", "exit 137", Exit{Known: true, Code: 137}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := spawn(t, "read x; "+tt.script)
			if e, ok, err := c.Wait(); ok || err != nil {
				t.Fatalf("Wait() of a living process = %v, %v, %v", e, ok, err)
			}
			c.in.Close()
			e := mustExit(t, c.Process)
			if outcome(e) != tt.want {
				t.Errorf("Wait() = %+v, want %+v", outcome(e), tt.want)
			}
			if second, ok, err := c.Wait(); !ok || err != nil || second != e {
				t.Errorf("second Wait() = %+v, %v, %v, want %+v", second, ok, err, e)
			}
		})
	}
}

func TestWaitSeesTheCoreDump(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.ContainsAny(string(pattern), "|/") {
		t.Skipf("core_pattern is %q, %v: not a file in the working directory", pattern, err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit.Max == 0 {
		t.Skipf("no core dumps allowed: %+v, %v", limit, err)
	}
	dir := t.TempDir()
	c := spawnAttr(t, &Attr{
		Path: "/bin/sh", Args: []string{"sh", "-c", "ulimit -c $(ulimit -H -c); kill -SEGV $$"}, Dir: dir, CgroupFD: -1,
	})
	e := mustExit(t, c.Process)
	cores, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Exit{Known: true, Signal: unix.SIGSEGV, Core: true}
	if outcome(e) != want || len(cores) == 0 {
		t.Errorf("Wait() = %v, %d core files, want %v and one", e, len(cores), want)
	}
}

func TestWaitReportsResourceUsage(t *testing.T) {
	c := spawn(t, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	e := mustExit(t, c.Process)
	if e.UserTime <= 0 || e.UserTime > deadline || e.SystemTime < 0 {
		t.Errorf("CPU time %v user, %v system", e.UserTime, e.SystemTime)
	}
	if e.MaxRSSBytes < 64<<10 || e.MaxRSSBytes > 1<<30 {
		t.Errorf("resident set of a shell: %d bytes", e.MaxRSSBytes)
	}
}

// TestWaitLate: late reaping makes no difference: a zombie waits for its parent.
func TestWaitLate(t *testing.T) {
	c := spawn(t, "exit 5")
	await(t, c.Process, unix.POLLIN)
	spawned := spawn(t, "exit 6") // other processes come and go meanwhile
	mustExit(t, spawned.Process)
	if e := mustExit(t, c.Process); outcome(e) != (Exit{Known: true, Code: 5}) {
		t.Errorf("Wait() = %v, want exit status 5", e)
	}
}

func TestWaitForAStranger(t *testing.T) {
	if e, ok, err := open(t, os.Getpid()).Wait(); ok || !errors.Is(err, ErrNotChild) || !errors.Is(err, unix.ECHILD) {
		t.Errorf("Wait() for ourselves = %v, %v, %v, want ErrNotChild", e, ok, err)
	}
	c := spawn(t, "exit 0")
	second := open(t, c.Pid())
	mustExit(t, c.Process)
	if e, ok, err := second.Wait(); ok || !errors.Is(err, ErrNotChild) {
		t.Errorf("Wait() for a child reaped through another pidfd = %v, %v, %v, want ErrNotChild", e, ok, err)
	}
}

// TestExitInfoOfAProcessReapedElsewhere: a process is reaped by another parent, as the keeper does
// after a crash of the supervisor.
func TestExitInfoOfAProcessReapedElsewhere(t *testing.T) {
	if !Probe().ExitInfo {
		t.Skip("the kernel keeps no exit status for pidfds")
	}
	tests := []struct {
		name, script string
		want         Exit
	}{
		{"a status", "read x; exit 42", Exit{Known: true, Code: 42}},
		{"a signal", "read x; kill -KILL $$", killed(unix.SIGKILL)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The middle shell reaps on command only, so that the zombie can be seen.
			r, w := pipe(t)
			c := spawnAttr(t, &Attr{
				Path:  "/bin/sh",
				Args:  []string{"sh", "-c", `sh -c "$0" <&3 & exec 3<&-; echo $!; read x; wait $!; echo reaped; read x`, tt.script},
				Files: []int{int(r.Fd())}, CgroupFD: -1,
			})
			r.Close()
			p := open(t, c.number(t))
			if e, ok, err := p.ExitInfo(); ok || err != nil {
				t.Fatalf("ExitInfo() of a living process = %v, %v, %v", e, ok, err)
			}
			w.Close()
			await(t, p, unix.POLLIN)
			if e, ok, err := p.Wait(); ok || !errors.Is(err, ErrNotChild) {
				t.Errorf("Wait() = %v, %v, %v, want ErrNotChild", e, ok, err)
			}
			c.in.WriteString("\n")
			c.line(t)
			await(t, p, unix.POLLHUP)
			if e, ok, err := p.ExitInfo(); !ok || err != nil || e != tt.want {
				t.Errorf("ExitInfo() = %v, %v, %v, want %v", e, ok, err, tt.want)
			}
		})
	}
}

func TestExitInfoOfAChild(t *testing.T) {
	supported := Probe().ExitInfo
	c := spawn(t, "exit 9")
	await(t, c.Process, unix.POLLIN)
	if e, ok, err := c.ExitInfo(); ok || supported && err != nil {
		t.Errorf("ExitInfo() of a zombie = %v, %v, %v", e, ok, err)
	}
	mustExit(t, c.Process)
	e, ok, err := c.ExitInfo()
	if !supported {
		if ok || !errors.Is(err, ErrUnsupported) {
			t.Errorf("ExitInfo() = %v, %v, %v, want ErrUnsupported", e, ok, err)
		}
		return
	}
	if want := (Exit{Known: true, Code: 9}); !ok || err != nil || e != want {
		t.Errorf("ExitInfo() = %v, %v, %v, want %v", e, ok, err, want)
	}
}

func TestPeekLeavesAlone(t *testing.T) {
	if pid, ok, err := Peek(); ok || err != nil {
		t.Fatalf("Peek() without children = %d, %v, %v", pid, ok, err)
	}
	living := spawn(t, "read x")
	if pid, ok, err := Peek(); ok || err != nil {
		t.Fatalf("Peek() with a living child = %d, %v, %v", pid, ok, err)
	}
	c := spawn(t, "exit 8")
	await(t, c.Process, unix.POLLIN)
	for range 3 {
		if pid, ok, err := Peek(); pid != c.Pid() || !ok || err != nil {
			t.Fatalf("Peek() = %d, %v, %v, want %d each time", pid, ok, err, c.Pid())
		}
	}
	if e := mustExit(t, c.Process); outcome(e) != (Exit{Known: true, Code: 8}) {
		t.Errorf("Wait() after Peek() = %v, want exit status 8", e)
	}
	if pid, ok, err := Peek(); ok || err != nil {
		t.Errorf("Peek() = %d, %v, %v after the reaping of all but %d", pid, ok, err, living.Pid())
	}
}

// TestReapUnknown: an orphaned grandchild becomes our child, as we are a subreaper, and is unknown
// to us.
func TestReapUnknown(t *testing.T) {
	becomeSubreaper(t)
	r, w := pipe(t)
	c := spawnAttr(t, &Attr{
		Path: "/bin/sh", Args: []string{"sh", "-c", `sh -c "read x; exit 7" <&3 & echo $!`},
		Files: []int{int(r.Fd())}, CgroupFD: -1,
	})
	r.Close()
	pid := c.number(t)
	mustExit(t, c.Process)
	orphan := open(t, pid)
	if e, ok, err := ReapUnknown(pid); ok || err != nil {
		t.Fatalf("ReapUnknown() of a living orphan = %v, %v, %v", e, ok, err)
	}
	w.Close()
	await(t, orphan, unix.POLLIN)
	if got, ok, err := Peek(); got != pid || !ok || err != nil {
		t.Fatalf("Peek() = %d, %v, %v, want the orphan %d", got, ok, err, pid)
	}
	e, ok, err := ReapUnknown(pid)
	if !ok || err != nil || outcome(e) != (Exit{Known: true, Code: 7}) {
		t.Errorf("ReapUnknown() = %v, %v, %v, want exit status 7", e, ok, err)
	}
	if e, ok, err := ReapUnknown(pid); ok || !errors.Is(err, ErrNotChild) {
		t.Errorf("second ReapUnknown() = %v, %v, %v, want ErrNotChild", e, ok, err)
	}
}

func TestChildInfoLayout(t *testing.T) {
	var info childInfo
	if unsafe.Sizeof(info) < unsafe.Sizeof(unix.Siginfo{}) {
		t.Errorf("childInfo has %d bytes, siginfo_t %d", unsafe.Sizeof(info), unsafe.Sizeof(unix.Siginfo{}))
	}
	if unsafe.Sizeof(uintptr(0)) == 8 && unsafe.Offsetof(info.Pid) != 16 {
		t.Errorf("si_pid at byte %d, want 16", unsafe.Offsetof(info.Pid))
	}
}

func TestProbe(t *testing.T) {
	f := Probe()
	t.Logf("%+v", f)
	if f.Pidfd != nil {
		t.Error("no pidfds, and yet these tests run")
	}
	// Each feature came after the one before it.
	if f.ExitInfo && !f.Pidfs || f.GroupSignal && !f.CloneIntoCgroup {
		t.Errorf("Probe() = %+v: no kernel is like that", f)
	}
	if second := probe(); second != f {
		t.Errorf("second probe() = %+v, first %+v", second, f)
	}
	if pid, ok, err := Peek(); ok || err != nil {
		t.Errorf("Peek() = %d, %v, %v: Probe left a child behind", pid, ok, err)
	}
}

func BenchmarkSpawnAndWait(b *testing.B) {
	for b.Loop() {
		p, err := Spawn(&Attr{Path: "/bin/true", Args: []string{"true"}, CgroupFD: -1})
		if err != nil {
			b.Fatal(err)
		}
		fds := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(10*time.Second/time.Millisecond)); err != nil {
			b.Fatal(err)
		}
		if _, ok, err := p.Wait(); !ok || err != nil {
			b.Fatal(ok, err)
		}
		p.Close()
	}
}
