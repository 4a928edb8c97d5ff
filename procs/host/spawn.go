package host

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"superd/config"
	"superd/config/directory"
	"superd/config/environ"
	"superd/pidfd"
)

// A SpawnSpec describes a process to start.
type SpawnSpec struct {
	Name        string // instance
	Tree        Tree   // where it is started
	Program     *config.Program
	Environment environ.Variables // environment that programs inherit
	Own         environ.Variables // the run's own variables: SUPERD_NAME and so on
	User        string            // that it runs as; empty: that of the program
	Outputs     []Outlet          // standard output, and standard error if separate

	DirectoryRoots directory.Roots // below which the program's directories are made
	BeginsRun      bool            // no process of the run was started before
	Input          *Outlet         // becomes its standard input; nil: /dev/null
	Terminal       bool            // Input is a terminal, which becomes its controlling one
	// What it listens on: its descriptors from FirstSocket on, which is 0 or 3. Spawn releases each
	// of them. With TellsPid an empty LISTEN_PID in Own gets its pid. With Connection there is one,
	// which is accepted; as descriptor 0 it is standard output, too
	Sockets     []*SharedFD
	FirstSocket int
	TellsPid    bool
	Connection  bool

	NotifySocket string // path of the notify socket to make; empty: none
	ReadyFD      int    // descriptor number of the program's end of a new readiness pipe; 0: none
	// directory of the run's private_tmp, made by its first process; empty: none
	PrivateTmp string

	Process *pidfd.Process // storage for the child's Process; nil: it is allocated

	// All three may be nil. LogIntent is called off the loop just before the fork: after is the
	// clock, in ticks since boot. If it fails, there is no fork. StoreFDs is called between
	// LogIntent and the fork, with the notify socket, the read end of the readiness pipe and the
	// ReadFDs of the Child, -1 for none. LogSpawned is called just after the fork.
	LogIntent func(after uint64) error
	StoreFDs  func(notify, ready int, outputs []int)
	// at: the loop's clock just before the fork
	LogSpawned func(id pidfd.Identity, at time.Duration) error
}

// An Outlet says where a process writes, or reads.
type Outlet struct {
	FIFO   string // its path
	ReadFD int    // its read end; -1: the FIFO is created first

	// Direct opens the file itself, off the loop, for a program of that user that writes to it, or
	// reads from it, directly; nil: it uses the FIFO.
	Direct func(uid uint32) (fd int, err error)
}

// A Child is a started process. The receiver owns its descriptors.
type Child struct {
	Process Process
	ID      pidfd.Identity // only pid and inode if its start time could not be read
	// read ends of FIFOs made for this spawn, in the order of the spec's outputs; -1: it existed
	ReadFDs []int
	InputFD int    // FIFO made for its input, open for reading and writing; 0 or -1: none
	EnvSum  uint64 // [document.EnvSum] of the env file; 0: it has none
	// what of its sandbox could not be enforced: keys with the cause
	SandboxWarnings []string

	NotifyFD int // its notify socket; -1: none
	ReadyFD  int // read end of its readiness pipe; -1: none
}

// A PendingSpawn is a spawn without a result yet.
type PendingSpawn interface {
	// Cancel reports whether the spawn was cancelled before a fork. If so, done does not run.
	// Instead returned runs on the loop when the worker has returned from a call that may hang. If
	// not, a child that has not executed the program yet gets SIGKILL, and done runs with an error
	// when it has ended.
	Cancel(returned func()) bool
	// Child returns the pid of a child that has not executed the program yet; 0: none.
	Child() int
	// Stage returns what the worker does: "open executable /mnt/bin/web".
	Stage() string
	// Queued reports whether the spawn waits for a worker, for which there is no time-out.
	Queued() bool
}

// A WaitState is what a process waits in.
type WaitState struct {
	Text    string // "D (disk sleep) in nfs_wait"
	Stopped bool   // waits for SIGCONT
}

// A SpawnError reports the stage at which a start failed, its object and the cause.
type SpawnError struct {
	Stage string // "open executable", "enter directory", …
	Path  string // object of the stage; may be empty
	Err   error
	Fault Fault

	Killed bool // by [PendingSpawn.Cancel]
}

func (e *SpawnError) Error() string {
	if e.Path == "" {
		return e.Stage + ": " + e.Err.Error()
	}
	return e.Stage + " " + e.Path + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SpawnError) Unwrap() error { return e.Err }

// A Fault says how a failed spawn counts.
type Fault uint8

// How a failed spawn counts.
const (
	FaultProgram  Fault = iota // a fault of the program: counts as a failure
	FaultResource              // a resource shortage: retried without limit
	FaultFinal                 // a retry is pointless until the configuration changes
)

// FaultOf distinguishes a resource shortage of the machine from a mistake in the program.
func FaultOf(err error) Fault {
	for _, shortage := range []syscall.Errno{
		syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC,
	} {
		if errors.Is(err, shortage) {
			return FaultResource
		}
	}
	return FaultProgram
}

// FaultIn returns which fault the error of a start reports.
func FaultIn(err error) Fault {
	if se, ok := errors.AsType[*SpawnError](err); ok {
		return se.Fault
	}
	return FaultProgram
}

// DescribeHung describes what a spawn that can't be cancelled waits for.
func DescribeHung(h Host, pending PendingSpawn) string {
	pid := pending.Child()
	if pid == 0 {
		return pending.Stage() + ": no answer; " + HangHint
	}
	waits := h.WaitsIn(pid)
	return fmt.Sprintf("%s: process %d survives SIGKILL: state %s; %s",
		pending.Stage(), pid, waits.Text, waits.Hint())
}

// HangHint is the hint for what takes too long for no known reason.
const HangHint = "is its file system hanging?"

// Hint returns the hint for a process that waits in w.
func (w WaitState) Hint() string {
	if w.Stopped {
		return "has a process of its user stopped it?"
	}
	return HangHint
}
