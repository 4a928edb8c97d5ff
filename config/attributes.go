package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"superd/config/codec"
	"superd/config/document"
)

// Attributes are what the kernel keeps for each process of a program. nil: those of superd.
type Attributes struct {
	Nice        *int        // -20 to 19
	IONice      *IONice     `json:",omitempty"`
	CPUAffinity []int       `json:",omitempty"` // CPUs that it may use, ascending
	Scheduling  *Scheduling `json:",omitempty"`
	OOMScoreAdj *int        // -1000 to 1000
}

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

var ioNice = codec.Text(`"idle", "best-effort:LEVEL" or "realtime:LEVEL"`, "a string",
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
	})

var scheduling = codec.Text(`"other", "batch", "idle", "fifo:PRIORITY" or "rr:PRIORITY"`, "a string",
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
	})

// between reads an integer from least to most.
func between(s string, least, most int) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && least <= n && n <= most
}

var cpuList = codec.Text(`list such as "0-3,8"`, `a list of CPUs such as "0-3,8"`, parseCPUs,
	func(cpus []int) string {
		if len(cpus) == 0 {
			return ""
		}
		return strconv.Quote(ShowCPUs(cpus))
	})

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

// Rights says whether a process may give attributes to a program. Each error says what is missing
// and what to do, and begins with the value refused.
type Rights interface {
	Nice(n int) error
	RealTime(priority int) error // of the CPU
	IORealTime() error
	OOMScoreAdj(n int) error
}

// Check returns the key of the first attribute that rights do not allow, and why; "" if there is
// none.
func (a *Attributes) Check(rights Rights) (key string, err error) {
	if a.Nice != nil {
		if err := rights.Nice(*a.Nice); err != nil {
			return "nice", err
		}
	}
	if a.IONice != nil && a.IONice.Class == IORealTime {
		if err := rights.IORealTime(); err != nil {
			return "ionice", err
		}
	}
	if a.Scheduling != nil && a.Scheduling.Policy.RealTime() {
		if err := rights.RealTime(a.Scheduling.Priority); err != nil {
			return "scheduling", err
		}
	}
	if a.OOMScoreAdj != nil {
		if err := rights.OOMScoreAdj(*a.OOMScoreAdj); err != nil {
			return "oom_score_adj", err
		}
	}
	return "", nil
}
