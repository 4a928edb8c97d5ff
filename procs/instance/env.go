package instance

import (
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"time"

	"superd/config"
	"superd/config/environ"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/deps"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/directories"
	"superd/procs/instance/output"
	"superd/procs/instance/paths"
	"superd/procs/probe"
	"superd/procs/schedule"
	"superd/procs/sockets"
)

// An Env is what all instances of a supervisor run on. It decides nothing, and none of its fields
// changes after the start.
type Env struct {
	Loop        *loop.Loop
	Scope       *loop.Scope // in which each instance has its own
	Host        host.Host
	Store       *logs.Store
	Log         *slog.Logger
	Random      *rand.ChaCha8
	RNG         *rand.Rand // draws from Random
	Prober      *probe.Prober
	Environment environ.Variables // environment that programs inherit
	Paths       paths.Paths
	Rules       *fsm.Table             // nil: those of [fsm.Rules]
	Graph       *deps.Graph[*Instance] // dependencies between the instances
	Schedules   *schedule.Set

	Owner   Owner
	Config  Configuration
	Records Records
	FDs     FDs
	Reaper  Reaper
	Sockets *sockets.Set

	shared shared
}

// shared is what the instances have in common and keep themselves.
type shared struct {
	outputs        *output.Env // nil before the first instance
	directoryUsers directories.Users
}

// An Owner has the instances. It is told what happens to them.
type Owner interface {
	// Transitioned is called after each transition of the machine, whose effects are performed.
	Transitioned(in *Instance, from, to fsm.State)
	// Counted is called when the machine has another state without a transition.
	Counted(in *Instance)
	// Changed is called when something that a status shows has changed.
	Changed()
	// UnkillableChanged is called when the instance has unkillable processes, or no longer.
	UnkillableChanged(in *Instance, unkillable bool)
	// OutputChanged is called when the log files of the instance may be others than before, or it
	// has more streams.
	OutputChanged(in *Instance, before []string, moreStreams bool)
	// Phase returns what the supervisor does.
	Phase() Phase
}

// A Phase is what the supervisor does, as far as it concerns instances.
type Phase struct {
	Ending     bool // superd shuts down
	Hurry      bool // stop time-outs are over
	Requesting bool // some instances are not requested to stop yet
}

// A Configuration is what instances need of the active configuration.
type Configuration interface {
	// Number returns its number.
	Number() uint64
	// Definition returns the definition of the program with that name; nil without one. has reports
	// whether it has that instance.
	Definition(program, instance string) (p *config.Program, has bool)
	// NoneReason returns why a program has no instances.
	NoneReason(program string) string
	// Sources returns the instances whose output the logger reads.
	Sources(logger *config.Program) []*Instance
}

// Records are the journal, which a successor reads, and the event log.
type Records interface {
	// HasEvents reports whether events are recorded.
	HasEvents() bool
	Record(e eventlog.Event)
	// RecordLater records e, whose time is set. It may be called from any goroutine.
	RecordLater(e eventlog.Event)
	// NextStart returns the number of the next start.
	NextStart() uint64
	// Put writes a record before it returns. It is called off the loop.
	Put(key string, value any) error
	// Queue queues a record, which is written soon; nil removes it.
	Queue(key string, value any)
	// QueueFirst is Queue before all that is queued.
	QueueFirst(key string, value any)
	// Ended reports whether the end of superd is recorded: no further state is.
	Ended() bool
	// AfterTurn calls f when the state at the end of this turn is recorded, or could not be.
	AfterTurn(f func())
	// AfterSaving calls f when the present state is recorded, or with the error.
	AfterSaving(f func(unrecorded error))
}

// FDs are the descriptors that a successor gets, by name.
type FDs interface {
	// Reserve returns a new name; "" if there is none. The names for output are preferred.
	Reserve(output bool) (name string)
	// Store stores a duplicate of fd. It may be called off the loop.
	Store(name string, fd int)
	// StoreFD is Reserve and Store.
	StoreFD(fd int, output bool) (name string)
	// StoreProcess stores a process's pidfd soon.
	StoreProcess(p host.Process) (name string)
	// Release removes a descriptor when the journal does not refer to it any more.
	Release(name string)
	// ReleaseProcess is Release for a process that has ended.
	ReleaseProcess(name string)
	// Claim returns the descriptor that a predecessor has stored; -1 without one.
	Claim(name string) int
	// Has reports whether a descriptor is stored.
	Has(name string) bool
}

// A Reaper reaps superd's children.
type Reaper interface {
	// WatchExit calls reap in each turn after the process has ended, until scope is closed or watch
	// is stopped. In a resource shortage, watched is false and reap is called periodically.
	// watching reports whether watch is in use.
	WatchExit(scope *loop.Scope, watch *loop.Watch, p host.Process, reap func()) (watching, watched bool)
	// WatchChild is WatchExit; the end of scope closes the process and releases its stored pidfd.
	WatchChild(scope *loop.Scope, p host.Process, storedName string, reap func()) (watched bool)
	// WaitStatus returns the exit status of a process, if it has ended, and forgets it; another
	// call returns the same. It acknowledges the exit to the keeper, if a predecessor started the
	// process.
	WaitStatus(p host.Process) (exit pidfd.Exit, ended bool)
	// AwaitsStatus reports whether a process has ended and its exit status may still come.
	AwaitsStatus(p host.Process) bool
	// DropChild forgets a process without waiting for it.
	DropChild(p host.Process)
	// Adopt returns a process that a predecessor started. p is nil if it no longer exists.
	Adopt(p host.Process, id pidfd.Identity) host.Process
	// Schedule schedules the reaping of orphans.
	Schedule()
	// LogUnwatched logs that the end of a process is noticed late.
	LogUnwatched(pid int, err error)
}

// ExitStatusTimeout bounds the wait for the exit status of a process that is not superd's child.
// Its parent reaps it at once; after that the kernel may still have the status, or the keeper
// reports it.
const ExitStatusTimeout = time.Second

// NewInvocationID returns 128 random bits in hexadecimal.
func (e *Env) NewInvocationID() string {
	var id [16]byte
	e.Random.Read(id[:])
	return hex.EncodeToString(id[:])
}

// WallAt returns the wall-clock time of a time on the loop's clock. It is computed anew in each
// turn, so that it stays right when the wall clock is stepped.
func (e *Env) WallAt(at time.Duration) time.Time { return e.Loop.WallAt(at) }
