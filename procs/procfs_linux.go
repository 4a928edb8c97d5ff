package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// A procStat is what /proc/PID/stat tells of a process. Source: proc_pid_stat(5).
type procStat struct {
	pid, parent, group, session int
	start                       uint64        // clock ticks since boot
	command                     string        // its name, as ps shows it
	state                       byte          // as proc_pid_stat(5) lists them
	dead                        bool          // a zombie
	exiting                     bool          // on its way to be one
	bare                        bool          // it has no program and so no environment, not even an empty one: it is in the midst of an exec
	kernel                      bool          // a thread of the kernel
	environ                     int           // bytes of its environment, as far as we may know
	cpu                         time.Duration // user and system time of all its threads
	rss                         int64         // bytes of resident memory
}

func (s *procStat) key() processKey { return processKey{s.pid, s.start} }

// sleeps reports whether the process sleeps uninterruptibly: its memory may be out of reach for as long.
func (s *procStat) sleeps() bool { return s.state == 'D' && !s.kernel }

// A ProcessInfo is what /proc tells of a process.
type ProcessInfo struct {
	Parent  int
	Start   uint64        // clock ticks since boot: with the pid it tells one process from another
	Command string        // its name, as ps shows it
	State   byte          // R, S, D, …, as proc_pid_stat(5) lists them
	CPU     time.Duration // user and system time of all its threads
	RSS     int64         // bytes of resident memory
}

// ReadProcess reads what /proc tells of a process, which may be anybody's. The error has the cause os.ErrNotExist if there is none.
func ReadProcess(pid int) (ProcessInfo, error) {
	s, err := readStat(pid)
	if err != nil {
		return ProcessInfo{}, fmt.Errorf("read stat of process %d: %w", pid, err)
	}
	return ProcessInfo{Parent: s.parent, Start: s.start, Command: s.command, State: s.state, CPU: s.cpu, RSS: s.rss}, nil
}

// userHz is the unit of times in /proc: 100 per second on every architecture that Go runs on (time(7)).
const userHz = 100

var errNoStat = errors.New("not in the form of proc_pid_stat(5)")

// readStat reads the stat of a process, which may be anybody's.
func readStat(pid int) (procStat, error) {
	var buf [1024]byte
	n, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return procStat{}, err
	}
	return parseStat(buf[:n])
}

// Of the kernel's include/linux/sched.h.
const (
	pfExiting  = 4        // PF_EXITING
	pfSignaled = 0x400    // PF_SIGNALED: a signal is about to end it
	pfKthread  = 0x200000 // PF_KTHREAD
)

// killed reports whether SIGKILL was sent to the process, or it is ending for another reason, though it may still hold what it held.
func killed(pid int) bool {
	var buf [4096]byte
	n, err := readSmall("/proc/"+strconv.Itoa(pid)+"/status", buf[:])
	if err != nil {
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
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
	// The signal is taken first, then the process begins to exit.
	s, err := readStat(pid)
	return err == nil && (s.exiting || s.dead)
}

// parseStat reads the line of /proc/PID/stat. The name in it may hold anything, also spaces and parentheses.
func parseStat(line []byte) (procStat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return procStat{}, errNoStat
	}
	const first, state, flags, utime, stime, threads, start, rss, endCode, environment, last = 3, 3, 9, 14, 15, 20, 22, 24, 27, 50, 51 // numbers of fields, counted from 1
	var texts [last + 1][]byte
	_, rest, _ := bytes.Cut(bytes.TrimRight(line[end:], "\n"), []byte(" "))
	for field := first; field <= last; field++ { // not by bytes.FieldsSeq, for which the caller's buffer would have to lie on the heap
		if texts[field], rest, _ = bytes.Cut(rest, []byte(" ")); len(texts[field]) == 0 {
			return procStat{}, errNoStat
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
	flag := number(texts[flags])
	s := procStat{
		pid:     number(bytes.TrimSpace(line[:open])),
		parent:  number(texts[4]),
		group:   number(texts[5]),
		session: number(texts[6]),
		command: string(line[open+1 : end]),
		state:   texts[state][0],
		kernel:  flag&pfKthread != 0,
		exiting: flag&(pfExiting|pfSignaled) != 0,
		cpu:     time.Duration(number(texts[utime])+number(texts[stime])) * (time.Second / userHz),
		rss:     int64(number(texts[rss])) * int64(os.Getpagesize()),
	}
	// The first thread of a process that lives on may have ended before the others: it is no zombie yet.
	s.dead = bytes.ContainsAny(texts[state], "ZXx") && number(texts[threads]) <= 1
	s.environ = number(texts[environment+1]) - number(texts[environment])
	// An exec notes where the code ends when the environment is there. Source: the kernel's fs/binfmt_elf.c.
	s.bare = string(texts[endCode]) == "0" && !s.kernel && flag&pfExiting == 0 && !s.dead
	var e error
	if s.start, e = strconv.ParseUint(string(texts[start]), 10, 64); e != nil {
		err = e
	}
	if err != nil {
		return procStat{}, fmt.Errorf("%w: %w", errNoStat, err)
	}
	return s, nil
}

// openProcess returns the pidfd of the process that s was read from, and not of one that has its pid now.
func openProcess(s *procStat) (*pidfd.Process, error) {
	p, err := pidfd.Open(s.pid)
	if err != nil {
		return nil, err
	}
	// The descriptor stands for whoever has the pid at the time. If he has the same start time after it, he was it.
	now, err := readStat(s.pid)
	switch {
	case err == nil && now.start == s.start && !now.dead:
		return p, nil
	case err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
		err = pidfd.ErrGone
	}
	p.Close()
	return nil, err
}

// readSmall reads the beginning of a file of the kernel by plain system calls: os.File would register each of thousands
// with the runtime's poller first.
func readSmall(path string, buf []byte) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return retry(func() (int, error) { return unix.Read(fd, buf) })
}

// A plainFile is a descriptor that is read by plain system calls.
type plainFile int

// openPlain opens a file for reading. An os.File would ask Go's poller first whether it can watch a file, which it can't.
func openPlain(path string) (plainFile, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	return plainFile(fd), err
}

// ReadAt implements [io.ReaderAt].
func (f plainFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		more, err := retry(func() (int, error) { return unix.Pread(int(f), p[n:], offset+int64(n)) })
		if err != nil {
			return n, err
		}
		if more == 0 {
			return n, io.EOF
		}
		n += more
	}
	return n, nil
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}

// allPids gives the pids of all processes, in rising order: a process that lives as long as the walk lasts is among them.
func allPids() ([]int, error) {
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

// childrenOf gives the children of the first thread of a process, orphans that came to it among them. Nothing where the kernel
// does not list them (CONFIG_PROC_CHILDREN).
func childrenOf(pid int) iter.Seq[int] {
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

// childrenNow is childrenOf as of one instant. The kernel may pass some over when others end while it writes the list: it is right when two
// readings in a row are the same. ok is false if that is never so, or there is no list.
func childrenNow(pid int) (children []int, ok bool) {
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

// maxDescriptors bounds how many descriptors of a process are looked at.
const maxDescriptors = 1024

// filesOf gives the paths of what a process has open, as the kernel names them.
func filesOf(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		path := fmt.Sprintf("/proc/%d/fd", pid)
		dir, err := os.Open(path)
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(maxDescriptors) // io.EOF: none
		for _, name := range names {
			if target, err := os.Readlink(path + "/" + name); err == nil && !yield(target) {
				return
			}
		}
	}
}
