package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/keeper/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

const (
	scenarioVariable = "KEEPER_SCENARIO"
	dirVariable      = "KEEPER_DIR"

	// Enough for the good binary on a busy machine; the one that hangs uses it up
	trialOfTests = 5 * time.Second
)

// watchdogOf returns the watchdog time-out in a scenario. It is short only where a supervisor
// hangs, since a busy machine is slow.
func watchdogOf(scenario string) time.Duration {
	if slices.Contains([]string{"a turn without an end", "stopped", "does not come up"}, scenario) {
		return 300 * time.Millisecond
	}
	return time.Minute
}

// TestMain makes the test binary keeper and supervisor, too.
func TestMain(m *testing.M) {
	name := os.Getenv(scenarioVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	time.AfterFunc(time.Minute, func() { os.Exit(99) }) // no process stays when a test fails
	caught, err := signals.Catch(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGQUIT, unix.SIGCHLD, unix.SIGPIPE)
	if err == nil {
		err = signals.ResetInherited(caught)
	}
	if err != nil {
		panic(err)
	}
	link, err := Join(caught, nil)
	if err != nil {
		panic(err)
	}
	if link.Pid() != 0 {
		supervise(link, scenarios[name])
	}
	status, err := Run(Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Args: os.Args, Env: os.Environ(), Signals: caught, Files: link.Files(),
		Manager: link.Manager, Watchdog: watchdogOf(name), Trial: trialOfTests, RestartMax: 20 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	os.Exit(status)
}

// A rig is the n-th supervisor of a test, counted from 1.
type rig struct {
	n    int
	link *Link
	loop *loop.Loop
	dir  string
}

// supervise runs the n-th supervisor of a scenario.
func supervise(link *Link, scenario func(*rig)) {
	r := &rig{link: link, dir: os.Getenv(dirVariable)}
	r.note("supervisor %d of %d", os.Getpid(), link.Pid())
	r.n = strings.Count(r.notes(), "supervisor ")
	var err error
	if r.loop, err = loop.New(); err != nil {
		panic(err)
	}
	scenario(r)
	if err := r.loop.Run(); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// watch records the keeper's messages.
func (r *rig) watch(then func()) {
	limit := time.Minute
	if r.n == 1 { // the successors of one that hangs may be slow
		limit = watchdogOf(os.Getenv(scenarioVariable))
	}
	err := r.link.Watch(r.loop.Root(), limit, Listener{
		Signal: func(sig syscall.Signal) { r.note("signal %d", int(sig)); then() },
		Stop:   func(sig syscall.Signal) { r.note("stop %d", int(sig)); then() },
		Exit:   func(e Exit) { r.note("exit %d, pid %d, start %t", e.Status.ExitStatus(), e.Pid, e.Start > 0); then() },
		Gone: func() {
			r.note("gone")
			if r.n > 1 {
				os.Exit(98) // no process stays when a test fails
			}
			r.note("%v", r.link.BecomeKeeper(os.Args, os.Environ()))
		},
	})
	if err != nil {
		panic(err)
	}
}

func (r *rig) note(format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(r.dir, "notes"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

func (r *rig) notes() string {
	b, _ := os.ReadFile(filepath.Join(r.dir, "notes"))
	return string(b)
}

// end ends it for good.
func (r *rig) end(status int) {
	r.link.Stopping()
	r.link.Announce(status)
	r.link.Close(time.Minute)
	os.Exit(status)
}

func crash() {
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

var scenarios = map[string]func(*rig){
	"announced": func(r *rig) {
		r.link.Announce(7)
		os.Exit(0) // the announced status counts
	},
	"crashes": func(r *rig) {
		switch r.n {
		case 1:
			os.Exit(0) // not announced
		case 2:
			os.Exit(2)
		case 3:
			r.link.Ready("well")
			crash()
		case 4: // a later one that can't start
			r.link.Announce(1)
			os.Exit(1)
		}
		r.end(3)
	},
	"descriptors": func(r *rig) {
		names := []string{}
		for name, fd := range r.link.Files() {
			b := make([]byte, 10)
			n, _ := unix.Pread(fd, b, 0)
			names = append(names, name+" "+string(b[:n]))
		}
		slices.Sort(names)
		r.note("has %q", names)
		switch r.n {
		case 1:
			for _, name := range []string{"1", "2", "3"} {
				f, err := os.Create(filepath.Join(r.dir, name))
				if err != nil {
					panic(err)
				}
				fmt.Fprint(f, "of ", name)
				if err := r.link.Store(name, int(f.Fd())); err != nil {
					panic(err)
				}
			}
			crash()
		case 2:
			r.link.Discard("2")
			crash()
		}
		r.end(0)
	},
	"sends again": func(r *rig) {
		n := 0
		r.loop.Root().Every(time.Millisecond, func() {
			if unread, err := unix.IoctlGetInt(r.link.socket, unix.SIOCOUTQ); err != nil || unread > 0 {
				return
			}
			r.note("got %d", n)
			if n++; n == 4 {
				r.end(0)
			}
			r.link.Send("STATUS=well")
		})
	},
	"signals": func(r *rig) {
		switch r.n {
		case 1: // before it listens
			unix.Kill(r.link.Pid(), unix.SIGHUP)
			unix.Kill(r.link.Pid(), unix.SIGTERM)
			unix.Poll([]unix.PollFd{{Fd: int32(r.link.socket), Events: unix.POLLIN}}, -1)
			crash()
		}
		r.watch(func() {
			if strings.Contains(r.notes(), "signal 1\n") && strings.Contains(r.notes(), "stop 15\n") {
				r.end(0)
			}
		})
	},
	"orphans": func(r *rig) {
		switch r.n {
		case 1:
			gate, err := os.OpenFile(filepath.Join(r.dir, "gate"), os.O_RDWR, 0)
			if err != nil {
				panic(err)
			}
			for status := 41; status <= 42; status++ {
				cmd := exec.Command("sh", "-c", "read line; exit "+strconv.Itoa(status))
				cmd.Stdin = gate
				if err := cmd.Start(); err != nil {
					panic(err)
				}
				r.note("started %d", cmd.Process.Pid)
			}
			fmt.Fprint(gate, "\n\n")
			crash()
		case 2, 3: // the keeper reports now or later
			seen := 0
			r.link.Watch(r.loop.Root(), 0, Listener{Exit: func(e Exit) {
				r.note("%d gets: exit %d of %d, start known: %t", r.n, e.Status.ExitStatus(), e.Pid, e.Start > 0)
				if r.n == 3 || e.Status.ExitStatus() == 41 {
					r.link.Acknowledge(e.Pid, e.Start)
				}
				if seen++; seen == 4-r.n {
					r.link.Close(time.Minute)
					crash()
				}
			}})
		case 4:
			r.note("%d exits remain", len(r.link.Exits()))
			r.end(0)
		}
	},
	"a turn without an end": func(r *rig) {
		if r.n == 2 {
			r.end(0)
		}
		r.watch(func() {})
		r.loop.Post(func() {
			for time.Now().Unix() > 0 {
			}
		})
	},
	"does not come up": func(r *rig) {
		switch r.n {
		case 1:
			crash()
		case 2:
			r.link.WatchStart(watchdogOf("does not come up"))
			time.Sleep(time.Hour)
		}
		r.end(0)
	},
	"stopped": func(r *rig) {
		switch r.n {
		case 1: // between two turns
			unix.Kill(r.link.Pid(), unix.SIGHUP)
			unix.Kill(os.Getpid(), unix.SIGSTOP)
		default:
			r.watch(func() { r.end(0) })
		}
	},
	"upgrade": func(r *rig) {
		upgradeTo := func(binary string) {
			file, err := os.Open("/dev/null")
			if err == nil {
				err = r.link.Store("1", int(file.Fd()))
			}
			if err == nil {
				err = r.link.Upgrade(filepath.Join(r.dir, binary), os.Args, os.Environ())
			}
			r.note("%v", err)
		}
		exe, _ := os.Readlink("/proc/self/exe")
		own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.link.Pid()))
		r.note("%d runs %s with %d files, resumes: %t", r.n, filepath.Base(exe), len(r.link.Files()), r.link.Resumes())
		switch r.n {
		case 1:
			upgradeTo("none")
			upgradeTo("crashes") // a script
		case 2: // the old binary again
			upgradeTo("hangs")
		case 3: // again
			upgradeTo("new")
		case 4: // the new binary, with the old keeper's pid
			r.link.Ready("well")
			r.loop.Root().Every(time.Millisecond, func() {
				if own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.link.Pid())); filepath.Base(own) == "new" {
					crash()
				}
			})
		case 5: // of the new keeper
			r.note("keeper runs %s", filepath.Base(own))
			r.end(6)
		}
	},
	"a stop during an upgrade": func(r *rig) {
		switch r.n {
		case 1:
			runtime.LockOSThread()
			// Pending before anything else is done
			unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGHUP)
			r.note("%v", r.link.Upgrade(filepath.Join(r.dir, "new"), os.Args, os.Environ()))
			r.link.caught.Suspend() // delivered
			r.note("%v", r.link.Upgrade(filepath.Join(r.dir, "new"), os.Args, os.Environ()))
		case 2: // the new binary
			r.link.Stopping()
			r.link.Ready("well")
			r.loop.Root().Every(time.Millisecond, func() {
				if own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.link.Pid())); filepath.Base(own) == "new" {
					r.link.Announce(4)
					r.link.Close(time.Minute)
					os.Exit(0)
				}
			})
		default:
			r.end(0)
		}
	},
	"keeper is killed": func(r *rig) {
		r.note("has %v", len(r.link.Files()))
		switch r.n {
		case 1:
			f, err := os.Open("/dev/null")
			if err != nil {
				panic(err)
			}
			if err := r.link.Store("1", int(f.Fd())); err != nil {
				panic(err)
			}
			r.watch(func() {})
			unix.Kill(r.link.Pid(), unix.SIGKILL)
		case 2: // can't start: not the end, since programs may live that need a supervisor
			r.link.Announce(1)
			os.Exit(1)
		case 3:
			r.note("ends")
			r.end(0)
		}
	},
}

// run runs a scenario, and returns the keeper's exit status, the notes and the messages.
func run(t *testing.T, scenario string) (status int, notes, messages string) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if scenario == "upgrade" || scenario == "a stop during an upgrade" {
		if err := copyFile(filepath.Join(dir, "new"), os.Args[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "crashes"), []byte("#!/bin/sh\nexit 5\n"), 0o700),
		os.WriteFile(filepath.Join(dir, "hangs"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), scenarioVariable+"="+scenario, dirVariable+"="+dir, "GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// Waits for all processes that have its output
	_ = cmd.Run()
	b, err := os.ReadFile(filepath.Join(dir, "notes")) // of supervisors
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return cmd.ProcessState.ExitCode(), string(b), out.String()
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700)
}

func TestKeeper(t *testing.T) {
	tests := []struct {
		scenario    string
		status      int
		supervisors int
		want        []string // notes, without pids
	}{
		{"announced", 7, 1, nil},
		{"crashes", 3, 5, nil},
		{"descriptors", 0, 3, []string{`has []`, `has ["1 of 1" "2 of 2" "3 of 3"]`, `has ["1 of 1" "3 of 3"]`}},
		{"sends again", 0, 1, []string{"got 0", "got 1", "got 2", "got 3"}},
		{"signals", 0, 2, nil},
		{"orphans", 0, 4, []string{"0 exits remain"}},
		{"a turn without an end", 0, 2, nil},
		{"does not come up", 0, 3, nil},
		{"stopped", 0, 2, []string{"signal 1"}},
		{"upgrade", 6, 5, []string{"1 runs keeper.test with 0 files, resumes: false", "2 runs keeper.test with 1 files, resumes: true",
			"3 runs keeper.test with 1 files, resumes: true", "4 runs new with 1 files, resumes: true", "5 runs new with 1 files, resumes: true", "keeper runs new"}},
		{"a stop during an upgrade", 4, 2, []string{"a signal has arrived"}},
		{"keeper is killed", -1, 3, []string{"has 0", "gone", "has 1", "has 1", "ends"}},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			status, notes, messages := run(t, tt.scenario)
			if n := strings.Count(notes, "supervisor "); status != tt.status || n != tt.supervisors {
				t.Errorf("exit status %d after %d supervisors, want %d after %d\n%s%s", status, n, tt.status, tt.supervisors, notes, messages)
			}
			rest := notes
			for _, want := range tt.want {
				_, after, ok := strings.Cut(rest, want+"\n")
				if !ok {
					t.Errorf("no %q, in this order:\n%s%s", want, notes, messages)
				}
				rest = after
			}
			switch tt.scenario {
			case "signals":
				if strings.Count(notes, "signal 1\n") != 1 || strings.Count(notes, "stop 15\n") != 1 {
					t.Errorf("each signal is to come once:\n%s%s", notes, messages)
				}
			case "a turn without an end", "does not come up", "stopped":
				if !strings.Contains(messages, "goroutine ") || !strings.Contains(messages, "superd hangs") {
					t.Errorf("the stuck supervisor has not written down its goroutines:\n%s", messages)
				}
			case "orphans":
				for _, want := range []string{"2 gets: exit 41 of ", "2 gets: exit 42 of ", "3 gets: exit 42 of "} {
					if strings.Count(notes, want) != 1 {
						t.Errorf("not once: %q\n%s%s", want, notes, messages)
					}
				}
				if strings.Contains(notes, "start known: false") || strings.Contains(notes, "3 gets: exit 41") {
					t.Errorf("notes:\n%s", notes)
				}
			case "keeper is killed":
				var pids, keepers [2]int
				at := 0
				for line := range strings.Lines(notes) {
					if n, _ := fmt.Sscanf(line, "supervisor %d of %d", &pids[at], &keepers[at]); n == 2 && at < 1 {
						at++
					}
				}
				if keepers[1] != pids[0] {
					t.Errorf("keeper of the second supervisor is %d, want the first one:\n%s", keepers[1], notes)
				}
			}
		})
	}
}

func TestPause(t *testing.T) {
	k := &Keeper{options: Options{RestartMax: 10 * time.Second}}
	var got []time.Duration
	for k.crashes = 1; k.crashes <= 10; k.crashes++ {
		got = append(got, k.pause())
	}
	want := []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

// TestForward: messages for the manager above the keeper are forwarded, and no others.
func TestForward(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	k := &Keeper{manager: fdstore.Over(pair[0])}
	k.report.ready = true // so that nothing is returned here
	for _, lines := range []string{"FDSTORE=1\nFDNAME=1", "READY=1", keyAcknowledge + "=1,2", "STOPPING=1\n" + keyExit + "=3", "STATUS=well"} {
		k.handle(fdstore.Message{Lines: strings.Split(lines, "\n")})
	}
	k.manager.Close(time.Minute)
	var got []string
	receiver := fdstore.NewReceiver(pair[1])
	for {
		m, ok, err := receiver.Next()
		if err != nil || !ok {
			break
		}
		got = append(got, strings.Join(m.Lines, "\n"))
	}
	if want := []string{"READY=1", "STOPPING=1", "STATUS=well"}; !slices.Equal(got, want) {
		t.Errorf("forwarded %q, want %q", got, want)
	}
	if !k.report.exitAnnounced || k.report.status != 3 || !k.report.stopping {
		t.Errorf("%+v", k.report)
	}
}

// TestExitsAreSentAgain: exits reported to a supervisor and not acknowledged are reported again to
// the binary that it executes.
func TestExitsAreSentAgain(t *testing.T) {
	v := loop.NewVirtual(1)
	k := &Keeper{manager: fdstore.Noop(), scope: v.Root(), options: Options{Trial: time.Hour}}
	k.exits.add(Exit{Pid: 7, Start: 8})
	_, n := k.exits.unsent()
	n()
	k.handle(fdstore.Message{Lines: []string{keyUpgrade + "=1"}})
	if lines, _ := k.exits.unsent(); lines != (Exit{Pid: 7, Start: 8}).line() {
		t.Errorf("the next one gets %q", lines)
	}
}

// TestAnnouncedExitClosesStore: once a supervisor that is stopping announces its end, the stored
// descriptors are released; otherwise the next supervisor gets them.
func TestAnnouncedExitClosesStore(t *testing.T) {
	for _, stopping := range []bool{true, false} {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		k := &Keeper{manager: fdstore.Noop(), supervisor: &pidfd.Process{}}
		k.store.Put("7", pipe[1])
		if stopping {
			k.handle(fdstore.Message{Lines: []string{"STOPPING=1"}})
		}
		if len(k.store.Files()) != 1 {
			t.Error("a stored descriptor is closed before the end")
		}
		k.handle(fdstore.Message{Lines: []string{keyExit + "=0"}})
		n, err := unix.Read(pipe[0], make([]byte, 1))
		if closed := n == 0 && err == nil; closed != stopping || closed != (len(k.store.Files()) == 0) {
			t.Errorf("stopping %v: closed %v, stored %v", stopping, closed, k.store.Files())
		}
		k.store.Close()
		unix.Close(pipe[0])
	}
}
