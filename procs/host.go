package procs

import (
	"errors"
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A System starts processes and knows superd's children. It is the kernel, or a simulation. All
// methods are called on the loop and do not block, unless their comment says otherwise.
type System interface {
	// Spawn starts the program of spec off the loop. done runs once on the loop, unless the spawn
	// was cancelled.
	Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn

	// MaskSIGCHLD suppresses the signals of ended children until the next ReapOrphans, where
	// possible.
	MaskSIGCHLD()

	// ReapOrphans calls dead for each zombie child, until none is left or dead has got the same one
	// twice. It does not pass over a child of a spawn whose result is not in: it continues after
	// that result. So a child that no instance owns is an unattributed process, not one whose owner
	// does not know it yet. Live children do not delay it.
	ReapOrphans(dead func(pid int))

	// ReapUnknown reaps a zombie that no instance owns.
	ReapUnknown(pid int) (pidfd.Exit, error)

	// Unattributed calls found on the loop, perhaps before it returns, with superd's children and
	// their descendants that can't be attributed to a tree. found owns them.
	Unattributed(found func([]Member))

	// Unowned returns those of them that were found by chance and live, with the instances that
	// they may belong to.
	Unowned() []UnattributedProcess

	// NewTree returns the tree of the instance. place is where a predecessor had it, from
	// [Tree.Path], and processes may live there; empty: it is new.
	NewTree(instance, place string) Tree

	// Adopt adopts the processes that a predecessor has left. It is called before the loop runs.
	Adopt(all []*RecoveredProcess)

	// Search looks for the processes of the lookup requests among all processes. It is called
	// before the loop runs. It returns the leftover processes of unknown runs, and the candidates
	// of requests that are ambiguous. users returns the users as which an instance's program may
	// run.
	Search(lookup []*LookupRequest, known map[string]bool, users func(instance string) []string) ([]Leftover, error)

	// Lives reports whether the process exists, be it a zombie. It is called before the loop runs.
	Lives(id pidfd.Identity) bool

	// CheckTCP and CheckHTTP return what [probe.TCP] and [probe.HTTP] return.
	CheckTCP(address string) probe.Checker
	CheckHTTP(address string) (probe.Checker, error)

	// CloseFD closes a descriptor from a spawn that superd does not watch.
	CloseFD(fd int)

	// RemoveNames removes unused names of FIFOs and notify sockets, off the loop. A later spawn
	// creates its own after that.
	RemoveNames(paths []string)

	// RemoveOtherNames is RemoveNames for all names in these directories, except keep.
	RemoveOtherNames(dirs, keep []string)

	// Nowhere returns a descriptor that discards output. It is called off the loop.
	Nowhere() (int, error)

	// Listen receives the messages to the notify socket of a run, see [notify.Receive]. It takes
	// ownership of fd.
	Listen(scope *loop.Scope, fd int, h notify.Handler) (Listener, error)

	// AwaitNewline is [notify.AwaitNewline].
	AwaitNewline(scope *loop.Scope, fd int, done func(error)) error

	// Open opens the process of the tree that has this pid. If it is not in the tree, the error is
	// [pidfd.ErrGone].
	Open(tree Tree, pid int) (Process, pidfd.Identity, error)

	// WaitsIn returns what a process waits in; for an unkillable process.
	WaitsIn(pid int) WaitState
}

// An UnattributedProcess is a child of superd that can't be attributed to a tree.
type UnattributedProcess struct {
	Pid       int
	Start     uint64 // clock ticks since boot
	Command   string
	Instances []string // candidates: instances with live processes when it was found
}

// A Listener receives the messages to a notify socket.
type Listener interface {
	// WhenTaken calls f once, when all messages there now are handled: before it returns, if
	// possible. A held message may delay it for as long as the journal can't be written; later
	// messages do not.
	WhenTaken(f func())
}

// anyPlace is the place of a tree whose processes are found by a scan of /proc.
const anyPlace = "/proc"

// A Tree is the live processes of an instance: its main process, its hooks and all their
// descendants, wherever they went. Zombies don't count.
type Tree interface {
	// Empty reports whether no process lives in it, as far as known at once. If it is false, Look
	// has the answer.
	Empty() bool
	// Look calls found on the loop, perhaps before it returns, with the live processes. found owns
	// them.
	Look(found func([]Member))
	// Has reports whether the process with this pid belongs to it, as far as known at once.
	Has(pid int) bool
	// Kill sends SIGKILL to all processes at once where the kernel can, and does nothing elsewhere.
	Kill() error
	// OOMKills returns how many of its processes the kernel has killed so far for lack of memory,
	// by the tree's own limit or the machine's. It is 0 where the kernel does not count.
	OOMKills() int
	// Lack returns why its live processes are not in a cgroup of their own. It is empty if they
	// are, or if superd has no cgroups at all.
	Lack() string
	// Path returns where the tree is, for a successor.
	Path() string
	// Remove releases the tree's system resources. No process lives in it.
	Remove()
}

// A Member is one process of a tree.
type Member struct {
	Process Process
	Start   uint64 // clock ticks since boot; identifies the process together with the pid
	Group   int    // process group
	Command string // its name, as in ps(1)
}

// A SpawnSpec describes a process to start.
type SpawnSpec struct {
	Name        string // instance
	Tree        Tree   // where it is started
	Program     *config.Program
	Environment config.Variables // environment that programs inherit
	Own         config.Variables // the run's own variables: SUPERD_NAME and so on
	Outputs     []Outlet         // standard output, and standard error if separate
	Input       *Outlet          // FIFO that becomes its standard input; nil: /dev/null

	NotifySocket string // path of the notify socket to make; empty: none
	ReadyFD      int    // descriptor number of the program's end of a new readiness pipe; 0: none

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
	ReadFD int    // its read end; -1: the FIFO is made first

	// Direct opens the log file, off the loop, for a program of that user that writes to it
	// directly; nil: it writes to the FIFO.
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

	NotifyFD int // its notify socket; -1: none
	ReadyFD  int // read end of its readiness pipe; -1: none
}

// A PendingSpawn is a spawn whose result is not in yet.
type PendingSpawn interface {
	// Cancel reports whether the spawn was cancelled before a fork. If so, done does not run.
	// Instead returned runs on the loop when the worker is back from a call that may hang. If not,
	// a child that has not executed the program yet gets SIGKILL, and done runs with an error when
	// it has ended.
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

// A Process is a main process. [pidfd.Process] implements it.
type Process interface {
	Pid() int
	FD() int     // readable when the process has ended
	Ended() bool // whether it has ended, reaped or not
	Signal(sig syscall.Signal) error
	SignalGroup(sig syscall.Signal) error
	Wait() (pidfd.Exit, bool, error) // for a child; otherwise the error is [pidfd.ErrNotChild]
	// of a process reaped by another; not supported by all kernels
	ExitInfo() (pidfd.Exit, bool, error)
	Close() error
}

// A SpawnError reports the stage at which a start failed, its object and the cause.
type SpawnError struct {
	Stage string // "open executable", "enter directory", …
	Path  string // object of the stage; may be empty
	Err   error
	Fault spawnFault

	Killed bool // by [PendingSpawn.Cancel]
}

// isKilled reports whether a start failed because superd killed its child.
func isKilled(err error) bool {
	se, ok := errors.AsType[*SpawnError](err)
	return ok && se.Killed
}

func (e *SpawnError) Error() string {
	if e.Path == "" {
		return e.Stage + ": " + e.Err.Error()
	}
	return e.Stage + " " + e.Path + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SpawnError) Unwrap() error { return e.Err }
