package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// longest bounds each wait for a contestant.
const longest = 90 * time.Second

// An arena is a PID namespace with a folder, in which one contestant runs. All its processes end
// with the arena, and with the benchmark.
type arena struct {
	testing.TB
	dir   string // of the contestant's files
	run   string // superd's runtime directory: in a tmpfs, as /run is
	tools *tools
	fifo  int // read end of the FIFO on which programs report

	init  *exec.Cmd
	space string // the namespace, as /proc names it
	conn  *net.UnixConn
	ended chan struct{} // closed when init is gone

	mu      sync.Mutex
	begun   chan *process
	running map[int]*process // by the pid in the namespace
}

// A process is one that the arena has started.
type process struct {
	pid   int           // outside of the namespace
	at    time.Duration // when it was started, on the monotonic clock
	done  chan struct{} // closed when it has ended
	endAt time.Duration
}

// newArena makes an arena for a contestant.
func newArena(t testing.TB, tools *tools, c *contestant) *arena {
	dir, err := os.MkdirTemp("", "bench-") // t.TempDir has paths that are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	a := &arena{TB: t, dir: dir, tools: tools, fifo: -1, begun: make(chan *process, 1), running: map[int]*process{}, ended: make(chan struct{})}
	t.Cleanup(a.close)
	a.run = a.path("run")
	if memory, err := os.MkdirTemp("/dev/shm", "bench-"); err == nil {
		a.run = memory
	}
	if err := syscall.Mkfifo(a.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a.fifo, err = unix.Open(a.path("fifo"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	// Room for all reports
	if _, err := unix.FcntlInt(uintptr(a.fifo), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := os.NewFile(uintptr(pair[0]), "arena"), os.NewFile(uintptr(pair[1]), "arena")
	defer own.Close()
	defer theirs.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		t.Fatal(err)
	}
	a.conn = conn.(*net.UnixConn)
	log, err := os.Create(a.path("stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a.init = exec.Command(tools.init)
	if c.mount != "" {
		a.init.Args = append(a.init.Args, c.mount, "/usr/bin")
	}
	a.init.Dir = dir
	a.init.Env = append([]string{"PATH=" + tools.bin("") + ":" + os.Getenv("PATH"), "HOME=/", "LANG=C", "BENCH_FIFO=" + a.path("fifo")}, c.env...)
	a.init.Stderr = log // standard output is discarded, as under a service manager
	a.init.ExtraFiles = []*os.File{theirs}
	a.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Setpgid: true}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.init.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		a.init.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.init.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.init.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to mount its /proc
	}
	if err := a.init.Start(); err != nil {
		t.Fatalf("make a PID namespace: %v", err)
	}
	if a.space, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", a.init.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	go a.receive()
	return a
}

func (a *arena) path(name string) string { return filepath.Join(a.dir, name) }

// write writes a file of the arena, with the mode of a script when it starts with #!.
func (a *arena) write(name, text string) {
	a.Helper()
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(a.path(name), []byte(text), mode); err != nil {
		a.Fatal(err)
	}
}

func (a *arena) mkdir(name string) {
	a.Helper()
	if err := os.MkdirAll(a.path(name), 0o755); err != nil {
		a.Fatal(err)
	}
}

// receive reads the messages of init.
func (a *arena) receive() {
	buffer := make([]byte, 200)
	for {
		n, err := a.conn.Read(buffer)
		if err != nil || n == 0 {
			close(a.ended)
			return
		}
		var what string
		var pid, status int
		var at time.Duration
		fmt.Sscan(string(buffer[:n]), &what, &pid, &status, &at)
		a.mu.Lock()
		switch p := a.running[pid]; {
		case what == "started":
			p := &process{at: at, done: make(chan struct{})}
			p.pid = a.outside(pid)
			a.running[pid] = p
			a.begun <- p
		case p != nil:
			delete(a.running, pid)
			p.endAt = at
			close(p.done)
		}
		a.mu.Unlock()
	}
}

// outside returns the pid, outside of the namespace, of a child of init; 0 when it has ended.
func (a *arena) outside(pid int) int {
	init := a.init.Process.Pid
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", init, init))
	for _, child := range strings.Fields(string(text)) {
		status, _ := os.ReadFile("/proc/" + child + "/status")
		if _, rest, ok := bytes.Cut(status, []byte("\nNSpid:")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			if pids := strings.Fields(string(line)); len(pids) == 2 && pids[1] == strconv.Itoa(pid) {
				n, _ := strconv.Atoi(child)
				return n
			}
		}
	}
	return 0
}

// start starts a command in the namespace.
func (a *arena) start(command ...string) *process {
	a.Helper()
	if _, err := a.conn.Write([]byte(strings.Join(command, "\x00") + "\x00")); err != nil {
		a.Fatalf("start %s: %v", command[0], err)
	}
	select {
	case p := <-a.begun:
		return p
	case <-a.ended:
		a.Fatalf("start %s: the namespace has ended\n%s", command[0], a.messages())
	case <-time.After(longest):
		a.Fatalf("start %s: no answer", command[0])
	}
	return nil
}

// wait waits for the end of a process and reports whether it has come.
func (p *process) wait() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(longest):
		return false
	}
}

func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if p.pid <= 1 {
		t.Fatal("signal: the process has ended")
	}
	if err := syscall.Kill(p.pid, sig); err != nil {
		t.Fatalf("signal process %d: %v", p.pid, err)
	}
}

// messages returns the end of the standard error.
func (a *arena) messages() string {
	text, _ := os.ReadFile(a.path("stderr"))
	return string(text[max(0, len(text)-2000):])
}

// close ends all processes that are left.
func (a *arena) close() {
	if a.init != nil && a.init.Process != nil {
		a.init.Process.Kill()
		a.init.Wait() // returns when all others are gone, too
	}
	if a.conn != nil {
		a.conn.Close()
	}
	if a.fifo >= 0 {
		unix.Close(a.fifo)
	}
	if a.Failed() {
		a.Logf("its messages:\n%s", a.messages())
	}
	cgroups, err := harness.Cgroups(a.run) // of a superd that did not end in order
	if err != nil {
		a.Error(err)
	}
	for _, dir := range cgroups {
		removeCgroups(dir)
	}
	os.RemoveAll(a.dir)
	os.RemoveAll(a.run)
}

// removeCgroups removes a cgroup without processes and those below it.
func removeCgroups(dir string) {
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, procs := range below {
		removeCgroups(filepath.Dir(procs))
	}
	os.Remove(dir)
}

// now returns the monotonic clock as init reads it.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// processTime returns the processor time of a process; 0 when it has ended.
func processTime(pid int) time.Duration {
	const clock = 2 // CPUCLOCK_SCHED: see clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clock), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// reportSize is the length of a report in the FIFO: the time at which a program began.
const reportSize = 8

// executed waits until that many programs have reported that they run, and returns when the last
// one began. No process wakes for a report: the bytes in the FIFO are counted, every 0.2 ms for few
// programs and every millisecond for many.
func (a *arena) executed(count int) (at time.Duration, ok bool) {
	pause := 200 * time.Microsecond
	if count >= 1000 {
		pause = time.Millisecond
	}
	for end := now() + longest; now() < end; time.Sleep(pause) {
		if a.reported() >= count {
			return a.takeReports(), true
		}
	}
	return 0, false
}

// reported returns the number of reports in the FIFO.
func (a *arena) reported() int {
	n, err := unix.IoctlGetInt(a.fifo, unix.TIOCINQ)
	if err != nil {
		a.Fatal(err)
	}
	return n / reportSize
}

// takeReports takes the reports out of the FIFO and returns the latest of their times.
func (a *arena) takeReports() (last time.Duration) {
	buffer := make([]byte, 1<<12*reportSize)
	for a.reported() > 0 {
		n, err := unix.Read(a.fifo, buffer)
		if err != nil {
			a.Fatal(err)
		}
		for report := range slices.Chunk(buffer[:n], reportSize) {
			last = max(last, time.Duration(binary.NativeEndian.Uint64(report)))
		}
	}
	return last
}

// replaced kills a program and returns the time until the next one began.
func (a *arena) replaced(pid int) (took time.Duration, ok bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		a.Fatalf("kill program %d: %v", pid, err)
	}
	for cgroups := longest; cgroups > 0; cgroups = longest - (now() - begin) {
		poll := []unix.PollFd{{Fd: int32(a.fifo), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(cgroups.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n > 0 && poll[0].Revents&unix.POLLIN != 0 {
			return a.takeReports() - begin, true
		}
	}
	return 0, false
}

// waitEmpty waits until no program is alive any more, and returns that time.
func (a *arena) waitEmpty() (at time.Duration, ok bool) {
	for begin := now(); now()-begin < longest; {
		poll := []unix.PollFd{{Fd: int32(a.fifo)}}
		if n, err := unix.Poll(poll, int(longest.Milliseconds())); n > 0 {
			return now(), true
		} else if err != unix.EINTR {
			return 0, false
		}
	}
	return 0, false
}
