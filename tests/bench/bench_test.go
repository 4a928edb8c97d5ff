// Package bench measures superd beside other supervisors and beside the least that could do the same: make bench.
//
// Each contestant runs in a PID namespace of its own ([arena]) and supervises the same small C program. They take turns, several rounds of them,
// and are compared within a round. What each is and how it is set up stands in contestants_linux_test.go, what is measured in scale_test.go,
// idle_test.go, output_test.go and recovery_test.go.
package bench

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"superd/tests/harness"
	"superd/tests/table"
)

var (
	update = flag.Bool("update", false, "write the tables into docs/benchmarks.md, between their markers")
	quick  = flag.Bool("quick", false, "measure everything in small, to see that it works; the figures mean nothing")
	rounds = flag.Int("rounds", 3, "how often superd and the yardstick are measured, in turn")
	others = flag.Int("rounds.peers", 1, "in how many of the rounds the peers take part: they take long")
)

func TestMain(m *testing.M) { harness.Main(m) }

const yardstickName = "yardstick"

// A bench is one run of all measurements.
type bench struct {
	*results
	tools       *tools
	contestants []*contestant
}

// size returns how many programs are taken for n.
func (b *bench) size(n int) int {
	if *quick {
		return map[int]int{10: 3, 100: 5, 200: 10, 500: 10, 1000: 20, 5000: 30}[n]
	}
	return n
}

// repeats returns how often something is done for n times.
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

// BenchmarkSupervisors measures all and prints the tables. Run it with -benchtime 1x.
func BenchmarkSupervisors(t *testing.B) {
	if *quick {
		*rounds = 1
	}
	b := &bench{results: newResults(), tools: newTools(t)}
	b.contestants = contestants(b.tools)
	begin := time.Now()
	for b.round = range *rounds {
		for _, count := range []int{10, 100, 1000, 5000} {
			b.each(t, fmt.Sprintf("programs=%d", count), func(t *testing.B, c *contestant) { b.scale(t, c, b.size(count)) })
		}
		b.each(t, "restart", b.restart)
		b.each(t, "output=1", func(t *testing.B, c *contestant) { b.raw(t, c, "one program", 1, 1<<30) })
		b.each(t, "output=50", func(t *testing.B, c *contestant) { b.raw(t, c, "50 programs", 50, 500<<20) })
		b.each(t, "latency", b.latency)
		b.times(t)
		b.each(t, "recovery=1000", func(t *testing.B, c *contestant) { b.recovery(t, c, "recovery", b.size(1000)) })
	}
	b.round = 0
	t.Run("recovery=many", func(t *testing.B) { b.recovery(t, b.contestants[1], "recovery of many", b.size5000(many())) })
	t.Run("idle=200", func(t *testing.B) { b.idle(t, b.size(200), b.time(20*time.Second)) })
	t.Run("idle=1000", func(t *testing.B) { b.idle(t, b.size(1000), b.time(20*time.Second), b.time(time.Minute)) })
	text := b.report(time.Since(begin))
	fmt.Print("\n", text)
	if *update && !t.Failed() {
		if err := table.Replace(filepath.Join("..", "..", "docs", "benchmarks.md"), "bench", text); err != nil {
			t.Fatal(err)
		}
	}
}

// size5000 is n, in small the size for 5,000.
func (b *bench) size5000(n int) int {
	if *quick {
		return b.size(5000)
	}
	return n
}

// each measures all contestants, one after the other.
func (b *bench) each(t *testing.B, name string, measure func(t *testing.B, c *contestant)) {
	for _, c := range b.contestants {
		if c.only != nil && !slices.Contains(c.only, name) || c.peer && b.round >= *others {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/round=%d", name, c.name, b.round+1), func(t *testing.B) { measure(t, c) })
	}
}

// raw measures output as it comes.
func (b *bench) raw(t *testing.B, c *contestant, measure string, programs int, bytes int64) {
	if c.name == yardstickName {
		b.bare(t, c.name, measure, programs, b.bytes(bytes))
		if programs == 1 {
			b.bare(t, "cat", measure, programs, b.bytes(bytes))
		}
		return
	}
	b.output(t, c, measure, programs, b.bytes(bytes))
}

// times measures output of which each line gets its time.
func (b *bench) times(t *testing.B) {
	size := b.bytes(256 << 20)
	for _, format := range []string{"text", "json"} {
		t.Run(fmt.Sprintf("times=%s/superd/round=%d", format, b.round+1), func(t *testing.B) {
			c := superdContestant("superd "+format, "")
			c.prepare = prepareSuperd(bigFiles + ", format = '" + format + "'")
			b.output(t, c, "times", 1, size)
		})
	}
	if b.tools.peers == "" || b.round >= *others {
		return
	}
	for _, name := range []string{"s6-log", "svlogd", "multilog"} {
		t.Run(fmt.Sprintf("times/%s/round=%d", name, b.round+1), func(t *testing.B) { b.logger(t, name, size/4) })
	}
}
