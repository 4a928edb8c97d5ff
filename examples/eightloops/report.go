package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cost is what a way reports about itself.
type cost struct {
	Latencies []time.Duration // from the write of a line until the way has it
	CPU       time.Duration
	WakeUps   int64 // how often a thread went to sleep
}

// report runs w until control is at its end, and writes its cost as JSON. It ends with the process
// that has the other end of control.
func report(w variant, commands [2][]string, control io.Reader, out io.Writer) error {
	s := &stage{out: io.Discard, beat: 10 * time.Second, interrupted: make(chan os.Signal, 1)}
	go func() {
		_, _ = io.Copy(io.Discard, control)
		s.interrupted <- os.Interrupt
	}()
	var c cost
	s.onLine = func(line string) {
		_, stamp, _ := strings.Cut(line, " ")
		if written, err := strconv.ParseInt(stamp, 10, 64); err == nil {
			c.Latencies = append(c.Latencies, monotonic()-time.Duration(written))
		}
	}
	run := w.run
	w.run = func(s *stage) error {
		cpu, wakeUps := usage()
		err := run(s)
		cpuNow, wakeUpsNow := usage()
		c.CPU, c.WakeUps = cpuNow-cpu, wakeUpsNow-wakeUps
		return err
	}
	if err := s.perform(w, commands); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c)
}

// quantile returns the latency that a share q of all does not exceed.
func (c cost) quantile(q float64) time.Duration {
	if len(c.Latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.Latencies))
	return sorted[int(q*float64(len(sorted)-1))]
}

const printNumbersCommand = "speak"

// printNumbers is the child of a comparison: it prints a random number and the time, without end.
// The numbers, and the pauses of 5 to 75 ms, depend on the seed alone.
func printNumbers(seed string, out io.Writer) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	for rng := rand.New(rand.NewPCG(n, 0)); ; {
		time.Sleep(5*time.Millisecond + time.Duration(rng.Int64N(int64(70*time.Millisecond))))
		if _, err := fmt.Fprintf(out, "%d %d\n", rng.IntN(1_000_000), monotonic()); err != nil {
			return err
		}
	}
}
