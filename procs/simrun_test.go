package procs

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	simHistories = flag.Uint64("sim.n", defaultHistories, "number of simulated histories")
	simFrom      = flag.Uint64("sim.from", 1, "seed of the first of them")
	simLogFiles  = flag.Bool("sim.logfiles", false, "reloads move log files, too")
	simSeed      = flag.Uint64("sim.seed", 0, "replay and show only the history of this seed")
)

// TestSimulation draws programs, faults, and an operator's commands with their times from each
// seed. While faults happen, the invariants must hold at each step. After the last fault, all
// instances must reach their desired state.
func TestSimulation(t *testing.T) {
	if *simSeed == 0 {
		runHistories(t, *simFrom, *simHistories)
		return
	}
	h := newHistory(*simSeed, defect{}, true)
	err := h.run()
	t.Logf("seed %d:\n%s", *simSeed, strings.Join(h.lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
}

// TestSimulationFresh runs histories that no earlier commit has run.
func TestSimulationFresh(t *testing.T) {
	if *simSeed != 0 {
		t.Skip("one history is replayed")
	}
	from, of := freshSeed()
	t.Logf("fresh seeds are drawn from %s", of)
	runHistories(t, from, freshHistories)
}

// TestSimulationLogFiles runs fresh histories in which reloads move log files from one program to
// another.
func TestSimulationLogFiles(t *testing.T) {
	from, _ := freshSeed()
	found := simulate(from, freshHistories/2, defect{logFiles: true}, false)
	if found.count > 0 {
		t.Errorf("%d of %d histories violate the rules:\n%s\nreplay with -sim.logfiles -sim.seed %d",
			found.count, freshHistories/2, found, found.seed)
	}
}

// freshSeed returns a seed drawn from the current commit or, without git, from the day, and the
// name of that source.
func freshSeed() (seed uint64, of string) {
	of = time.Now().UTC().Format("the day 2006-01-02")
	if commit, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
		of = "the commit " + strings.TrimSpace(string(commit))
	}
	sum := sha256.Sum256([]byte(of))
	return binary.BigEndian.Uint64(sum[:]) >> 8, of
}

// runHistories simulates n histories and reports the violations by kind.
func runHistories(t *testing.T, from, n uint64) {
	began := time.Now()
	found := simulate(from, n, defect{}, false)
	t.Logf("%d histories from seed %d on, %.0f hours simulated, %.0f histories a second",
		n, from, found.simulated.Hours(), float64(n)/time.Since(began).Seconds())
	if found.count == 0 {
		return
	}
	t.Errorf("%d of %d histories violate the rules:\n%s", found.count, n, found)
	replay := newHistory(found.seed, defect{}, true)
	replay.run()
	t.Errorf("seed %d: %v\n%s\nreplay with -sim.seed %d",
		found.seed, found.err, strings.Join(replay.lines[max(0, len(replay.lines)-80):], "\n"), found.seed)
}

// findings are the violations that a simulation has found.
type findings struct {
	simulated time.Duration
	count     int
	seed      uint64 // lowest seed with a violation
	err       error  // violation of that seed; nil: none
	kinds     map[string]*simKind
}

// A simKind groups violations that differ only in names and numbers.
type simKind struct {
	count int
	seeds []uint64 // first seeds found
}

// examples is the number of seeds shown of a kind.
const examples = 10

var differences = regexp.MustCompile(`p\d+(@\d+)?|\d[\d.]*(ns|µs|ms|[hms])?(\d[\d.]*[ms])*`)

// kindOf returns the kind of a violation: its first line without names and numbers.
func kindOf(err error) string {
	const shown = 110
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = differences.ReplaceAllString(text, "#")
	if all := []rune(text); len(all) > shown {
		text = string(all[:shown]) + "…"
	}
	return text
}

// add records the violation of a seed.
func (f *findings) add(seed uint64, err error) {
	f.count++
	if f.err == nil || seed < f.seed {
		f.seed, f.err = seed, err
	}
	kind := f.kinds[kindOf(err)]
	if kind == nil {
		kind = &simKind{}
		f.kinds[kindOf(err)] = kind
	}
	kind.count++
	if len(kind.seeds) < examples {
		kind.seeds = append(kind.seeds, seed)
	}
}

// String lists the kinds, the most frequent first, each with its count and some seeds.
func (f *findings) String() string {
	var text strings.Builder
	names := sortedKeys(f.kinds)
	slices.SortStableFunc(names, func(a, b string) int { return f.kinds[b].count - f.kinds[a].count })
	for _, name := range names {
		kind := f.kinds[name]
		slices.Sort(kind.seeds)
		fmt.Fprintf(&text, "%6d  %s\n        seeds %s\n", kind.count, name, strings.Trim(fmt.Sprint(kind.seeds), "[]"))
	}
	return text.String()
}

// simulate runs n histories, of the seeds from first on, on all processors. With firstOnly it
// returns after the lowest seed that violates an invariant.
func simulate(first, n uint64, d defect, firstOnly bool) *findings {
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // histories are short and need little memory
	found := &findings{kinds: map[string]*simKind{}}
	var next atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := first + next.Add(1) - 1
				mu.Lock()
				enough := seed-first >= n || firstOnly && found.err != nil && seed > found.seed
				mu.Unlock()
				if enough {
					return
				}
				h := newHistory(seed, d, false)
				err := h.run()
				mu.Lock()
				found.simulated += h.v.Now() - h.began
				if err != nil {
					found.add(seed, err)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return found
}
