package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process is a live process, as /proc shows it.
type Process struct {
	Pid     int
	Command string
	Env     []string
}

// Programs is [Site.Processes] without superd's own.
func (s *Site) Programs() []Process {
	s.T.Helper()
	return slices.DeleteFunc(s.Processes(), func(p Process) bool {
		path, _, _ := strings.Cut(p.Command, " ")
		// Its title
		return filepath.Base(path) == "superd" || strings.HasPrefix(p.Command, "superd: ")
	})
}

// NotifySocket returns the path of an instance's notify socket, from the environment of its
// processes. It waits until there is one.
func (s *Site) NotifySocket(instance string) (path string) {
	s.T.Helper()
	Until(s.T, instance+" has a notify socket", func() bool {
		for _, p := range s.Programs() {
			if !slices.Contains(p.Env, "SUPERD_INSTANCE="+instance) {
				continue
			}
			for _, e := range p.Env {
				if name, value, _ := strings.Cut(e, "="); name == "NOTIFY_SOCKET" {
					path = value
				}
			}
		}
		return path != ""
	})
	return path
}

// Processes returns the live processes of this site: superd itself, keeper and supervisor, and all
// their descendants. Zombies do not count.
func (s *Site) Processes() []Process {
	s.T.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.T.Fatal(err)
	}
	var found []Process
	for _, dir := range dirs {
		// A process that has just ended, a kernel thread and a zombie have nothing to read.
		env, err := environ(dir)
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+marker+s.Dir+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !Alive(pid) {
			continue
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		found = append(found, Process{
			Pid:     pid,
			Command: strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " ")),
			Env:     strings.Split(strings.TrimSuffix(string(env), "\x00"), "\x00"),
		})
	}
	return found
}

// environ returns the environment of the process with that directory in /proc. Within an exec it is
// empty, as is the command line, until the process gets a processor again. A kernel thread has
// neither, and no executable.
func environ(dir string) (env []byte, err error) {
	const exec = time.Second // an exec may hang, too
	for began := time.Now(); time.Since(began) < exec; {
		if env, err = os.ReadFile(dir + "/environ"); err != nil || len(env) > 0 {
			break
		}
		if command, err := os.ReadFile(dir + "/cmdline"); err != nil || len(command) > 0 {
			break
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			break
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err != nil || !Alive(pid) {
			break
		}
		runtime.Gosched()
	}
	return env, err
}

// childrenOf returns the pids of the children of a process.
func childrenOf(parent int) (found []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if ppid, err := stat(pid, 1); err == nil && ppid == strconv.Itoa(parent) && Alive(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// commandLine returns the first argument of a process; "" when it has ended.
func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	first, _, _ := strings.Cut(string(text), "\x00")
	return first
}

// supervisorOf returns the pid of the supervisor that the keeper has started; 0: none.
func supervisorOf(keeper int) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if ppid, err := stat(pid, 1); err != nil || ppid != strconv.Itoa(keeper) || !executed(pid) {
			continue
		}
		if env, err := os.ReadFile(dir + "/environ"); err == nil && strings.Contains("\x00"+string(env), "\x00SUPERD_KEEPER=") && Alive(pid) {
			return pid
		}
	}
	return 0
}

// executed reports whether a process has executed a program since its fork. Before that it looks
// like its parent. Source: PF_FORKNOEXEC in include/linux/sched.h; proc_pid_stat(5).
func executed(pid int) bool {
	const forkNoExec = 0x40
	text, _ := stat(pid, 6)
	flags, err := strconv.ParseUint(text, 10, 64)
	return err == nil && flags&forkNoExec == 0
}

// Kill kills a process that superd of the site started, and waits until it has ended: a killed
// process is still to be seen until the kernel has taken its memory apart.
func (p Process) Kill() {
	if proc, err := os.FindProcess(p.Pid); err == nil {
		proc.Kill()
		within(func() bool { return !Alive(p.Pid) })
	}
}

// Alive reports whether a process is there and not a zombie.
func Alive(pid int) bool {
	state, err := stat(pid, 0)
	return err == nil && state != "Z" && state != "X"
}

// Kill sends a signal to a process that the test started. At SIGSTOP it returns when all threads
// have stopped, which takes a while on a busy machine.
func (s *Site) Kill(pid int, sig syscall.Signal) {
	s.T.Helper()
	if pid <= 1 {
		s.T.Fatalf("kill: no process has pid %d", pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		s.T.Fatalf("kill process %d with %v: %v", pid, sig, err)
	}
	if sig == syscall.SIGSTOP {
		Until(s.T, fmt.Sprintf("process %d stops", pid), func() bool { return stopped(pid) })
	}
}

// stopped reports whether no thread of a process runs.
func stopped(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if state, err := stat(tid, 0); err == nil && state != "T" {
			return false
		}
	}
	return err == nil
}

// stat returns a field of /proc/PID/stat, counted from 0 for the state.
func stat(pid, field int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name of the command, in parentheses, may hold anything.
	rest := string(b)
	rest = rest[strings.LastIndexByte(rest, ')')+1:]
	fields := strings.Fields(rest)
	if field >= len(fields) {
		return "", errors.New("short /proc/PID/stat")
	}
	return fields[field], nil
}

// Parent returns the pid of a process's parent.
func (s *Site) Parent(pid int) int {
	s.T.Helper()
	v, err := stat(pid, 1)
	if err != nil {
		s.T.Fatal(err)
	}
	parent, err := strconv.Atoi(v)
	if err != nil {
		s.T.Fatal(err)
	}
	return parent
}

// CPUTicks returns the processor time that a process has used, in ticks of 10 ms.
func (s *Site) CPUTicks(pid int) int {
	s.T.Helper()
	sum := 0
	for _, field := range []int{11, 12} {
		v, err := stat(pid, field)
		if err != nil {
			s.T.Fatal(err)
		}
		n, err := strconv.Atoi(v)
		if err != nil {
			s.T.Fatal(err)
		}
		sum += n
	}
	return sum
}

// Field returns the value of a line of /proc/PID/NAME of the form "key: value", without the unit
// kB.
func (s *Site) Field(pid int, name, key string) string {
	s.T.Helper()
	v, ok, err := field(fmt.Sprintf("/proc/%d/%s", pid, name), key)
	if err != nil || !ok {
		s.T.Fatalf("read %s of process %d: %v", key, pid, err)
	}
	return v
}

// KiB returns a size in /proc/PID/NAME.
func (s *Site) KiB(pid int, name, key string) int {
	s.T.Helper()
	n, err := strconv.Atoi(s.Field(pid, name, key))
	if err != nil {
		s.T.Fatal(err)
	}
	return n
}

func field(path, key string) (value string, ok bool, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, found := strings.Cut(line, ":"); found && k == key {
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), true, nil
		}
	}
	return "", false, nil
}

// ContextSwitches returns how often a thread of the process was switched to or from so far.
func (s *Site) ContextSwitches(pid int) int {
	s.T.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		s.T.Fatalf("threads of process %d: %v, %v", pid, tasks, err)
	}
	sum := 0
	for _, path := range tasks {
		for _, key := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			v, _, err := field(path, key)
			if errors.Is(err, os.ErrNotExist) {
				continue // the thread ended
			}
			n, err := strconv.Atoi(v)
			if err != nil {
				s.T.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// WaitIdle waits until a process has been idle for two seconds. After a start the Go runtime
// collects and returns memory for a while.
func (s *Site) WaitIdle(pid int) {
	s.T.Helper()
	for range 10 {
		before := s.ContextSwitches(pid)
		Window(s.T, 2*time.Second)
		if s.ContextSwitches(pid) == before {
			return
		}
	}
}

// FDs returns the targets of the open descriptors of a process, by number.
func (s *Site) FDs(pid int) map[int]string {
	s.T.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.T.Fatal(err)
	}
	fds := make(map[int]string)
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			s.T.Fatal(err)
		}
		// A descriptor closed meanwhile has no link any more.
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			fds[n] = target
		}
	}
	return fds
}
