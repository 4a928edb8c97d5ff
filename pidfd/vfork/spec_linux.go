//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

import (
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Spec holds what a child needs between fork and exec, and what it reports. The child must not
// allocate, lock or grow its stack, so nothing here needs a lookup. A Spec may be used again after
// Reset.
//
// Without a program the child exits at once with status 0, and its end sends no signal.
type Spec struct {
	Files []int // become 0, 1, 2…; -1: the number stays closed
	// descriptor that stays open until the exec, close-on-exec; -1: none
	KeepFD int
	// the child gets copies of the descriptors below this number only; 0: of all
	CloseFrom   uintptr
	CloseRanges [][2]uintptr // ranges of descriptors that the child closes, from and to
	Room        int          // least size of its descriptor table
	OpenFiles   *unix.Rlimit
	Credential  *syscall.Credential
	// the child starts in a user namespace of its own, and keeps its capabilities there at the exec
	UserNamespace bool
	Cgroup        int // descriptor of the cgroup in which it starts; -1: the parent's
	// KEY= of a variable in which the child writes its pid, set before SetProgram; "": none
	PidVariable string

	// where the kernel writes the child's pidfd before it exists, and its pid before its first
	// instruction; Pid is needed for a program only
	PidFD, Pid *int32

	OwnTable  uint32        // 1 once the child has its own descriptor table
	StartTime unix.Timespec // CLOCK_BOOTTIME as first read by the child; 0 if that failed
	Errno     syscall.Errno // why the child has not executed its program; 0: it has

	path, dir  *byte
	argv, envv **byte
	groups     *uint32
	text       []byte  // what the pointers point into
	pidAt      int     // where in text the child writes its pid; 0: nowhere
	pointers   []*byte // of argv and envv, each list with a final nil
	mask       uint64  // signals blocked in the child: those of the thread that forks
	args       cloneArgs
	capHeader  unix.CapUserHeader
	capSets    [2]unix.CapUserData
}

// maxText is the largest text, in bytes, that a Spec keeps: few programs have an environment as
// large.
const maxText = 32 << 10

// Reset makes s a Spec without a program, files, or rights of its own. It keeps memory for reuse.
func (s *Spec) Reset() {
	clear(s.pointers)
	text := s.text[:0]
	if cap(text) > maxText {
		text = nil
	}
	*s = Spec{KeepFD: -1, Cgroup: -1, text: text, pointers: s.pointers[:0], Files: s.Files[:0], CloseRanges: s.CloseRanges[:0]}
}

// SetProgram sets what the child executes, and where; an empty dir is the parent's. It is called
// once after Reset.
func (s *Spec) SetProgram(path, dir string, args, env []string) error {
	size := len(path) + 1 + len(dir) + 1
	for _, list := range [...][]string{args, env} {
		for _, text := range list {
			size += len(text) + 1
		}
	}
	if s.PidVariable != "" {
		size += len(s.PidVariable) + maxPidDigits + 1
	}
	s.text = slices.Grow(s.text, size) // must not be reallocated below
	s.pointers = slices.Grow(s.pointers, len(args)+1+len(env)+1)
	var err error
	if s.path, err = s.cString(path); err != nil {
		return err
	}
	if s.argv, err = s.cStrings(args); err != nil {
		return err
	}
	if s.envv, err = s.cStrings(env); err != nil {
		return err
	}
	s.reservePid(env)
	if dir != "" {
		if s.dir, err = s.cString(dir); err != nil {
			return err
		}
	}
	return nil
}

// cString appends text to s.text with a final NUL, and returns its address.
func (s *Spec) cString(text string) (*byte, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, syscall.EINVAL
	}
	at := len(s.text)
	s.text = append(append(s.text, text...), 0)
	return &s.text[at], nil
}

// cStrings does the same for a list.
func (s *Spec) cStrings(list []string) (first **byte, err error) {
	at := len(s.pointers)
	for _, text := range list {
		p, err := s.cString(text)
		if err != nil {
			return nil, err
		}
		s.pointers = append(s.pointers, p)
	}
	s.pointers = append(s.pointers, nil)
	return &s.pointers[at], nil
}

// maxPidDigits is the length of the longest pid, which is below 1<<22, and more. Source: man 5
// proc_sys_kernel, pid_max.
const maxPidDigits = 10

// reservePid moves the variable with the pid to the end of s.text, where there is room for it.
func (s *Spec) reservePid(env []string) {
	at := len(s.pointers) - 1 - len(env)
	for i, variable := range env {
		if s.PidVariable == "" || variable != s.PidVariable {
			continue
		}
		begin := len(s.text)
		s.text = append(s.text, variable...)
		s.pidAt = len(s.text)
		for range maxPidDigits + 1 {
			s.text = append(s.text, 0)
		}
		s.pointers[at+i] = &s.text[begin]
		return
	}
}

// cloneArgs is struct clone_args. Source: clone(2).
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// sigsetBytes is the size of the kernel's sigset_t. Source: rt_sigprocmask(2).
const sigsetBytes = 8
