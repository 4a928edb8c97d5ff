package procs

import (
	"fmt"
	"testing"

	"superd/config"
	"superd/procs/fsm"
)

// BenchmarkConflicts starts a superd with programs that name their log files, then replaces all of
// them by as many others. The time per program must not depend on their number.
func BenchmarkConflicts(b *testing.B) {
	programs := func(prefix string, n int) *config.Config {
		c := &config.Config{}
		for i := range n {
			c.Programs = append(c.Programs, programNamed(fmt.Sprintf("%s%05d", prefix, i), func(p *config.Program) { p.Log.File = fmt.Sprintf("%s-%d", prefix, i) }))
		}
		return c
	}
	for _, n := range []int{1000, 4000} {
		before, after := programs("a", n), programs("b", n)
		b.Run(fmt.Sprintf("New/%d", n), func(b *testing.B) {
			for b.Loop() {
				quickSupervisor(before)
			}
		})
		b.Run(fmt.Sprintf("replaced/%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				v, s := quickSupervisor(before)
				s.Start(func() {})
				for inspect(s).inState(fsm.Running) < n && v.Step() {
				}
				b.StartTimer()
				inspect(s).activate(after)
				for (inspect(s).inState(fsm.Running) < n || inspect(s).count() > n) && v.Step() {
				}
				if inspect(s).inState(fsm.Running) != n {
					b.Fatal(s.registry.counts)
				}
			}
		})
	}
}
