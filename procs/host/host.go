// Package host is the port between the supervisor and the system that it runs on: what the
// supervisor requests of the system, and the values that they exchange.
//
// A [Host] starts processes, reaps them and finds the [Tree] of an instance. It is the kernel, or a
// simulation. An [FDStore] stores descriptors for a successor. The package decides nothing and
// makes no system calls.
package host

import (
	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A Host starts processes and reaps superd's children. It is the kernel, or a simulation. All
// methods are called on the loop and do not block, unless their comment says otherwise.
type Host interface {
	Sockets
	Files

	// Spawn starts the program of spec off the loop. done runs once on the loop, unless the spawn
	// was cancelled.
	Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn

	// MaskSIGCHLD suppresses the signals of ended children until the next ReapOrphans, where
	// possible.
	MaskSIGCHLD()

	// ReapOrphans calls dead for each zombie child, until there is none or dead would get the same
	// one twice. It stops at a child of a spawn whose result has not arrived, and continues after
	// that result. So a child that no instance owns is an unattributed process, not one whose owner
	// does not know it yet. Live children do not delay it.
	ReapOrphans(dead func(pid int))

	// ReapUnknown reaps a zombie that no instance owns.
	ReapUnknown(pid int) (pidfd.Exit, error)

	// Unattributed calls found on the loop, perhaps before it returns, with superd's children and
	// their descendants that can't be attributed to a tree. found owns them.
	Unattributed(found func([]Member))

	// Unowned returns the unattributed processes that scans have found and that live, with the
	// instances that they may belong to.
	Unowned() []UnattributedProcess

	// NewTree returns the tree of the instance. path is its [Tree.Path] under a predecessor, in
	// which processes may live; empty: the tree is new.
	NewTree(instance, path string) Tree

	// Adopt adopts the processes of a predecessor. It is called before the loop runs.
	Adopt(all []*RecoveredProcess)

	// Search searches all processes for those of the lookup requests. It is called
	// before the loop runs. It returns the leftover processes of unknown runs, and the candidates
	// of requests that are ambiguous. users returns the users as which an instance's program may
	// run.
	Search(lookup []*LookupRequest, known map[string]bool, users func(instance string) []string) ([]Leftover, error)

	// Lives reports whether the process exists, also as a zombie. It is called before the loop
	// runs.
	Lives(id pidfd.Identity) bool

	// CheckTCP and CheckHTTP return what [probe.TCP] and [probe.HTTP] return.
	CheckTCP(address string) probe.Checker
	CheckHTTP(address string) (probe.Checker, error)

	// CloseFD closes a descriptor from a spawn or a recovery that superd does not watch. It does
	// nothing if fd is negative.
	CloseFD(fd int)

	// RemoveNames removes unused names of FIFOs and notify sockets, off the loop. A later spawn
	// creates its own after that.
	RemoveNames(paths []string)

	// RemoveTmp removes the directory of a run's private_tmp, off the loop.
	RemoveTmp(path string)

	// RemoveOtherNames is RemoveNames for all names in these directories, except keep.
	RemoveOtherNames(dirs, keep []string)

	// RemoveDirectories removes directories with what is in them, off the loop. done runs once on
	// the loop, when no name of them is left, unless that was cancelled.
	RemoveDirectories(paths []string, done func(error)) (cancel func())

	// Nowhere returns a descriptor that discards output. It is called off the loop.
	Nowhere() (int, error)

	// Capture returns a pipe for the output of a command. The end of scope closes it.
	Capture(scope *loop.Scope) (Capture, error)

	// Listen receives the messages to the notify socket of a run, see [notify.Receive]. It takes
	// ownership of fd. An error says why messages are received later.
	Listen(scope *loop.Scope, fd int, h notify.Handler) (Listener, error)

	// AwaitNewline is [notify.AwaitNewline].
	AwaitNewline(scope *loop.Scope, fd int, done func(error)) error

	// Open opens the process of the tree that has this pid. If it is not in the tree, the error is
	// [pidfd.ErrGone].
	Open(tree Tree, pid int) (Process, pidfd.Identity, error)

	// ReadPIDFile reads a pid file off the loop. It may belong to that user; "": only to root and
	// superd's user. done runs once on the loop, unless that was cancelled. The error is
	// [fs.ErrNotExist] without a file.
	ReadPIDFile(path, user string, done func(pid int, err error)) (cancel func())

	// BoundsMaxRSS reports whether a child's maximum resident memory may be superd's own: the
	// kernel counts from superd's value.
	BoundsMaxRSS(child int64) bool

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

// A Capture keeps the last output of a command.
type Capture interface {
	// Writer returns a new descriptor to which the command writes. It is called off the loop.
	Writer() (int, error)
	// Tail returns the last bytes that were written. cut reports that there were more before.
	Tail() (text string, cut bool)
}

// A Listener receives the messages to a notify socket.
type Listener interface {
	// WhenTaken calls f once, when all messages that are in the socket now are handled: before it
	// returns, if possible. A kept message may delay it for as long as the journal can't be
	// written; later messages do not.
	WhenTaken(f func())
}
