package procs

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
)

// A quickSystem is a host that starts and ends processes at once, so that a benchmark measures the
// supervisor.
type quickSystem struct {
	host.Host // nil: its other methods are not called
	v         *loop.Virtual
	pids      int
}

type quickProcess struct {
	k     *quickSystem
	pid   int
	fd    int
	ended bool
}

type quickSpawn struct{}

func (quickSpawn) Cancel(func()) bool { return false }
func (quickSpawn) Stage() string      { return "" }
func (quickSpawn) Child() int         { return 0 }
func (quickSpawn) Queued() bool       { return false }

func (k *quickSystem) Spawn(_ *host.SpawnSpec, done func(host.Child, error)) host.PendingSpawn {
	k.v.Post(func() {
		k.pids++
		p := &quickProcess{k: k, pid: k.pids, fd: k.v.NewFD()}
		done(host.Child{Process: p, ID: pidfd.Identity{Pid: p.pid}, NotifyFD: -1, ReadyFD: -1}, nil)
	})
	return quickSpawn{}
}

func (k *quickSystem) MaskSIGCHLD()                           {}
func (k *quickSystem) ReapOrphans(func(int))                  {}
func (k *quickSystem) Unattributed(found func([]host.Member)) { found(nil) }
func (k *quickSystem) Unowned() []host.UnattributedProcess    { return nil }
func (k *quickSystem) ReapUnknown(int) (pidfd.Exit, error) {
	return pidfd.Exit{}, errors.New("no child")
}
func (k *quickSystem) NewTree(string, string) host.Tree { return quickTree{} }
func (k *quickSystem) Adopt([]*host.RecoveredProcess)   {}
func (k *quickSystem) Lives(pidfd.Identity) bool        { return false }
func (k *quickSystem) BoundsMaxRSS(int64) bool          { return false }
func (k *quickSystem) WaitsIn(int) host.WaitState       { return host.WaitState{} }
func (k *quickSystem) Search([]*host.LookupRequest, map[string]bool, func(string) []string) ([]host.Leftover, error) {
	return nil, nil
}
func (k *quickSystem) RemoveNames([]string) {}
func (k *quickSystem) RemoveDirectories([]string, func(error)) func() {
	return func() {}
}
func (k *quickSystem) ReadPIDFile(string, string, func(int, error)) func() { return func() {} }
func (k *quickSystem) RemoveTmp(string)                                    {}
func (k *quickSystem) RemoveOtherNames(dirs, keep []string)                {}
func (p *quickProcess) Pid() int                                           { return p.pid }
func (p *quickProcess) FD() int                                            { return p.fd }
func (p *quickProcess) Signal(sig syscall.Signal) error                    { return p.SignalGroup(sig) }
func (p *quickProcess) Wait() (pidfd.Exit, bool, error)                    { return pidfd.Exit{Known: true}, p.ended, nil }
func (p *quickProcess) Ended() bool                                        { return false }
func (p *quickProcess) ExitInfo() (pidfd.Exit, bool, error)                { return pidfd.Exit{}, false, nil }
func (p *quickProcess) Close() error                                       { p.k.v.CloseFD(p.fd); return nil }

func (p *quickProcess) SignalGroup(sig syscall.Signal) error {
	if sig == syscall.SIGTERM && !p.ended {
		p.ended = true
		p.k.v.SetReady(p.fd, loop.Readable)
	}
	return nil
}

type quickTree struct{}

func (quickTree) Empty() bool                    { return true }
func (quickTree) Look(found func([]host.Member)) { found(nil) }
func (quickTree) Has(int) bool                   { return false }
func (quickTree) Kill() error                    { return nil }
func (quickTree) OOMKills() int                  { return 0 }
func (quickTree) Lack() string                   { return "" }
func (quickTree) Path() string                   { return "" }
func (quickTree) Remove()                        {}

// graphs are the shapes that the benchmarks use, each of n programs.
var graphs = []struct {
	name         string
	requirements func(i, n int) []int
}{
	{"chain", func(i, _ int) []int { return before(i, 1) }},
	{"star", func(i, _ int) []int { return before(min(i, 1), 1) }}, // all require the first
	{"funnel", func(i, n int) []int { // the last requires all
		if i == n-1 {
			return before(i, i)
		}
		return nil
	}},
}

// before returns the k numbers below i, as far as they are not negative.
func before(i, k int) (all []int) {
	for j := max(i-k, 0); j < i; j++ {
		all = append(all, j)
	}
	return all
}

func graphConfig(n int, needs func(i, n int) []int) *config.Config {
	c := &config.Config{}
	name := func(i int) string { return fmt.Sprintf("p%06d", i) }
	for i := range n {
		p := testProgram()
		p.Name = name(i)
		for _, j := range needs(i, n) {
			p.Requires = append(p.Requires, name(j))
		}
		c.Programs = append(c.Programs, p)
	}
	return c
}

func quickSupervisor(c *config.Config) (*loop.Virtual, *Supervisor) {
	v := loop.NewVirtual(1)
	silentLog := slog.New(slog.DiscardHandler)
	s := New(Options{
		Loop: v.Loop, Host: &quickSystem{v: v}, Store: logs.NewStore(v.Loop, silentLog), Log: silentLog, Notify: noopNotifier{}, Config: c,
		Archive: func(*config.Config) []byte { return nil },
	})
	return v, s
}

// BenchmarkOrder starts programs in the order of their graph and shuts them down. The time per
// program must not depend on their number.
func BenchmarkOrder(b *testing.B) {
	for _, graph := range graphs {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", graph.name, n), func(b *testing.B) {
				c := graphConfig(n, graph.requirements)
				for b.Loop() {
					v, s := quickSupervisor(c)
					ended := false
					s.Start(func() { ended = true })
					for inspect(s).inState(fsm.Running) < n && v.Step() {
					}
					if inspect(s).inState(fsm.Running) < n {
						b.Fatalf("%d of %d run", inspect(s).inState(fsm.Running), n)
					}
					s.Shutdown("the benchmark")
					for !ended && v.Step() {
					}
					if !ended {
						b.Fatal("the shutdown has no end")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/program")
			})
		}
	}
}

// BenchmarkRebuildGraph rebuilds the graph of 10,000 programs, as a reload does.
func BenchmarkRebuildGraph(b *testing.B) {
	for _, graph := range graphs {
		b.Run(graph.name, func(b *testing.B) {
			_, s := quickSupervisor(graphConfig(10_000, graph.requirements))
			for b.Loop() {
				s.applier.rebuildGraph()
			}
		})
	}
}
