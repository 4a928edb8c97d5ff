//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Progress shows a child to other goroutines while its [Spawn] is in progress, which lasts until
// the child executes its program. That may take long: the exec waits for a file system, or the
// child was stopped, which its user may do once it runs with that user's rights. A Progress is for
// one Spawn.
//
// Spawn itself can't report anything meanwhile, since its thread waits in the kernel. So the kernel
// writes the two numbers: the pidfd before the child exists, the pid when the child first runs,
// before its first instruction.
//
// Source: CLONE_PIDFD and CLONE_CHILD_SETTID in clone(2); schedule_tail in kernel/sched/core.c.
type Progress struct {
	pidFD int32
	pid   int32

	mu     sync.Mutex
	ended  bool // Spawn is about to return: the descriptor has another owner
	killed bool // SIGKILL was sent to it
}

// ErrKilled is the error of a Spawn whose child was killed by [Progress.Kill].
var ErrKilled = errors.New("killed before it executed its program")

// begin returns where the kernel is to write the pidfd and the pid.
func (b *Progress) begin() (pidFD, pid *int32) {
	b.pidFD = -1
	return &b.pidFD, &b.pid
}

// end returns the pidfd, which the caller then owns, -1 if there is none, and whether Kill has
// killed the child.
func (b *Progress) end() (pidFD int32, killed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.pidFD, b.killed
}

// Pid returns the child's pid, 0 until the child has run. A child with an unknown pid is not a
// zombie yet. After Spawn the number is the child's until it is reaped.
func (b *Progress) Pid() int { return int(atomic.LoadInt32(&b.pid)) }

// Owns reports whether the ended child with that pid may belong to a Spawn in progress.
func (b *Progress) Owns(pid int) bool { return b.Pid() == pid }

// Kill sends SIGKILL to the child if it has not executed its program yet, and reports whether it
// did. Then Spawn returns [ErrKilled] when the child has ended, which may be delayed by an
// uninterruptible wait. Kill does nothing once Spawn has returned.
func (b *Progress) Kill() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	pid := b.Pid()
	if b.ended || pid == 0 || hasExecuted(pid) {
		return false
	}
	child := Process{pid: int32(pid), fd: atomic.LoadInt32(&b.pidFD)}
	b.killed = child.signal(unix.SIGKILL) == nil
	return b.killed
}

// The number of the field with process flags in /proc/PID/stat, and PF_FORKNOEXEC among these
// flags. A fork sets that flag and an exec clears it.
//
// Source: proc_pid_stat(5); the kernel's include/linux/sched.h, begin_new_exec in fs/exec.c.
const (
	flagsField = 9
	forkNoExec = 0x40
)

// hasExecuted reports whether the child has executed its program. It returns false if that is
// unknown, as without /proc.
func hasExecuted(pid int) bool {
	var buf [statBytes]byte
	stat, err := readStat("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return false
	}
	flags, err := statField(stat, flagsField)
	return err == nil && flags&forkNoExec == 0
}
