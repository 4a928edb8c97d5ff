// Package procs supervises programs: it starts them, learns of their end, restarts and stops them, and can say why.
//
// A [Supervisor] and all that it owns live on the loop's goroutine. Each instance of a program is a state machine
// that decides and does nothing itself (machine.go, rules.go); instance.go performs what it decides; a [System]
// stands for the kernel. Whatever can block goes on in workers and comes back to the loop.
package procs

import (
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/probe"
	"superd/procs/schedule"
)

// sweepDelay gathers the SIGCHLDs of a burst: the supervisor's own children report through their pidfds, so only
// orphans wait for it.
const sweepDelay = 50 * time.Millisecond

// checks is how many checks of readiness and health are under way at a time, those that hang aside.
const checks = 32

// Options are what a supervisor is made of.
type Options struct {
	Loop        *loop.Loop
	System      System
	Store       *logs.Store
	Log         *slog.Logger
	Notify      Notifier      // systemd, or nobody
	Events      *eventlog.Log // nil: events are not recorded
	OnWrite     func()        // has written what else was collected, when records are; nil: nothing is
	Config      *config.Config
	Load        func(inForce *config.Config, reading func(path string)) (*config.Config, error) // [config.LoadAfter], off the loop
	RuntimeDir  string
	LogDir      string
	Environment []string // superd's own, from which that of the programs is made
	Pid         int
	Keeper      Keeper                                // nil: nobody outlives this superd
	Inherited   Inheritance                           // what came from the keeper
	Journal     Journal                               // nil: nothing is left for the next superd
	Recovery    *Recovery                             // what the superd before has left; nil: nothing
	Resumed     bool                                  // the keeper has started this superd in the place of one that crashed
	Archive     func(*config.Config) []byte           // nil: [config.Config.Archive]
	BootID      string                                // of this boot of the machine, as [BootID] gives it
	Machine     string                                // tells this machine from others, for the jitter of schedules
	Seed        [32]byte                              // for invocation ids and jitter
	OnCapture   func(*logs.Capture) (runEnded func()) // for who shows the lines; runEnded is called on the loop

	toldAtOnce int // bound on how many instances one turn tells of a shutdown; 0: maxTold
}

// A Supervisor supervises the programs of one configuration.
type Supervisor struct {
	options  Options
	loop     *loop.Loop
	scope    *loop.Scope
	system   System
	store    *logs.Store
	log      *slog.Logger
	notify   Notifier
	keeper   Keeper
	keeping  keeping
	writing  *loop.Timer // of what is queued for journal and event log; nil: nothing ever was
	toKeep   []toKeep    // told to the keeper then
	unneeded []string    // names of what the keeper is to let go of when that is written
	journal  Journal
	random   *rand.ChaCha8
	prober   *probe.Prober

	environment config.Variables // that programs inherit
	rng         *rand.Rand

	config       *config.Config
	configNumber uint64 // that it has in the journal
	configBefore uint64 // of the first that a reload has taken out of force whose consequences are not saved yet; 0: none
	births       uint64 // so far

	inherited map[string]int          // descriptors from the keeper that nobody has asked for yet
	strays    map[string][]Stray      // by instance
	adopted   map[processKey]*adopted // whose exit the keeper may tell

	schedules     *schedule.Table           // nil before the first schedule is in force
	leftSchedules map[string]schedule.State // by instance, until it asks for it

	instances []*instance // by name
	byName    map[string]*instance
	nodes     map[string]*node       // programs, and those that are named, by name
	unsettled []*instance            // about to be looked at
	settling  bool                   // they are being looked at
	asked     []*instance            // whose waiters are told then
	writers   map[string][]*instance // who has a log file, by its path
	scales    map[string]scale       // the operator's, by program
	byPid     map[int]func()         // reaps a child that an instance owns
	heirs     map[int]*adopted       // by pid: whom an instance owns, and who may become superd's child
	counts    [stateCount]int        // instances in each state
	outputs   int                    // FIFOs that the programs have, at most
	loggers   int32                  // instances that are loggers
	stuck     int                    // instances with a process that SIGKILL did not end
	maxRSS    maxRSS                 // superd's own

	startedAt  time.Duration
	ready      bool        // everything that starts by itself has been spawned once, or takes long
	readyBy    *loop.Timer // when that is long enough
	reloading  bool
	reloads    []*reloading            // who waits for the next one
	hangsIn    *atomic.Pointer[string] // the file that a reload reads, where that hangs; else nil
	shutdown   *shutdown
	begun      bool // something was started
	endDecided bool // an instance has decided that superd ends, and with what
	endPosted  bool // a look whether all have ended is on its way
	exitStatus int  // superd's own
	onEnd      func()
	ended      bool // in good order
	leaves     bool // see Leaves
	sweepTimer *loop.Timer

	watchers     []*watcher
	changePosted bool // tellChange is on its way

	memberWatchers []*watcher
	addedPosted    bool // tellAdded is on its way
}

// New returns a supervisor that has started nothing yet.
func New(o Options) *Supervisor {
	random := rand.NewChaCha8(o.Seed)
	s := &Supervisor{
		options: o,
		loop:    o.Loop,
		scope:   o.Loop.Root().Child(),
		system:  o.System,
		store:   o.Store,
		log:     o.Log,
		notify:  o.Notify,

		environment: config.Inherited(o.Environment),

		keeper:    o.Keeper,
		journal:   o.Journal,
		inherited: map[string]int{},
		strays:    map[string][]Stray{},
		adopted:   map[processKey]*adopted{},

		leftSchedules: map[string]schedule.State{},

		random:    random,
		rng:       rand.New(random),
		config:    o.Config,
		byName:    map[string]*instance{},
		nodes:     map[string]*node{},
		writers:   map[string][]*instance{},
		scales:    map[string]scale{},
		byPid:     map[int]func(){},
		heirs:     map[int]*adopted{},
		startedAt: o.Loop.Now(),
	}
	s.prober = probe.New(o.Loop, checks, random.Uint64())
	s.store.TellRuns(s.tellRun)
	s.store.TellPlaces(s.placeRun)
	s.store.TellLosses(s.tellLoss)
	s.store.TellOutages(s.tellOutage)
	s.store.TellDrops(func(c *logs.Capture) { s.scope.Post(func() { s.saveDrops(c) }) })
	s.store.SetMaxTotal(o.Config.Superd.LogMaxTotal)
	if s.keeper == nil {
		s.keeper = nobody{}
	}
	if s.journal == nil {
		s.journal = blank{}
	}
	if s.options.Archive == nil {
		s.options.Archive = (*config.Config).Archive
	}
	s.keeping.names = map[int32]uint64{}
	s.record(eventlog.Event{Kind: eventlog.Superd, State: "started", Pid: s.options.Pid})
	if o.Recovery == nil {
		s.enactFirst()
		for _, program := range o.Config.Programs {
			for _, name := range program.Instances() {
				s.add(name, program)
			}
		}
	}
	return s
}

// Start goes on with what Adopt has taken up and starts every program that starts by itself. onEnd runs when a shutdown is complete, before the
// journal says so.
func (s *Supervisor) Start(onEnd func()) {
	s.onEnd = onEnd
	if s.options.Resumed {
		s.Children() // of those that ended while this binary was executed, no signal tells any more
	}
	s.readyBy = s.scope.After(readyPatience, s.tellNotifier)
	if s.shutdown == nil {
		s.startMissing()
	} else { // it came first, or goes on
		s.goOnShuttingDown()
	}
	s.changed()
}

// autostart starts in if its configuration says so. A program with a mistake is started, too: that makes it failed,
// with the mistake as the reason.
func (s *Supervisor) autostart(in *instance) {
	if in.program.Autostart || len(in.program.Invalid) > 0 {
		in.do(func() []Effect { return in.machine.wantUp(theConfiguration, false) })
		return
	}
	in.save() // it is there, and not one that is to come
}

// add makes an instance, which is stopped. It is not saved before it is clear what is wanted of it: until then the next superd has to
// take it for one that is new.
func (s *Supervisor) add(name string, program *config.Program) *instance {
	in := s.newInstance(name, program, program, "")
	s.byName[name] = in
	at, _ := slices.BinarySearchFunc(s.instances, in, compareInstances)
	s.instances = slices.Insert(s.instances, at, in)
	s.tellAdded()
	in.findRoom()
	return in
}

// compareInstances orders instances by program, then web@2 before web@10.
func compareInstances(a, b *instance) int {
	if c := strings.Compare(a.program.Name, b.program.Name); c != 0 {
		return c
	}
	if c := len(a.name) - len(b.name); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// atRest is told whenever an instance is at rest, or waits.
func (s *Supervisor) atRest(in *instance) {
	if in.removed {
		s.depart(in)
	}
	if s.shutdown != nil && in.program.KillMode == config.KillTree && in.held == nil && in.machine.state.AtRest() && in.tree.Empty() {
		s.removeSoon(in) // beside others that end: a thousand at the end would take a while
	}
	s.endIfAllEnded()
	s.continueShutdown()
}

// Children is told by SIGCHLD that some child has ended.
func (s *Supervisor) Children() {
	if s.sweepTimer != nil {
		return
	}
	s.system.Hush()
	s.sweepTimer = s.scope.After(sweepDelay, func() {
		s.sweepTimer = nil
		s.system.Sweep(s.childDied)
	})
}

// childDied has the owner of a zombie reap it, and reaps it itself if it has none.
func (s *Supervisor) childDied(pid int) {
	if reap := s.byPid[pid]; reap != nil {
		reap()
		return
	}
	if heir := s.heirs[pid]; heir != nil && heir.reapHere() {
		return
	}
	exit, err := s.system.ReapStranger(pid)
	if err != nil {
		s.log.Warn("orphan not reaped", "pid", pid, "error", err)
		return
	}
	s.log.Debug("orphan reaped", "pid", pid, "exit", exit.String())
}

// newInvocationID returns 128 random bits in hexadecimal, the name of one run.
func (s *Supervisor) newInvocationID() string {
	var id [16]byte
	s.random.Read(id[:])
	return hex.EncodeToString(id[:])
}

// LogState writes the state of everything to superd's log.
func (s *Supervisor) LogState() {
	lag := s.loop.Lag()
	s.log.Info("state of superd", "pid", s.options.Pid, "instances", len(s.instances), "loop_lag_max", lag.Max)
	for _, in := range s.instances {
		st := in.status()
		s.log.Info("state", "instance", st.Name, "state", st.State.String(), "since", st.Since.Format(time.RFC3339),
			"pid", st.Pid, "restarts", st.Restarts, "reason", st.Reason)
	}
}

// ReopenLogs has every log file opened anew by its path at the next write.
func (s *Supervisor) ReopenLogs() {
	for _, in := range s.instances {
		in.capture.Reopen()
	}
	s.log.Info("log files reopened")
}
