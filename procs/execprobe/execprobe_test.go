package execprobe

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/probe"
)

// A bench runs checks of one instance on a fake host.
type bench struct {
	*Runner
	t          *testing.T
	v          *loop.Virtual
	kernel     *hosttest.Kernel
	unrecorded func(error) // waits until the journal is written; nil: nothing does
	unkillable []string    // what was reported, in order
}

func newBench(t *testing.T, mix hosttest.FaultMix, treePath string) *bench {
	b := &bench{t: t, v: loop.NewVirtual(1)}
	b.kernel = hosttest.New(b.v, rand.New(rand.NewPCG(1, 1)), t.Errorf)
	b.kernel.Mix = mix
	b.Runner = New(Options{
		Instance: "web", TreePath: treePath, Scope: b.v.Root().Child(),
		Host: b.kernel, Reaper: hosttest.NewReaper(b.kernel),
		Log:         slog.New(slog.DiscardHandler),
		AfterSaving: func(f func(error)) { b.unrecorded = f },
		OnUnkillable: func(_, now string) {
			b.unkillable = append(b.unkillable, now)
		},
	})
	return b
}

// spec returns what a check starts.
func (b *bench) spec() *host.SpawnSpec {
	return &host.SpawnSpec{Name: "web", Program: &config.Program{
		Name: "web", Command: []string{hosttest.ProbeCommand}, Settings: &config.Settings{},
	}}
}

// check starts a check and returns where its results appear.
func (b *bench) check() (results *[]error, stop func() bool) {
	results = new([]error)
	stop = b.Check(b.spec, func(err error) { *results = append(*results, err) })
	if len(*results) > 0 {
		b.t.Error("the result came before Check returned")
	}
	return results, stop
}

// want checks that there is one result, whose text contains the given one, and that no process is
// left.
func (b *bench) want(results *[]error, text string) {
	b.t.Helper()
	if len(*results) != 1 || fmt.Sprint((*results)[0]) != text {
		b.t.Errorf("results %q, want %q once", *results, text)
	}
	if _, others := b.kernel.CountLiving("web:probe"); others > 0 {
		b.t.Errorf("%d processes of the check are left", others)
	}
}

// TestCheck: a check ends once, with its result, when no process of it is left.
func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		mix  hosttest.FaultMix
		stop time.Duration // when the check is stopped; 0: never
		want string
	}{
		{"the command fails", hosttest.FaultMix{}, 0, "exit status 1"},
		{"the command leaves a child", hosttest.FaultMix{Forks: 1}, 0, "exit status 1"},
		{"the command can't be executed", hosttest.FaultMix{SpawnFails: 1}, 0,
			"open executable: no such file or directory"},
		{"the machine lacks a resource", hosttest.FaultMix{SpawnFails: 1, Shortage: 1}, 0,
			"execute: resource temporarily unavailable"},
		{"its process can't be watched", hosttest.FaultMix{WatchFails: 1}, 0, "exit status 1"},
		{"a check that hangs is stopped", hosttest.FaultMix{CheckHangs: 1}, time.Second,
			"killed by SIGKILL"},
		{"it is stopped before its exec", hosttest.FaultMix{ExecHangs: 1}, time.Second,
			"execute: connection timed out"},
		{"it is stopped with a worker that hangs", hosttest.FaultMix{SpawnHangs: 1}, time.Second,
			"stopped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.mix, "old")
			results, stop := b.check()
			if tt.stop > 0 {
				b.v.RunFor(tt.stop)
				stop()
			}
			b.v.RunFor(2 * time.Hour)
			b.want(results, tt.want)
			if b.Busy() {
				t.Error("the runner is busy after the end of the check")
			}
			var uncounted probe.Uncounted
			if errors.As((*results)[0], &uncounted) != (tt.mix.Shortage > 0) {
				t.Errorf("%v counts wrongly as a failure", (*results)[0])
			}
		})
	}
}

// TestFirstCheckWaitsForJournal: the first check does not start before the journal has the path of
// the tree.
func TestFirstCheckWaitsForJournal(t *testing.T) {
	b := newBench(t, hosttest.FaultMix{}, "")
	results, stop := b.check()
	b.v.RunFor(time.Minute)
	if pending, process, running := b.Current(); pending != nil || process || !running {
		t.Fatal("a check is started that the journal does not know")
	}
	if stop() {
		t.Error("a check that waits for the journal counts as begun")
	}
	b.v.RunFor(time.Minute)
	b.want(results, "stopped")

	results, _ = b.check()
	b.unrecorded(nil)
	b.v.RunFor(time.Minute)
	b.want(results, "exit status 1")
}

// TestNextCheckWaits: a check begins when the earlier one has ended with all its processes.
func TestNextCheckWaits(t *testing.T) {
	b := newBench(t, hosttest.FaultMix{CheckHangs: 1}, "old")
	first, stop := b.check()
	second, _ := b.check()
	b.v.RunFor(time.Minute)
	if n := b.kernel.Started(); n != 1 {
		t.Errorf("%d checks run at once", n)
	}
	b.kernel.Mix.CheckHangs = 0
	stop()
	b.v.RunFor(time.Minute)
	b.want(first, "killed by SIGKILL")
	b.want(second, "exit status 1")
}

// TestHungWorkerDelaysChecks: a check after one whose worker hangs fails at once, until the worker
// has returned.
func TestHungWorkerDelaysChecks(t *testing.T) {
	b := newBench(t, hosttest.FaultMix{SpawnHangs: 1}, "old")
	_, stop := b.check()
	b.v.RunFor(time.Second)
	stop()
	b.kernel.Mix.SpawnHangs = 0
	results, _ := b.check()
	b.v.RunFor(time.Millisecond)
	b.want(results, "the previous check still hangs in open executable /sim; "+host.HangHint)
	b.v.RunFor(2 * time.Hour)
	results, _ = b.check()
	b.v.RunFor(time.Minute)
	b.want(results, "exit status 1")
}

// TestUnkillableCheck: a process that survives SIGKILL is reported until it has ended.
func TestUnkillableCheck(t *testing.T) {
	b := newBench(t, hosttest.FaultMix{CheckHangs: 1, Unkillable: 1}, "old")
	results, stop := b.check()
	b.v.RunFor(time.Second)
	stop()
	b.v.RunFor(host.KillPause + time.Second)
	if b.Unkillable() == "" || !b.Busy() {
		t.Errorf("a check survives SIGKILL: reported %q, busy %v", b.Unkillable(), b.Busy())
	}
	b.v.RunFor(time.Hour)
	b.want(results, "killed by SIGKILL")
	want := []string{"process 2 of a check survives SIGKILL: state D (disk sleep)", ""}
	if !slices.Equal(b.unkillable, want) {
		t.Errorf("reported %q, want %q", b.unkillable, want)
	}
}

// TestCleanUp: the processes that a predecessor's check has left are ended.
func TestCleanUp(t *testing.T) {
	for _, scan := range []float64{0, 1} {
		b := newBench(t, hosttest.FaultMix{ProcessScan: scan}, "old")
		b.kernel.NewProcess("web:probe", "a", hosttest.RoleEscaped)
		ended := false
		b.CleanUp(func() { ended = true })
		results, _ := b.check()
		b.v.RunFor(time.Minute)
		if !ended {
			t.Errorf("scan %v: the clean-up does not end", scan)
		}
		b.want(results, "exit status 1")
	}
}
