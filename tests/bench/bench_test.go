// Package bench measures superd beside other supervisors and beside the least that could do the
// same: make bench.
//
// Each contestant runs in a PID namespace of its own ([arena]) and supervises the same small C
// program. They take turns, several rounds of them, and are compared within a round.
// contestants_linux_test.go describes each contestant and its configuration; scale_test.go,
// idle_test.go, output_test.go and recovery_test.go have the measurements.
package bench

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
	"superd/tests/table"
)

var (
	update = flag.Bool("update", false, "write the tables into docs/benchmarks.md, between their markers")
	quick  = flag.Bool("quick", false, "measure everything in small, to see that it works; the figures mean nothing")
	rounds = flag.Int("rounds", 3, "how often superd and the yardstick are measured, in turn")
	others = flag.Int("rounds.peers", 1, "in how many of the rounds the peers take part: they take long; 0: they are not fetched")
)

func TestMain(m *testing.M) { harness.Main(m) }

const yardstickName = "yardstick"

// A bench is one run of all measurements.
type bench struct {
	*results
	tools       *tools
	contestants []*contestant
}

// size returns the number of programs that stands for n.
func (b *bench) size(n int) int {
	if *quick {
		return map[int]int{10: 3, 100: 5, 200: 10, 500: 10, 1000: 20, 5000: 30}[n]
	}
	return n
}

// repeats returns the number of repetitions that stands for n.
func (b *bench) repeats(n int) int {
	if *quick {
		return max(n/10, 3)
	}
	return n
}

func (b *bench) bytes(n int64) int64 {
	if *quick {
		return n / 16
	}
	return n
}

func (b *bench) time(d time.Duration) time.Duration {
	if *quick {
		return d / 10
	}
	return d
}

// BenchmarkSupervisors makes all measurements, one after the other, and prints the tables. Run it
// with -benchtime 1x.
func BenchmarkSupervisors(t *testing.B) {
	if *quick {
		t.Skip("in small all is measured at once, by TestSupervisors")
	}
	b := newBench(t)
	begin := time.Now()
	for b.round = range *rounds {
		for _, m := range b.contests() {
			t.Run(fmt.Sprintf("%s/round=%d", m.name, b.round+1), func(t *testing.B) { m.take(t) })
		}
	}
	b.round = 0
	for _, m := range b.alone() {
		t.Run(m.name, func(t *testing.B) { m.take(t) })
	}
	text := b.report(time.Since(begin))
	fmt.Print("\n", text)
	if *update && !t.Failed() {
		if err := table.Replace(filepath.Join("..", "..", "docs", "benchmarks.md"), "bench", text); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSupervisors does all that BenchmarkSupervisors does, with small numbers and several at once.
func TestSupervisors(t *testing.T) {
	if !*quick {
		t.Skip("make bench-quick")
	}
	*rounds = 1
	b := newBench(t)
	begin := time.Now()
	t.Run("all", func(t *testing.T) {
		for _, m := range append(b.contests(), b.alone()...) {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.take(t)
			})
		}
	})
	fmt.Print("\n", b.report(time.Since(begin)))
	for what, why := range b.why {
		// Those need strace
		if name, measure, _ := strings.Cut(what, "\x00"); strings.HasPrefix(name, "superd") && measure != "epoll returns" {
			t.Errorf("%s: %s: %s", name, measure, why)
		}
	}
}

func newBench(t testing.TB) *bench {
	b := &bench{results: newResults(), tools: newTools(t)}
	b.contestants = contestants(b.tools)
	return b
}

// A measurement is a part of the benchmark; make bench ONLY=… has its name up to the first slash.
type measurement struct {
	name string
	take func(t testing.TB)
}

// contests returns the measurements of each round, for all contestants in turn.
func (b *bench) contests() (all []measurement) {
	each := func(name string, measure func(t testing.TB, c *contestant)) {
		for _, c := range b.contestants {
			if c.only != nil && !slices.Contains(c.only, name) || c.peer && b.round >= *others {
				continue
			}
			all = append(all, measurement{name + "/" + c.name, func(t testing.TB) { measure(t, c) }})
		}
	}
	for _, count := range []int{10, 100, 1000, 5000} {
		each(fmt.Sprintf("programs=%d", count), func(t testing.TB, c *contestant) { b.scale(t, c, b.size(count)) })
	}
	shown := measurement{"shown=1000", func(t testing.TB) { b.shown(t, b.size(1000)) }}
	all = append(all, shown)
	each("restart", b.restart)
	each("latency", b.latency)
	each("recovery=1000", func(t testing.TB, c *contestant) { b.recovery(t, c, "recovery", b.size(1000)) })
	return all
}

// alone returns the measurements that have rounds of their own, are made of all contestants at the
// same time, or of superd only.
func (b *bench) alone() []measurement {
	return slices.Concat(b.outputs(), b.delays(), []measurement{
		{"recovery=many", func(t testing.TB) { b.recovery(t, b.contestants[1], "recovery of many", b.size5000(many())) }},
		{"idle=200", func(t testing.TB) { b.idle(t, b.size(200), b.time(20*time.Second)) }},
		{"idle=1000", func(t testing.TB) { b.idle(t, b.size(1000), b.time(20*time.Second), b.time(time.Minute)) }},
	})
}

// size5000 returns n, or in a quick run the size that stands for 5,000.
func (b *bench) size5000(n int) int {
	if *quick {
		return b.size(5000)
	}
	return n
}
