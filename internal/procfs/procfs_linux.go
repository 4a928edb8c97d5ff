// Package procfs reads what /proc says of processes. The functions work for a process of any user,
// as far as the kernel allows it.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/pidfd"
)

// A Stat is the content of /proc/PID/stat.
//
// Source: proc_pid_stat(5).
type Stat struct {
	Pid, Parent, Group, Session int

	Start       uint64        // clock ticks since boot; the pid and it identify a process
	Command     string        // the name, as ps shows it
	State       byte          // R, S, D, …, as proc_pid_stat(5) lists them
	Dead        bool          // a zombie
	Exiting     bool          // ending, or about to because of a signal
	InExec      bool          // in the midst of an exec: no program, not even an empty environment
	Kernel      bool          // a thread of the kernel
	EnvironSize int           // bytes of the environment; 0 if we may not know
	CPU         time.Duration // user and system time of all threads
	WaitedCPU   time.Duration // CPU of the children that the process has waited for
	RSS         int64         // bytes of resident memory
	Threads     int
}

// Sleeps reports whether the process sleeps uninterruptibly: reading its memory could take as long.
func (s *Stat) Sleeps() bool { return s.State == 'D' && !s.Kernel }

// MaxAncestors bounds how many ancestors of a process are followed: programs may nest processes
// without limit.
const MaxAncestors = 64

// DescendsFrom reports whether ancestor is an ancestor of the process.
func (s Stat) DescendsFrom(ancestor *Stat) bool {
	for range MaxAncestors {
		parent, err := ReadStat(s.Parent)
		if err != nil || parent.Start > s.Start {
			return false
		}
		if parent.Pid == ancestor.Pid && parent.Start == ancestor.Start {
			return true
		}
		s = parent
	}
	return false
}

// BootTicks returns the time since boot in clock ticks, the unit of start times.
func BootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano()) / (1e9 / TicksPerSecond)
}

// TicksPerSecond is the unit of times in /proc, the same on every architecture that Go supports.
//
// Source: time(7), USER_HZ.
const TicksPerSecond = 100

var errNoStat = errors.New("not in the form of proc_pid_stat(5)")

// ReadStat reads /proc/PID/stat. The error is os.ErrNotExist or unix.ESRCH if there is no such
// process.
func ReadStat(pid int) (Stat, error) {
	var buf [1024]byte
	n, err := ReadSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return Stat{}, err
	}
	return parseStat(buf[:n])
}

// Flags of a process.
//
// Source: the kernel's include/linux/sched.h.
const (
	pfExiting  = 4        // PF_EXITING
	pfSignaled = 0x400    // PF_SIGNALED: a signal is about to end the process
	pfKthread  = 0x200000 // PF_KTHREAD
)

// Numbers of the fields of /proc/PID/stat, counted from 1.
const (
	statState      = 3
	statParent     = 4
	statGroup      = 5
	statSession    = 6
	statFlags      = 9
	statUtime      = 14
	statStime      = 15
	statCutime     = 16
	statCstime     = 17
	statThreads    = 20
	statStart      = 22
	statRSS        = 24
	statEndCode    = 27
	statEnvStart   = 50
	statEnvEnd     = 51
	statLastParsed = statEnvEnd
)

// parseStat parses /proc/PID/stat. The name in it may contain anything, also spaces and
// parentheses.
func parseStat(line []byte) (Stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Stat{}, errNoStat
	}
	var texts [statLastParsed + 1][]byte
	_, rest, _ := bytes.Cut(bytes.TrimRight(line[end:], "\n"), []byte(" "))
	// Not bytes.FieldsSeq: it would move the caller's buffer to the heap.
	for field := statState; field <= statLastParsed; field++ {
		if texts[field], rest, _ = bytes.Cut(rest, []byte(" ")); len(texts[field]) == 0 {
			return Stat{}, errNoStat
		}
	}
	var err error
	number := func(text []byte) int {
		n, e := strconv.Atoi(string(text))
		if e != nil {
			err = e
		}
		return n
	}
	ticks := func(a, b int) time.Duration {
		return time.Duration(number(texts[a])+number(texts[b])) * (time.Second / TicksPerSecond)
	}
	flags := number(texts[statFlags])
	s := Stat{
		Pid:         number(bytes.TrimSpace(line[:open])),
		Parent:      number(texts[statParent]),
		Group:       number(texts[statGroup]),
		Session:     number(texts[statSession]),
		Command:     string(line[open+1 : end]),
		State:       texts[statState][0],
		Kernel:      flags&pfKthread != 0,
		Exiting:     flags&(pfExiting|pfSignaled) != 0,
		CPU:         ticks(statUtime, statStime),
		WaitedCPU:   ticks(statCutime, statCstime),
		RSS:         int64(number(texts[statRSS])) * int64(os.Getpagesize()),
		EnvironSize: number(texts[statEnvEnd]) - number(texts[statEnvStart]),
	}
	// A process whose first thread has ended lives on, and is no zombie, while it has other
	// threads.
	s.Threads = number(texts[statThreads])
	s.Dead = bytes.ContainsAny(texts[statState], "ZXx") && s.Threads <= 1
	// An exec sets the end of the code after the environment. Source: the kernel's fs/binfmt_elf.c.
	s.InExec = string(texts[statEndCode]) == "0" && !s.Kernel && flags&pfExiting == 0 && !s.Dead
	var e error
	if s.Start, e = strconv.ParseUint(string(texts[statStart]), 10, 64); e != nil {
		err = e
	}
	if err != nil {
		return Stat{}, fmt.Errorf("%w: %w", errNoStat, err)
	}
	return s, nil
}

// Killed reports whether the process is gone, was sent SIGKILL, or is ending for another reason. It
// may still have descriptors and locks.
func Killed(pid int) bool {
	var buf [4096]byte
	n, err := ReadSmall("/proc/"+strconv.Itoa(pid)+"/status", buf[:])
	if err != nil {
		return isGone(err)
	}
	for line := range bytes.Lines(buf[:n]) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		if name := string(key); name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		pending, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err == nil && pending&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	// The kernel first dequeues the signal, then the process begins to exit.
	s, err := ReadStat(pid)
	return err == nil && (s.Exiting || s.Dead)
}

// isGone reports whether an error of a file below /proc/PID means that there is no such process.
func isGone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// OpenProcess returns a pidfd of the process that s was read from. It returns [pidfd.ErrGone] if
// that has ended, even if another process has its pid.
func OpenProcess(s *Stat) (*pidfd.Process, error) {
	p, err := pidfd.Open(s.Pid)
	if err != nil {
		return nil, err
	}
	// The pidfd refers to the process that had the pid when it was opened. If the start time is
	// still the same after that, it is the process of s.
	now, err := ReadStat(s.Pid)
	switch {
	case err == nil && now.Start == s.Start && !now.Dead:
		return p, nil
	case err == nil || isGone(err):
		err = pidfd.ErrGone
	}
	p.Close()
	return nil, err
}

// ReadSmall reads the beginning of a kernel file into buf by plain system calls. An os.File would
// be offered to the runtime's poller first, which costs when there are thousands.
func ReadSmall(path string, buf []byte) (int, error) {
	fd, err := syscalls.RetryInt(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return syscalls.RetryInt(func() (int, error) { return unix.Read(fd, buf) })
}

// Pids returns the pids of all processes in ascending order. It includes each process that lives
// from the beginning of the call to its end.
func Pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Children returns the children of the first thread of a process, among them orphans that were
// reparented to it. There are none if the kernel is built without CONFIG_PROC_CHILDREN.
func Children(pid int) iter.Seq[int] {
	return func(yield func(int) bool) {
		text, err := readChildren(pid)
		if err != nil {
			return
		}
		childrenIn(text)(yield)
	}
}

func childrenIn(list []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil && !yield(child) {
				return
			}
		}
	}
}

// ConsistentChildren is [Children] at one instant. The kernel may omit a child when others end
// while it writes the list, so the list counts if two successive readings are equal. ok is false if
// they never are, or if there is no list.
func ConsistentChildren(pid int) (children []int, ok bool) {
	const tries = 5
	before, err := readChildren(pid)
	for range tries {
		if err != nil {
			return nil, false
		}
		var again []byte
		if again, err = readChildren(pid); err == nil && bytes.Equal(again, before) {
			return slices.Collect(childrenIn(again)), true
		}
		before = again
	}
	return nil, false
}

func readChildren(pid int) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
}

// maxDescriptors limits how many descriptors of a process [Descriptors] reads.
const maxDescriptors = 1024

// OpenFiles returns the paths of the open files of a process, as the kernel names them.
func OpenFiles(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, target := range Descriptors(pid) {
			if !yield(target) {
				return
			}
		}
	}
}

// Descriptors returns the numbers of the open descriptors of a process with the paths of their
// files, of 1024 at most.
func Descriptors(pid int) iter.Seq2[string, string] {
	return func(yield func(number, target string) bool) {
		path := fmt.Sprintf("/proc/%d/fd", pid)
		dir, err := os.Open(path)
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(maxDescriptors) // io.EOF: none
		for _, name := range names {
			if target, err := os.Readlink(path + "/" + name); err == nil && !yield(name, target) {
				return
			}
		}
	}
}

// HoldsFile reports whether a process has the file of that path open. It also returns true if we
// may not look. It reads all descriptors of the process.
func HoldsFile(pid int, path string) bool {
	links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return !isGone(err)
	}
	return slices.ContainsFunc(links, func(link os.DirEntry) bool {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, link.Name()))
		return err == nil && target == path
	})
}

// BootID returns the kernel's id of the current boot.
//
// Source: proc_sys_kernel(5), random/boot_id.
func BootID() (string, error) {
	var buf [64]byte
	const path = "/proc/sys/kernel/random/boot_id"
	n, err := ReadSmall(path, buf[:])
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimRight(string(buf[:n]), "\n"), nil
}
