// Package procs supervises programs: it starts them, handles their exit, restarts and stops them,
// and explains why.
//
// A [Supervisor] and all that it owns live on the loop's goroutine. It consists of parts, each in a
// file of its own, such as the recorder, the replicas and the shutdown. Each instance of a program
// has a [fsm.Machine], which only decides; transition.go performs its decisions. A [host.Host]
// stands for the kernel. Whatever can block runs in workers and comes back by Loop.Post.
package procs

import (
	"log/slog"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/deps"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/reaper"
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
	Paths       instance.Paths
	Identity    Identity
	Environment []string     // superd's own; the programs' environment is derived from it
	NotifyKey   []byte       // secret from which the names of notify sockets are derived
	Seed        [32]byte     // for invocation ids and jitter
	Keeper      host.FDStore // nil: no process survives this superd
	Journal     Journal      // nil: no records for a successor
	Predecessor Predecessor
	// For code that shows the lines; runEnded is called on the loop
	OnCollector func(*logs.Collector) (runEnded func())

	tests testSettings
}

// Paths are the directories that a supervisor uses.
type Paths = instance.Paths

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
}

// A Supervisor supervises the programs of one configuration.
//
// It consists of parts, each with its own state. It has what others call, makes instances, and does
// what concerns several parts. Parts that need loop, host or log have the same platform.
type Supervisor struct {
	*platform
	registry      *registry
	recorder      *recorder
	fds           *fdKeeper
	reaper        *reaper.Reaper
	reconciler    *reconciler
	waiters       *waiters
	config        *configState
	shutdown      *shutdown
	readyNotifier *readyNotifier
	subscriptions *subscriptions
	exitPolicy    *exitPolicy
	conflicts     *conflicts
	replicas      *replicas
	selector      *selector
	reloads       *reloads
	recovery      *recovery
}

// New returns a supervisor that has started nothing yet.
func New(o Options) *Supervisor {
	s := &Supervisor{
		platform: newPlatform(o), registry: newRegistry(),
	}
	s.makeParts()
	s.Store.OnFirstOutput(s.recorder.recordFirstOutput)
	s.Store.BeforeFirstOutput(s.saveOutputStart)
	s.Store.OnDropped(s.recorder.recordDropped)
	s.Store.OnOutage(func(o logs.Outage, over bool) {
		s.recorder.recordOutage(o, over)
		s.Scope.Post(s.subscriptions.changed)
	})
	s.Store.OnUnsavedDrops(func(c *logs.Collector) { s.Scope.Post(func() { s.saveDrops(c) }) })
	s.Store.SetMaxTotal(o.Config.Superd.LogMaxTotal)
	s.recorder.Record(eventlog.Event{Kind: eventlog.Superd, State: eventlog.Started, Pid: s.options.Identity.Pid})
	if o.Predecessor.Snapshot == nil {
		s.config.activateFirst()
		for _, program := range o.Config.Programs {
			for _, name := range program.Instances() {
				s.replicas.add(name, program)
			}
		}
	}
	return s
}

// makeParts makes the parts, each after those that it knows. A part knows the others by pointers;
// where two need each other, one has a function.
func (s *Supervisor) makeParts() {
	p := s.platform
	s.recorder = newRecorder(p)
	s.fds = newFDKeeper(p, s.registry, s.recorder, func() bool { return s.shutdown.begun })
	s.reaper = reaper.New(reaper.Options{
		Loop: p.Loop, Scope: p.Scope, Host: p.Host, Log: p.Log,
		Keeper: p.options.Keeper, Exits: p.options.Predecessor.StoredFDs.Exits,
		AfterRecorded: s.recorder.afterRecorded, ReleaseProcess: s.fds.ReleaseProcess,
		StatusTimeout: instance.ExitStatusTimeout,
	})
	owner := instanceOwner{s}
	p.Owner, p.Config, p.Records, p.FDs, p.Reaper = owner, owner, s.recorder, s.fds, s.reaper
	p.Schedules = instance.NewSchedules(p.Env, p.options.Identity.BootID, p.options.Identity.Machine)
	s.reconciler = newReconciler(s.Scope, func() {
		s.waiters.answerPostponed()
		s.exitPolicy.endIfAllEnded()
		s.subscriptions.changed()
	})
	p.Graph = deps.New(graphOwner{s.reconciler})
	s.waiters = newWaiters(s.reconciler)
	s.reconciler.answer = s.waiters.answer
	s.config = newConfigState(p, s.recorder, s.saveSelf)
	s.shutdown = newShutdown(p, s.registry, s.recorder, s.reaper, s.saveSelf, s.saveEnd)
	s.readyNotifier = newReadyNotifier(s, func() bool { return s.reloads.running })
	s.subscriptions = newSubscriptions(p, s.registry, s.readyNotifier.update)
	s.exitPolicy = newExitPolicy(s)
	s.conflicts = newConflicts(s.registry, s.reconciler)
	s.replicas = newReplicas(s)
	s.selector = &selector{s.registry, s.config, s.replicas}
	s.reloads = newReloads(s)
	s.recovery = newRecovery(s)
}

// Start resumes the recovered instances and starts the programs that start by themselves. onEnd
// runs when a shutdown is complete, before the journal records the end.
func (s *Supervisor) Start(onEnd func()) {
	s.shutdown.onEnd = onEnd
	if s.options.Predecessor.Resumed {
		// No signal reported children that exited during the exec of this binary
		s.reaper.Schedule()
	}
	s.readyNotifier.start()
	if !s.shutdown.begun {
		s.recovery.startMissing()
		s.recovery.logStoppedByOperator()
	} else { // requested before Start, or resumed
		s.shutdown.resume()
	}
	s.subscriptions.changed()
}

// onRest is called when an instance comes to rest, or waits. An instance that leaves the
// configuration is removed. Then what waits until others are at rest continues: the exit policy and
// the shutdown.
func (s *Supervisor) onRest(in *instance.Instance) {
	if in.Membership.Leaves() {
		s.replicas.beginRemoval(in)
	}
	s.shutdown.removeEmpty(in)
	s.exitPolicy.endIfAllEnded()
	s.shutdown.proceed()
}

// ScheduleReap schedules the reaping of orphans. It is called after SIGCHLD.
func (s *Supervisor) ScheduleReap() { s.reaper.Schedule() }

// OnStoredExit handles an exit that the keeper reports. It is called on the loop.
func (s *Supervisor) OnStoredExit(e host.StoredExit) { s.reaper.OnStoredExit(e) }

// WriteSoon writes all that is queued for journal and event log after writePause.
func (s *Supervisor) WriteSoon() { s.recorder.WriteSoon() }

// Write passes all that is queued for the descriptor store, the event log and the journal to their
// writers. It does not wait for them.
func (s *Supervisor) Write() { s.recorder.write() }

// LogState writes the state of all instances to superd's log.
func (s *Supervisor) LogState() {
	lag := s.Loop.Lag()
	s.Log.Info("state of superd", "pid", s.options.Identity.Pid, "instances", len(s.registry.instances), "loop_lag_max", lag.Max)
	for _, in := range s.registry.instances {
		st := s.status(in)
		s.Log.Info("state", "instance", st.Name, "state", st.State.String(), "since", st.Since.Format(time.RFC3339),
			"pid", st.Main.Pid, "restarts", st.Restarts, "reason", st.Reason)
	}
}

// ReopenLogs lets each log file be reopened by its path at the next write.
func (s *Supervisor) ReopenLogs() {
	for _, in := range s.registry.instances {
		in.Output.Collector.Reopen()
	}
	s.Log.Info("log files reopened")
}

// newInstance returns a stopped instance, see [newInstance].
func (s *Supervisor) newInstance(name string, program, runProgram *config.Program, treePath string) *instance.Instance {
	in := instance.New(s.Env, name, program, runProgram, treePath)
	s.conflicts.claim(in, nil, in.Output.Collector.Files())
	s.subscriptions.watchLines(in)
	return in
}
