package instance

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/deps"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/paths"
	"superd/procs/probe"
	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// A bench has what an instance needs, on a fake host and a virtual loop. It is the instance's
// Owner, Configuration, Records and FDs.
type bench struct {
	t      *testing.T
	v      *loop.Virtual
	kernel *hosttest.Kernel
	reaper *hosttest.Reaper
	env    *Env
	in     *Instance

	states     []string // the states that it has had, in order
	unkillable []string // what was reported as unkillable
	phase      Phase
	starts     uint64
	records    map[string]any // by key
	events     []eventlog.Event
	stored     map[string]bool
	names      int    // of stored descriptors
	whileDown  func() // called between two superds; may be nil
	stalled    bool   // the journal is not written
}

// testProgram returns the definition of a program that restarts after a failure.
func testProgram() *config.Program {
	return &config.Program{Name: "web", Command: []string{"/bin/web"}, Settings: &config.Settings{
		Replicas: 1, Autostart: true, Restart: config.RestartOnFailure, SuccessExitCodes: []int{0},
		Backoff:      config.Backoff{Initial: time.Second, Max: time.Minute, Factor: 2},
		StartTimeout: 30 * time.Second, StopSignal: syscall.SIGTERM,
		StopTimeout: 10 * time.Second, KillMode: config.KillTree,
	}}
}

// newBench returns a bench with a stopped instance of the program.
func newBench(t *testing.T, mix hosttest.FaultMix, program *config.Program) *bench {
	b := &bench{t: t, v: loop.NewVirtual(1), records: map[string]any{}}
	b.kernel = hosttest.New(b.v, rand.New(rand.NewPCG(1, 1)), t.Errorf)
	b.kernel.Mix, b.kernel.LearnsLate = mix, host.UnwatchedPause
	b.boot()
	b.in = New(b.env, program.Name, program, program, "")
	return b
}

// boot makes an Env, as a new superd does.
func (b *bench) boot() {
	random := rand.NewChaCha8([32]byte{})
	log := slog.New(slog.DiscardHandler)
	b.reaper, b.stored = hosttest.NewReaper(b.kernel), map[string]bool{}
	b.reaper.Release = b.Release
	b.env = &Env{
		Loop: b.v.Loop, Scope: b.v.Root().Child(), Host: b.kernel, Log: log,
		Store: logs.NewStore(b.v.Loop, log), Random: random, RNG: rand.New(random),
		Prober: probe.New(b.v.Loop, 10, 1), Paths: paths.Paths{FIFODir: "fifo", NotifyDir: "notify"},
		Graph: deps.New[*Instance](graphOwner{}),
		Owner: b, Config: b, Records: b, FDs: b, Reaper: b.reaper,
	}
	b.env.Schedules = schedule.NewSet(b.env.Scope, "boot", "machine", nil, nil)
}

// start lets the operator start the instance.
func (b *bench) start() {
	b.in.Apply(b.in.Machine.WantUp(fsm.By(fsm.ActorOperator), true, b.in.Conditions()))
}

// remove lets a rolling restart stop the instance.
func (b *bench) remove() {
	b.in.Apply(b.in.Machine.WantDown(fsm.By(fsm.ActorRoll), b.in.Conditions()))
}

// stop lets the operator stop the instance.
func (b *bench) stop() {
	b.in.Apply(b.in.Machine.WantDown(fsm.By(fsm.ActorOperator), b.in.Conditions()))
}

// main returns the main process.
// redefine gives the instance a definition that needs no restart.
func (b *bench) redefine(change func(*config.Program)) {
	before := b.in.Program
	b.in.Program = before.Clone()
	change(b.in.Program)
	b.in.Redefined(before, false, false)
}

func (b *bench) main() *hosttest.Process { return b.kernel.Main(b.in.run.invocationID) }

// succeed kills superd and lets another one recover the instance.
func (b *bench) succeed() {
	saved := b.records[snapshot.InstanceKey(b.in.Name)].(*snapshot.Instance)
	program, old := b.in.Program, b.in
	b.env.Scope.Close()
	b.kernel.KillSupervisor()
	if b.whileDown != nil {
		b.whileDown()
	}
	b.boot()
	b.states = append(b.states, "killed")
	b.in = New(b.env, old.Name, program, program, saved.Tree)
	b.in.Marks.TreeRecovered = true
	b.in.Restore(saved)
	merged := snapshot.Merged{Instance: saved, Program: program}
	recovered := &host.RecoveredProcess{
		Instance: b.in.Name, Program: program, Tree: b.in.Tree, PidFD: -1, NotifyFD: -1, ReadyFD: -1,
	}
	a := &Recovered{In: b.in, Saved: merged, Recovered: recovered}
	if p := merged.Process(); p != nil {
		recovered.Process = p.Identity()
	}
	a.ClaimNotifyFDs()
	b.kernel.Adopt([]*host.RecoveredProcess{recovered})
	a.RestoreOutput()
	a.Resume()
}

// want checks the states so far and, unless reason is empty, the reason of the last one.
func (b *bench) want(states, reason string) {
	b.t.Helper()
	if got := strings.Join(b.states, " "); got != states {
		b.t.Errorf("states %q, want %q", got, states)
	}
	if got := b.in.Reason(); got != reason && reason != "" {
		b.t.Errorf("reason %q, want %q", got, reason)
	}
}

// close removes the instance, which must be at rest, and checks that nothing is left.
func (b *bench) close() {
	b.t.Helper()
	if b.in.run != nil || !b.in.Machine.State().AtRest() {
		b.t.Fatalf("it is %v and has a run: %v", b.in.Machine.State(), b.in.run != nil)
	}
	b.in.Close()
	b.v.RunFor(time.Minute)
	if main, others := b.kernel.CountLiving("web"); main+others > 0 {
		b.t.Errorf("%d processes are left", main+others)
	}
	if len(b.stored) > 0 {
		b.t.Errorf("descriptors are left in the store: %v", b.stored)
	}
	if n := b.kernel.NotifyFDs(); n > 0 {
		b.t.Errorf("%d notify sockets and readiness pipes are left", n)
	}
	for key := range b.records {
		if key != snapshot.InstanceKey("web") {
			b.t.Errorf("a record is left: %s", key)
		}
	}
}

// Transitioned implements [Owner], as the supervisor does for an instance alone.
func (b *bench) Transitioned(in *Instance, from, to fsm.State) {
	if n := len(b.states); n == 0 || b.states[n-1] != to.Name() {
		b.states = append(b.states, to.Name())
	}
	in.CompleteTransition(from, to)
}

func (b *bench) Counted(*Instance) {}
func (b *bench) Changed()          {}
func (b *bench) UnkillableChanged(in *Instance, unkillable bool) {
	if unkillable {
		b.unkillable = append(b.unkillable, in.unkillable)
	}
}
func (b *bench) OutputChanged(*Instance, []string, bool) {}
func (b *bench) Phase() Phase                            { return b.phase }

func (b *bench) Number() uint64 { return 1 }
func (b *bench) Definition(string, string) (*config.Program, bool) {
	return nil, false
}
func (b *bench) NoneReason(string) string            { return "" }
func (b *bench) Sources(*config.Program) []*Instance { return nil }

func (b *bench) HasEvents() bool            { return true }
func (b *bench) Record(e eventlog.Event)    { b.events = append(b.events, e) }
func (b *bench) RecordLater(eventlog.Event) {}
func (b *bench) NextStart() uint64          { b.starts++; return b.starts }
func (b *bench) Put(key string, value any) error {
	b.records[key] = value
	return nil
}
func (b *bench) Queue(key string, value any) {
	if value == nil {
		delete(b.records, key)
		return
	}
	b.records[key] = value
}
func (b *bench) QueueFirst(key string, value any) { b.Queue(key, value) }
func (b *bench) Ended() bool                      { return false }
func (b *bench) AfterTurn(f func())               { b.env.Scope.Post(f) }
func (b *bench) AfterSaving(f func(error)) {
	if !b.stalled {
		b.env.Scope.Post(func() { f(nil) })
	}
}

func (b *bench) Reserve(bool) string {
	b.names++
	return fmt.Sprint(b.names)
}
func (b *bench) Store(name string, _ int) { b.stored[name] = true }
func (b *bench) StoreFD(fd int, output bool) string {
	name := b.Reserve(output)
	b.Store(name, fd)
	return name
}
func (b *bench) StoreProcess(p host.Process) string { return b.StoreFD(p.FD(), false) }
func (b *bench) Release(name string)                { delete(b.stored, name) }
func (b *bench) ReleaseProcess(name string)         { delete(b.stored, name) }
func (b *bench) Claim(string) int                   { return -1 }
func (b *bench) Has(name string) bool               { return b.stored[name] }

// A graphOwner implements [deps.Owner] for an instance without dependencies.
type graphOwner struct{}

func (graphOwner) Changed(*Instance)        {}
func (graphOwner) DependentsDown(*Instance) {}
