package signals

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"

	"superd/pidfd"
)

// reportEnv makes the test binary the program under test: it resets what it has inherited and
// writes a report as JSON.
const reportEnv = "SIGNALS_TEST_REPORT"

func TestMain(m *testing.M) {
	if os.Getenv(reportEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(newReport()); err != nil {
			panic(err)
		}
		return
	}
	if count := os.Getenv(suspendEnv); count != "" {
		executeAgain(count)
		return
	}
	// The caller of the tests may have signals blocked or ignored, too.
	if err := ResetInherited(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The kernel may deliver a signal to a thread that runs its handler only after the watch of a
	// test has ended. A signal with a listener does not end the tests.
	for _, sig := range kinds {
		signal.Notify(make(chan os.Signal, 1), sig)
	}
	m.Run()
}

// A report is what a program sees of itself after ResetInherited.
type report struct {
	Err        string
	Again      bool   // whether it was executed again
	Marker     string // what is left of the marker in its environment
	Args       []string
	Name       string // as ps shows it
	Self       string // blocked and ignored signals, "none" or the lines of /proc
	Child      string // the same, of a program that it has spawned
	ChildError string
}

func newReport() (r report) {
	if err := ResetInherited(nil); err != nil {
		r.Err = err.Error()
	}
	first, _ := os.ReadFile("/proc/self/environ") // environment of the exec
	r.Again = strings.Contains("\x00"+string(first), fmt.Sprintf("\x00%s=%d\x00", marker, os.Getpid()))
	r.Marker = os.Getenv(marker)
	r.Args = os.Args
	comm, _ := os.ReadFile("/proc/self/comm")
	r.Name = strings.TrimSpace(string(comm))
	status, _ := os.ReadFile("/proc/self/status")
	r.Self = signalLines(string(status))
	child, err := childStatus()
	if err != nil {
		r.ChildError = err.Error()
	}
	r.Child = signalLines(child)
	return r
}

// childStatus returns /proc/self/status of a spawned program.
func childStatus() (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	p, err := pidfd.Spawn(&pidfd.Attr{
		Path: "/bin/cat", Args: []string{"cat", "/proc/self/status"}, Files: []int{0, int(w.Fd()), 2}, CgroupFD: -1,
	})
	w.Close()
	if err != nil {
		return "", err
	}
	defer p.Close()
	out, err := io.ReadAll(r)
	return string(out), err
}

// signalLines returns the lines about blocked and ignored signals in a /proc/pid/status.
func signalLines(status string) string {
	var lines []string
	for line := range strings.Lines(status) {
		for _, name := range []string{"SigBlk:", "SigIgn:"} {
			if mask, ok := strings.CutPrefix(line, name); ok {
				lines = append(lines, name+strings.TrimSpace(mask))
			}
		}
	}
	if s := strings.Join(lines, " "); s != "SigBlk:0000000000000000 SigIgn:0000000000000000" {
		return s
	}
	return "none"
}

// run spawns a program that finally executes the test binary, and returns its report.
func run(t *testing.T, env []string, path string, args ...string) report {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := pidfd.Spawn(&pidfd.Attr{
		Path: path, Args: args, Files: []int{0, int(w.Fd()), 2}, CgroupFD: -1,
		Env: append(env, reportEnv+"=1", "GORACE=atexit_sleep_ms=0"),
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if e := awaitExit(t, p); !e.Success() {
			t.Errorf("the program under test: %v", e)
		}
	})
	var rep report
	if err := json.NewDecoder(r).Decode(&rep); err != nil {
		t.Fatalf("read the report: %v", err)
	}
	return rep
}

// awaitExit waits for the end of p, reaps and closes it.
func awaitExit(t *testing.T, p *pidfd.Process) pidfd.Exit {
	t.Helper()
	defer p.Close()
	for end := time.Now().Add(deadline); ; {
		fds := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
		unix.Poll(fds, int(time.Until(end).Milliseconds())) // signals interrupt it
		e, ok, err := p.Wait()
		if ok {
			return e
		}
		if err != nil || time.Now().After(end) {
			t.Errorf("process %d did not end: %v", p.Pid(), err)
			return e
		}
	}
}

// check compares a report with that of a program that started clean.
func check(t *testing.T, got report, again bool) {
	t.Helper()
	if got.Err != "" || got.Self != "none" || got.Child != "none" || got.ChildError != "" {
		t.Errorf("error %q, own signals: %s, its child's: %s (%s); want none", got.Err, got.Self, got.Child, got.ChildError)
	}
	if got.Again != again || got.Marker != "" {
		t.Errorf("executed again: %v, marker %q; want %v and none", got.Again, got.Marker, again)
	}
}

// executablePath returns the test binary and the name that the kernel gives it.
func executablePath(t *testing.T) (path, name string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Base(path)
	return path, name[:min(len(name), 15)] // TASK_COMM_LEN
}

func TestResetOfACleanStart(t *testing.T) {
	path, name := executablePath(t)
	got := run(t, nil, path, "zero", "one")
	check(t, got, false)
	if got.Name != name {
		t.Errorf("name %q, want %q", got.Name, name)
	}
}

func TestResetIgnored(t *testing.T) {
	path, name := executablePath(t)
	for _, sigs := range []string{
		"HUP", "INT", "TSTP", "TTIN", "TTOU", "CONT", "34",
		"HUP INT QUIT TERM USR1 USR2 PIPE CHLD ALRM WINCH URG TSTP TTIN TTOU CONT 34 35 40 64",
	} {
		t.Run(sigs, func(t *testing.T) {
			got := run(t, nil, "/bin/sh", "sh", "-c", "trap '' "+sigs+`; exec "$0" one "two words"`, path)
			check(t, got, true)
			if want := []string{path, "one", "two words"}; fmt.Sprint(got.Args) != fmt.Sprint(want) || got.Name != name {
				t.Errorf("name %q, arguments %q, want %q, %q", got.Name, got.Args, name, want)
			}
		})
	}
}

// TestResetSkipsSignalsOfGo: Go handles these signals itself, so that neither it nor its
// children ignore them.
func TestResetSkipsSignalsOfGo(t *testing.T) {
	path, _ := executablePath(t)
	check(t, run(t, nil, "/bin/sh", "sh", "-c", `trap '' PIPE TERM USR1 CHLD; exec "$0"`, path), false)
}

func TestResetBlocked(t *testing.T) {
	path, name := executablePath(t)
	tests := []struct {
		name  string
		sigs  []syscall.Signal
		again bool
	}{
		{"SIGUSR1", []syscall.Signal{unix.SIGUSR1}, true},
		{"a real-time signal", []syscall.Signal{maxSignal}, true},
		{"many", []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGUSR2, unix.SIGPIPE, unix.SIGWINCH, 40, maxSignal}, true},
		{"one that Go unblocks itself", []syscall.Signal{unix.SIGTERM}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// A child gets the mask of the thread that it is spawned from.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before, err := disposition.Blocked()
			if err != nil {
				t.Fatal(err)
			}
			mask := before
			for _, sig := range tt.sigs {
				mask |= disposition.Mask(only(sig))
			}
			if _, err := disposition.SetBlocked(mask); err != nil {
				t.Fatal(err)
			}
			defer disposition.SetBlocked(before)
			got := run(t, nil, path, "another name", "one")
			check(t, got, tt.again)
			if got.Args[0] != "another name" || got.Name != name {
				t.Errorf("name %q, arguments %q, want %q, %q", got.Name, got.Args, name, "another name")
			}
		})
	}
}

// TestResetRestartsOnce: a marker with the process's own pid shows that it was executed again
// already: it is not a second time.
func TestResetRestartsOnce(t *testing.T) {
	path, _ := executablePath(t)
	got := run(t, nil, "/bin/sh", "sh", "-c", "trap '' HUP TTOU 34; "+marker+`=$$ exec "$0"`, path)
	want := "reset inherited signals: still ignored: SIGHUP, SIGTTOU, signal 34"
	if got.Err != want || got.Marker != "" {
		t.Errorf("error %q, marker %q, want %q and none", got.Err, got.Marker, want)
	}
}

func TestResetIgnoresForeignMarker(t *testing.T) {
	path, _ := executablePath(t)
	check(t, run(t, []string{marker + "=1"}, "/bin/sh", "sh", "-c", `trap '' HUP; exec "$0"`, path), true)
	check(t, run(t, []string{marker + "=1"}, path, path), false)
}

// TestResetOfADeletedProgram: an upgrade may have replaced the file just after the start.
func TestResetOfADeletedProgram(t *testing.T) {
	path, _ := executablePath(t)
	dir := t.TempDir()
	got := run(t, []string{"PATH=" + os.Getenv("PATH")}, "/bin/sh", "sh", "-c",
		`cp "$0" "$1" && exec 9<"$1" && rm "$1" && trap '' HUP && exec /proc/self/fd/9`, path, dir+"/gone")
	check(t, got, true)
}

func TestResidue(t *testing.T) {
	tests := []struct {
		blocked, ignored set
		want             string
	}{
		{only(unix.SIGUSR1), 0, "still blocked: SIGUSR1"},
		{0, only(unix.SIGHUP) | only(unix.SIGINT), "still ignored: SIGHUP, SIGINT"},
		{only(40), only(unix.SIGHUP), "still blocked: signal 40; still ignored: SIGHUP"},
	}
	for _, tt := range tests {
		if got := residue(tt.blocked, tt.ignored); got != tt.want {
			t.Errorf("residue(%#x, %#x) = %q, want %q", uint64(tt.blocked), uint64(tt.ignored), got, tt.want)
		}
	}
}

func TestMarkInheritedCloexec(t *testing.T) {
	for name, mark := range map[string]func() error{
		"MarkInheritedCloexec": MarkInheritedCloexec, "markEachCloexec": markEachCloexec,
	} {
		t.Run(name, func(t *testing.T) {
			// One next to the others and one far off, both as if inherited.
			near, err := unix.Dup(0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(near)
			far, err := unix.FcntlInt(0, unix.F_DUPFD, near+500)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(far)
			if err := mark(); err != nil {
				t.Fatal(err)
			}
			for fd, want := range map[int]int{0: 0, 1: 0, 2: 0, near: unix.FD_CLOEXEC, far: unix.FD_CLOEXEC} {
				if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != want {
					t.Errorf("F_GETFD of %d = %#x, %v, want %#x", fd, flags, err, want)
				}
			}
		})
	}
}
