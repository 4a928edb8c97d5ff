package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"superd/config/document"
)

// IONice is a class of I/O scheduling with a level in it.
type IONice struct {
	Class IOClass
	Level int // 0, the first to be served, to 7; 0 with IOIdle
}

// IOClass is a class of I/O scheduling.
type IOClass string

// The classes of ionice.
const (
	IORealTime   IOClass = "realtime"
	IOBestEffort IOClass = "best-effort"
	IOIdle       IOClass = "idle"
)

// Scheduling is a policy of CPU scheduling with its priority.
type Scheduling struct {
	Policy   Policy
	Priority int // 1 to 99 with PolicyFIFO and PolicyRR, else 0
}

// Policy is a policy of CPU scheduling.
type Policy string

// The policies of scheduling.
const (
	PolicyOther Policy = "other"
	PolicyBatch Policy = "batch"
	PolicyIdle  Policy = "idle"
	PolicyFIFO  Policy = "fifo"
	PolicyRR    Policy = "rr"
)

// RealTime reports whether the policy has priorities above those of all other processes.
func (p Policy) RealTime() bool { return p == PolicyFIFO || p == PolicyRR }

// IONiceValue reads a class of I/O scheduling, as "best-effort:7".
var IONiceValue = Text(`"idle", "best-effort:LEVEL" or "realtime:LEVEL"`, "a string",
	func(s string) (IONice, error) {
		const usual, lowest = 4, 7
		class, text, hasLevel := strings.Cut(s, ":")
		io := IONice{Class: IOClass(class)}
		switch io.Class {
		case IORealTime, IOBestEffort:
			if io.Level = usual; !hasLevel {
				return io, nil
			}
			var ok bool
			if io.Level, ok = between(text, 0, lowest); ok {
				return io, nil
			}
		case IOIdle:
			if !hasLevel {
				return io, nil
			}
		}
		return IONice{}, fmt.Errorf(`must be "idle", "best-effort:LEVEL" or "realtime:LEVEL" with a level from 0 to %d, got %s`, lowest, document.Quote(s))
	},
	func(io IONice) string {
		if io.Class == IOIdle {
			return strconv.Quote(string(io.Class))
		}
		return fmt.Sprintf(`"%s:%d"`, io.Class, io.Level)
	}).Matching(`^(idle|(best-effort|realtime)(:\+?0*[0-7])?)$`)

// SchedulingValue reads a policy of CPU scheduling, as "fifo:1".
var SchedulingValue = Text(`"other", "batch", "idle", "fifo:PRIORITY" or "rr:PRIORITY"`, "a string",
	func(s string) (Scheduling, error) {
		const highest = 99
		policy, text, hasPriority := strings.Cut(s, ":")
		c := Scheduling{Policy: Policy(policy)}
		switch c.Policy {
		case PolicyOther, PolicyBatch, PolicyIdle:
			if !hasPriority {
				return c, nil
			}
		case PolicyFIFO, PolicyRR:
			var ok bool
			if c.Priority, ok = between(text, 1, highest); ok {
				return c, nil
			}
		}
		return Scheduling{}, fmt.Errorf(`must be "other", "batch", "idle", "fifo:PRIORITY" or "rr:PRIORITY" with a priority from 1 to %d, got %s`, highest, document.Quote(s))
	},
	func(c Scheduling) string {
		if c.Priority == 0 {
			return strconv.Quote(string(c.Policy))
		}
		return fmt.Sprintf(`"%s:%d"`, c.Policy, c.Priority)
	}).Matching(`^(other|batch|idle|(fifo|rr):\+?0*[1-9][0-9]?)$`)

// between reads an integer from least to most.
func between(s string, least, most int) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && least <= n && n <= most
}

// CPUList reads numbers of CPUs, ascending, each once.
var CPUList = Text(`list such as "0-3,8"`, `a list of CPUs such as "0-3,8"`, parseCPUs,
	func(cpus []int) string {
		if len(cpus) == 0 {
			return ""
		}
		return strconv.Quote(ShowCPUs(cpus))
	}).Matching(`^\s*\+?[0-9]+(-\+?[0-9]+)?\s*(,\s*\+?[0-9]+(-\+?[0-9]+)?\s*)*$`)

// parseCPUs reads a list of CPUs and ranges, as in the files of the kernel.
func parseCPUs(s string) ([]int, error) {
	const largest = 8191 // the most that a kernel can be built for, less one
	var cpus []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, ok := between(from, 0, largest)
		last := first
		if ok && isRange {
			last, ok = between(to, first, largest)
		}
		if !ok {
			return nil, fmt.Errorf(`%s is not a list of CPUs from 0 to %d: write it as "0-3,8"`, document.Quote(s), largest)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// ShowCPUs returns an ascending list of CPUs in the form "0-3,8".
func ShowCPUs(cpus []int) string {
	var parts []string
	for len(cpus) > 0 {
		n := 1
		for n < len(cpus) && cpus[n] == cpus[0]+n {
			n++
		}
		part := strconv.Itoa(cpus[0])
		if n > 1 {
			part += "-" + strconv.Itoa(cpus[n-1])
		}
		parts, cpus = append(parts, part), cpus[n:]
	}
	return strings.Join(parts, ",")
}
