package procs

import (
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A System starts processes and knows superd's children. The kernel is one; a simulation is the other.
// All methods are called on the loop and do not block.
type System interface {
	// Spawn starts the program of spec off the loop. done runs once on the loop, unless the spawn was called off.
	Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn

	// Hush has no signal tell of ended children until the next Sweep, where that can be had.
	Hush()

	// Sweep calls dead for each child that has ended and is still a zombie, until none is left or dead has
	// met the same one twice. It does so when no spawn is between its fork and its result, at once if possible:
	// so a zombie that nobody knows is a stranger, and not a child whose owner has not heard of it yet.
	Sweep(dead func(pid int))

	// ReapStranger reaps a zombie that no instance owns.
	ReapStranger(pid int) (pidfd.Exit, error)

	// NewTree returns the tree of the instance. place is where an earlier superd had it, as [Tree.Place] has told, and processes may live
	// there; empty: it is a new one.
	NewTree(instance, place string) Tree

	// Adopt takes up what an earlier superd has left, before the loop runs.
	Adopt(all []*Adoptee)

	// Search finds those who are sought among all processes, before the loop runs. It returns those that an earlier superd has started in
	// runs that are not known, and those among whom it can't be certain which one is sought.
	Search(sought []*Sought, known map[string]bool) ([]Stray, error)

	// CheckTCP and CheckHTTP return what [probe.TCP] and [probe.HTTP] return.
	CheckTCP(address string) probe.Checker
	CheckHTTP(address string) (probe.Checker, error)

	// CloseFD closes a descriptor that superd has got from a spawn and does not watch.
	CloseFD(fd int)

	// RemoveFIFOs has the names of FIFOs removed, off the loop. Nobody looks for them any more.
	RemoveFIFOs(paths []string)

	// Nowhere returns a descriptor that takes output which nobody is to see. Off the loop.
	Nowhere() (int, error)

	// Listen hears what comes to the notify socket of a run, see [notify.Receive]. It takes ownership of fd.
	Listen(scope *loop.Scope, fd int, h notify.Handler) (Listener, error)

	// AwaitNewline is [notify.AwaitNewline].
	AwaitNewline(scope *loop.Scope, fd int, done func(error)) error

	// Open opens the process of the tree that has this pid. If it is none of the tree's, the error is [pidfd.ErrGone].
	Open(tree Tree, pid int) (Process, pidfd.Identity, error)

	// WaitsIn tells what a process waits in, for a process that does not die: "D (disk sleep) in nfs_wait".
	WaitsIn(pid int) string
}

// A Listener hears what comes to a notify socket.
type Listener interface {
	// WhenTaken has f called once, when all has been taken that is there now: before it returns, where nothing is in the way. A message that is
	// held may be in the way for as long as the journal can't be written.
	WhenTaken(f func())
}

// anyPlace is the place of a tree whose processes are looked for everywhere.
const anyPlace = "/proc"

// A Tree is every process that an instance has brought forth and that lives: its main process, its hooks and all their
// descendants, wherever they went. Zombies don't count.
type Tree interface {
	// Empty reports whether nothing lives in it, as far as that can be said at once; if not, Look tells.
	Empty() bool
	// Look has found called on the loop, perhaps before it returns, with those who live in it. found owns them.
	Look(found func([]Member))
	// Has reports whether the process with this pid belongs to it, as far as that can be said at once.
	Has(pid int) bool
	// Kill sends SIGKILL to all of it at once where the kernel can do that, and does nothing elsewhere.
	Kill() error
	// OOMKills tells how many of its processes the kernel has killed for lack of memory so far: at the tree's own limit,
	// or the machine's. 0 where the kernel doesn't tell.
	OOMKills() int
	// Place tells where the tree is, for the next superd.
	Place() string
	// Remove gives back what the tree holds in the system. Nothing lives in it any more.
	Remove()
}

// A Member is one process of a tree.
type Member struct {
	Process Process
	Start   uint64 // clock ticks since boot: with the pid it tells one process from another
	Group   int    // process group
	Command string // its name, as ps shows it
}

// A SpawnSpec says what to start.
type SpawnSpec struct {
	Name        string // instance
	Tree        Tree   // where it is born
	Program     *config.Program
	Environment config.Variables // that programs inherit
	Own         config.Variables // the run's: SUPERD_NAME and so on
	Outputs     []Outlet         // standard output, and standard error where that goes elsewhere
	Input       *Outlet          // a FIFO that becomes its standard input; nil: /dev/null

	NotifySocket string // path of the notify socket to make; empty: none
	ReadyFD      int    // the number at which the program has the writing end of a new pipe; 0: none

	Process *pidfd.Process // what a child of the kernel's is made, as a part of what has that life; nil: an allocation of its own

	// All three may be nil. Expect is called off the loop just before the birth: after is the clock, in ticks since boot. If it fails, nobody is born.
	// Made is called between the two, with the notify socket, the reading end of that pipe and the ReadFDs of the Child, -1 where there is none.
	// Happened is called just after the birth.
	Expect   func(after uint64) error
	Made     func(notify, ready int, outputs []int)
	Happened func(id pidfd.Identity, at time.Duration) error // at: the loop's clock
}

// An Outlet says where a process writes, or reads.
type Outlet struct {
	FIFO   string // its path
	ReadFD int    // its read end; -1: make the FIFO first

	// Direct opens the log file, off the loop, for a program of that user that writes to it by itself; nil: it writes to the FIFO.
	Direct func(uid uint32) (fd int, err error)
}

// A Child is a started process; the receiver owns what is in it.
type Child struct {
	Process Process
	ID      pidfd.Identity // pid and inode alone where its start could not be read
	ReadFDs []int          // read ends of FIFOs made for this spawn, in the order of the spec's outputs; -1 where it had one
	InputFD int            // the FIFO made for its input, open for reading and writing; 0: none was made
	EnvSum  uint64         // [config.EnvSum] of the env file; 0: it has none

	NotifyFD int // its notify socket; -1: none
	ReadyFD  int // reading end of the pipe that it has for its readiness; -1: none
}

// A PendingSpawn is a spawn whose result is not in yet.
type PendingSpawn interface {
	// CallOff reports whether the spawn was stopped before anything was started. If so, done will not run;
	// returned runs instead, on the loop, when the worker has come back from where it may hang.
	CallOff(returned func()) bool
	// Stage tells what the worker is doing: "open executable /mnt/bin/web".
	Stage() string
	// Queued reports whether the worker waits for its turn: that takes as long as it takes.
	Queued() bool
}

// A Process is a main process. [pidfd.Process] is one.
type Process interface {
	Pid() int
	FD() int     // readable when the process has ended
	Ended() bool // whether it has, be it reaped or not
	Signal(sig syscall.Signal) error
	SignalGroup(sig syscall.Signal) error
	Wait() (pidfd.Exit, bool, error)     // of a child; else the error is [pidfd.ErrNotChild]
	ExitInfo() (pidfd.Exit, bool, error) // of who has been reaped by another; not everywhere
	Close() error
}

// A SpawnError tells which stage of a start failed, on what and why.
type SpawnError struct {
	Stage string // "open executable", "enter directory", …
	Path  string // what the stage was about; may be empty
	Err   error
	Fault spawnFault
}

func (e *SpawnError) Error() string {
	if e.Path == "" {
		return e.Stage + ": " + e.Err.Error()
	}
	return e.Stage + " " + e.Path + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SpawnError) Unwrap() error { return e.Err }
