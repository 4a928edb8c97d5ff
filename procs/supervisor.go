// Package procs supervises programs: it starts them, handles their exit, restarts and stops them,
// and explains why.
//
// A [Supervisor] and all that it owns live on the loop's goroutine. Each instance of a program has
// a [fsm.Machine], which only decides; the package instance performs its decisions. A [host.Host]
// stands for the kernel. Whatever can block runs in workers and comes back by Loop.Post.
//
// The supervisor consists of parts, each in a file of its own. A part uses only parts above it in
// this list; what it needs of others it gets as a function:
//
//   - options, platform: what the supervisor runs on
//   - registry, reconciler, waiters: the instances, what is due for them, who waits for them
//   - [handover.Recorder], [handover.FDKeeper], configState: what a successor must know
//   - reaper, shutdown, exitPolicy, selfRecord: the end of processes and of superd
//   - readyNotifier, subscriptions: who is told; package outputevents: what is recorded of output
//   - [sockets.Set]: what superd listens on for programs; [filewatch.Watches]: their files
//   - conflicts, replicas, rolls, selector: which instances there are
//   - applier, reloads, recovery: changes of all of them
//   - Supervisor: makes the parts, and has what others call: commands, status, diagnosis, scale
package procs

import (
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/deps"
	"superd/procs/eventlog"
	"superd/procs/filewatch"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/onconnect"
	"superd/procs/outputevents"
	"superd/procs/reaper"
	"superd/procs/reconcile"
	"superd/procs/schedule"
	"superd/procs/selection"
	"superd/procs/snapshot"
	"superd/procs/sockets"
	"superd/procs/subscriptions"
)

// A Supervisor supervises the programs of one configuration.
//
// It consists of parts, each with its own state. It has what others call, and does what concerns
// several parts. Parts that need loop, host or log have the same platform.
type Supervisor struct {
	*platform
	registry      *registry
	recorder      *handover.Recorder
	reaper        *reaper.Reaper
	reconciler    *reconcile.Queue
	waiters       *reconcile.Waiters
	config        *configState
	shutdown      *shutdown
	readyNotifier *readyNotifier
	subscriptions *subscriptions.Set
	exitPolicy    *exitPolicy
	conflicts     *conflicts
	replicas      *replicas
	rolls         *rolls
	selector      *selection.Selector
	reloads       *reloads
	recovery      *recovery
	applier       *applier
	self          *selfRecord
	connectors    *onconnect.Connectors // has the sockets
}

// New returns a supervisor that has started nothing yet.
func New(o Options) *Supervisor {
	s := &Supervisor{
		platform: newPlatform(o), registry: new(registry),
	}
	s.makeParts()
	outputevents.Observe(outputevents.Options{
		Scope: s.Scope, Store: s.Store, Events: o.Events, Recorder: s.recorder,
		Instance: s.registry.named, Changed: s.subscriptions.Changed,
	})
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
// where two need each other, one has a function, or is completed at the end.
func (s *Supervisor) makeParts() {
	p, reg := s.platform, s.registry
	s.self = &selfRecord{platform: p, registry: reg}
	s.recorder = handover.NewRecorder(handover.RecorderOptions{
		Loop: p.Loop, Scope: p.Scope,
		Journal: p.options.Journal, Events: p.options.Events, OnWrite: p.options.OnWrite,
	})
	fds := handover.NewFDKeeper(s.recorder, handover.FDOptions{
		Host: p.Host, Log: p.Log, Keeper: p.options.Keeper,
		OutputFDs:    func() int { return reg.outputs },
		ShuttingDown: func() bool { return s.shutdown.begun },
	})
	s.reaper = reaper.New(reaper.Options{
		Loop: p.Loop, Scope: p.Scope, Host: p.Host, Log: p.Log,
		Keeper: p.options.Keeper, Exits: p.options.Predecessor.StoredFDs.Exits,
		AfterRecorded: s.recorder.AfterRecorded, ReleaseProcess: fds.ReleaseProcess,
		StatusTimeout: instance.ExitStatusTimeout,
	})
	held := sockets.NewSet(sockets.Options{
		Scope: p.Scope, Host: p.Host, Log: p.Log, Records: s.recorder, FDs: fds,
		Changed: func(socket string) {
			enqueueSocketWaiters(reg, s.reconciler, socket)
			s.connectors.UpdateUsers(socket)
			s.subscriptions.Changed()
		},
		Users: func(a listen.Address) []string { return runsWithSocket(reg, a) },
	})
	p.Sockets = held
	owner := instanceOwner{s}
	p.Owner, p.Config, p.Records, p.FDs, p.Reaper = owner, owner, s.recorder, fds, s.reaper
	p.Schedules = schedule.NewSet(p.Scope, p.options.Identity.BootID, p.options.Identity.Machine,
		func(err error) {
			p.Log.Warn("schedules notice late when the clock is set or the machine sleeps",
				"error", err)
		},
		func(instance string) { p.Records.Queue(snapshot.ScheduleKey(instance), nil) })
	s.reconciler = &reconcile.Queue{Scope: s.Scope, OnIdle: func() {
		s.waiters.AnswerPostponed()
		s.exitPolicy.endIfAllEnded()
		s.subscriptions.Changed()
	}}
	p.Graph = deps.New(graphOwner{s.reconciler})
	s.waiters = reconcile.NewWaiters(s.reconciler)
	s.reconciler.Answer = s.waiters.Answer
	s.config = newConfigState(p, s.recorder, s.self.save)
	s.shutdown = newShutdown(p, reg, s.recorder, s.reaper, s.self.save, func() {
		s.connectors.ForgetAll()
		held.Close()
		s.self.saveEnd()
	})
	s.connectors = onconnect.New(onconnect.Options{
		Loop: p.Loop, Scope: p.Scope, Host: p.Host, Log: p.Log, Sockets: held, Instances: reg.of,
		Config:  func() *config.Config { return s.config.active },
		Ending:  func() bool { return s.shutdown.begun },
		Rolling: func(program string) bool { return s.rolls.all[program] != nil },
		Create: func(p *config.Program, name string) *instance.Instance {
			s.replicas.create(name, p, nil)
			return reg.named(name)
		},
		Retire: func(in *instance.Instance) { s.replicas.retire(in, fsm.By(fsm.ActorIdle)) },
	})
	watches := filewatch.New(filewatch.Options{
		Loop: p.Loop, Scope: p.Scope, Files: p.Host, Log: p.Log,
		Own: []string{p.Paths.RuntimeDir, p.Paths.LogDir}, Instances: reg.of,
		Config:  func() *config.Config { return s.config.active },
		Ending:  func() bool { return s.shutdown.begun },
		Changed: func() { s.subscriptions.Changed() }, BeforeRestart: p.options.tests.onFileChange,
	})
	s.readyNotifier = &readyNotifier{
		platform: p, registry: reg, reconciler: s.reconciler, shutdown: s.shutdown,
		reloading: func() bool { return s.reloads.running }, opening: held.Opening,
		notify: p.options.Notify,
	}
	s.subscriptions = &subscriptions.Set{
		Scope: p.Scope, Instances: func() []*instance.Instance { return reg.instances },
		BeforeWatchers: s.readyNotifier.update,
	}
	s.exitPolicy = &exitPolicy{
		platform: p, shutdown: s.shutdown, registry: reg, reconciler: s.reconciler,
		config: s.config, saveSelf: s.self.save,
		awaits:  func(in *instance.Instance) bool { return s.connectors.Awaits(in) },
		isExtra: func(in *instance.Instance) bool { return s.rolls.isExtra(in) },
	}
	s.self.recorder, s.self.shutdown, s.self.config, s.self.exitPolicy =
		s.recorder, s.shutdown, s.config, s.exitPolicy
	s.conflicts = newConflicts(reg, s.reconciler, func(in *instance.Instance) bool {
		return s.rolls.isExtra(in) || in.Program.Accepts()
	})
	s.replicas = &replicas{
		platform: p, registry: reg, recorder: s.recorder, config: s.config,
		conflicts: s.conflicts, subscriptions: s.subscriptions, waiters: s.waiters,
		reconciler: s.reconciler, shutdown: s.shutdown, exitPolicy: s.exitPolicy,
		scales: map[string]snapshot.Scale{}, onRemoved: s.connectors.Update,
	}
	s.rolls = &rolls{
		platform: p, registry: reg, recorder: s.recorder, config: s.config, replicas: s.replicas,
		conflicts: s.conflicts, reconciler: s.reconciler, shutdown: s.shutdown, subscriptions: s.subscriptions,
		all: map[string]*roll{}, failed: map[string]string{},
	}
	s.replicas.rolls, s.self.rolls = s.rolls, s.rolls
	s.selector = &selection.Selector{
		All:        func() []*instance.Instance { return reg.instances },
		Config:     func() *config.Config { return s.config.active },
		NoneReason: s.replicas.noneReason,
	}
	s.applier = &applier{
		platform: p, registry: reg, recorder: s.recorder, config: s.config, replicas: s.replicas,
		conflicts: s.conflicts, exitPolicy: s.exitPolicy, subscriptions: s.subscriptions,
		sockets: held, connectors: s.connectors, watches: watches, rolls: s.rolls,
	}
	s.reloads = &reloads{
		platform: p, recorder: s.recorder, config: s.config, applier: s.applier,
		shutdown: s.shutdown, readyNotifier: s.readyNotifier,
	}
	s.recovery = &recovery{
		platform: p, registry: reg, recorder: s.recorder, fds: fds, reaper: s.reaper,
		config: s.config, conflicts: s.conflicts, shutdown: s.shutdown, exitPolicy: s.exitPolicy,
		replicas: s.replicas, applier: s.applier, self: s.self, sockets: held, onRest: owner.onRest,
		leftovers: map[string][]host.Leftover{},
	}
}

// Adopt recovers the instances and processes of a predecessor. It is called before the loop runs
// and before Start. After an error nothing has changed, and nothing must be started.
func (s *Supervisor) Adopt() error { return s.recovery.adopt() }

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
		s.connectors.UpdateAll()
		s.applier.watches.UpdateAll()
		s.recovery.logStoppedByOperator()
	} else { // requested before Start, or resumed
		s.shutdown.resume()
	}
	s.subscriptions.Changed()
}

// Watch calls f on the loop after the status or the last line of any instance has changed, once for
// all changes of a turn. Without watchers it costs nothing.
func (s *Supervisor) Watch(f func()) (cancel func()) { return s.subscriptions.Watch(f) }

// WatchInstances calls f on the loop after an instance was added or got a separate log for standard
// error, once for all changes of a turn.
func (s *Supervisor) WatchInstances(f func()) (cancel func()) {
	return s.subscriptions.WatchInstances(f)
}

// Shutdown stops every program and then superd, at a person's request. A second request,
// secondRequestAfter or more after the first, kills all processes that are left.
func (s *Supervisor) Shutdown(why string) { s.shutdown.request(why) }

// RequestShutdown is Shutdown with a callback. It calls recorded when the journal has the request,
// after which a successor resumes the shutdown, or with the error. recorded is called once, on any
// goroutine, perhaps before RequestShutdown returns.
func (s *Supervisor) RequestShutdown(why string, recorded func(unrecorded error)) {
	s.shutdown.request(why)
	s.recorder.Flush(recorded) // not through the loop, which may end first
}

// ExitStatus returns superd's exit status after the shutdown: 0 unless a program decides it.
func (s *Supervisor) ExitStatus() int { return s.exitPolicy.status }

// LeavesRecords reports whether records for a successor remain after an orderly end.
func (s *Supervisor) LeavesRecords() bool { return s.self.leavesRecords }

// Reload reads the configuration again, off the loop, and activates it: all of it or, if it has any
// mistake, nothing. With dryRun it only returns what would change. done runs on the loop.
//
// During a reload, a further one waits for its end, as the file may have changed since it was read.
// If the reading hangs, all callers get an error, and the reload continues.
func (s *Supervisor) Reload(dryRun bool, done func(ReloadResult, error)) {
	s.reloads.request(dryRun, done)
}

// ScheduleReap schedules the reaping of orphans. It is called after SIGCHLD.
func (s *Supervisor) ScheduleReap() { s.reaper.Schedule() }

// OnStoredExit handles an exit that the keeper reports. It is called on the loop.
func (s *Supervisor) OnStoredExit(e host.StoredExit) { s.reaper.OnStoredExit(e) }

// WriteSoon writes all that is queued for journal and event log after [handover.WritePause].
func (s *Supervisor) WriteSoon() { s.recorder.WriteSoon() }

// Write passes all that is queued for the descriptor store, the event log and the journal to their
// writers. It does not wait for them.
func (s *Supervisor) Write() { s.recorder.Write() }

// LogState writes the state of all instances to superd's log.
func (s *Supervisor) LogState() {
	lag := s.Loop.Lag()
	s.Log.Info("state of superd", "pid", s.options.Identity.Pid, "instances", len(s.registry.instances), "loop_lag_max", lag.Max)
	for _, in := range s.registry.instances {
		st := s.status(in)
		s.Log.Info("state", "instance", st.Name, "state", st.State.String(), "since", st.Since.Format(time.RFC3339),
			"pid", st.Main.Pid, "restarts", st.Restarts.Count, "reason", st.Reason)
	}
}

// ReopenLogs lets each log file be reopened by its path at the next write.
func (s *Supervisor) ReopenLogs() {
	for _, in := range s.registry.instances {
		in.Output.Collector.Reopen()
	}
	s.Log.Info("log files reopened")
}
