package procs

import (
	"log/slog"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/instance/paths"
	"superd/procs/rolling"
	"superd/procs/snapshot"
)

// Options are the parts and settings of a supervisor.
type Options struct {
	Loop    *loop.Loop
	Host    host.Host
	Store   *logs.Store
	Log     *slog.Logger
	Notify  Notifier      // systemd, or a no-op
	Events  *eventlog.Log // nil: events are not recorded
	OnWrite func()        // writes other queued data when records are written; nil: nothing
	Config  *config.Config
	// [config.LoadAfter], called off the loop
	Load        func(inForce *config.Config, reading func(path string)) (*config.Config, error)
	Archive     func(*config.Config) []byte // nil: [config.Config.Archive]
	Activated   func(*config.Config)        // called with each active configuration; may be nil
	Paths       paths.Paths
	Identity    Identity
	Environment []string         // superd's own; the programs' environment is derived from it
	Seed        [32]byte         // for invocation ids and jitter
	Keeper      host.FDStore     // nil: no process survives this superd
	Journal     handover.Journal // nil: no records for a successor
	Predecessor Predecessor

	tests testSettings
}

// Paths are the directories that a supervisor uses.
type Paths = paths.Paths

// An Identity tells one superd, one boot and one machine from others.
type Identity struct {
	Pid     int    // of superd
	BootID  string // see [superd/internal/procfs.BootID]
	Machine string // for the jitter of schedules
}

// A Predecessor is what the supervisor before this one has left. The zero value: there was none.
type Predecessor struct {
	Snapshot  *snapshot.Snapshot // its records; nil: none
	StoredFDs host.StoredFDs     // descriptors from the keeper
	CleanEnd  bool               // it ended in order: it spared all processes that live
	Resumed   bool               // this superd continues for it: after a crash or an upgrade
}

// testSettings are what tests change.
type testSettings struct {
	// Bound on how many instances one turn stops at shutdown; 0: maxStopBatch
	stopBatch int
	rules     *fsm.Table // rules with a planted defect; nil: those of [fsm.Rules]
	// Called before an operator's command is carried out for an instance; may be nil
	onCommand func(*instance.Instance, Op)
	// Called before an instance is restarted since files have changed; may be nil
	onFileChange func(*instance.Instance)
	rollLimits   func(*rolling.Limits) // changes the limits of rolls; nil: nothing
}

// A Notifier receives superd's own state, as in sd_notify(3). Its methods do not block.
type Notifier interface {
	Ready(status string)
	Status(status string)
	Reloading()
	Stopping()
}
