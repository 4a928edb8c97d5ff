// Command subject runs one measure on package loop, or the same with goroutines, and prints a
// figure per operation: nanoseconds of processor time, or bytes for measures named memory. The C
// programs beside it do the same on other loops.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A measure repeats its operation, beside n of its kind, and returns the cost of one.
type measure func(n int) (float64, error)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "subject:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: subject loop|goroutines MEASURE N")
	}
	m, ok := map[string]map[string]measure{"loop": onLoop, "goroutines": onGoroutines}[args[0]][args[1]]
	if !ok {
		return fmt.Errorf("no measure %s of %s", args[1], args[0])
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	figure, err := m(n)
	if err != nil {
		return err
	}
	fmt.Printf("%.2f\n", figure)
	return nil
}

// cpu returns the processor time of all threads, which other processes disturb least.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err) // it can't fail
	}
	return time.Duration(ts.Nano())
}

// each returns the nanoseconds of processor time per operation, for n operations since begin.
func each(begin time.Duration, n int) float64 { return float64(cpu()-begin) / float64(n) }

// memory returns the bytes of heap and stacks for each of n things that f makes. f returns what it
// makes, so that it stays alive.
func memory(n int, f func() (any, error)) (float64, error) {
	before := inUse()
	objects, err := f()
	after := inUse()
	runtime.KeepAlive(objects)
	return float64(after-before) / float64(n), err
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // frees what the first has swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// random is a xorshift, the same in all programs.
var random = uint64(88172645463325252)

func randomBelow(n time.Duration) time.Duration {
	random ^= random << 13
	random ^= random >> 7
	random ^= random << 17
	return time.Duration(random % uint64(n))
}

const (
	far    = 1000 * time.Second // earliest due time of timers that don't fire
	window = time.Hour          // range of their due times
)
