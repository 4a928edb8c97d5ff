package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"superd/config"
	"superd/procs/host"
)

// limitsError returns the error of a start whose limit superd can't enforce.
func limitsError(limit string, controller string, err error) error {
	fault := host.FaultFinal
	if host.FaultOf(err) == host.FaultResource {
		fault = host.FaultResource // temporary
	}
	return &host.SpawnError{Stage: "limit " + limit, Err: fmt.Errorf("no cgroup v2 controller %s here: %w", controller, err), Fault: fault}
}

// Refuse returns the error of a start with limits where superd has no cgroups, for the reason
// why; nil if there are no limits.
func Refuse(limits *config.Limits, why error) error {
	if all := limitsIn(limits); len(all) > 0 {
		return limitsError(all[0].limit, all[0].controller, why)
	}
	return nil
}

// A limited is a limit that a cgroup enforces.
type limited struct{ limit, controller string }

// limitsIn returns the controllers that the limits need.
func limitsIn(l *config.Limits) []limited {
	var all []limited
	if l.Memory != nil {
		all = append(all, limited{"memory", "memory"})
	}
	if l.CPU != nil {
		all = append(all, limited{"cpu", "cpu"})
	}
	if l.Tasks != nil {
		all = append(all, limited{"tasks", "pids"})
	}
	return all
}

// cpuMax returns a number of CPUs in the form of cpu.max: microseconds per period. The kernel
// accepts quotas from 1 ms and periods up to 1 s.
func cpuMax(share float64) string {
	const least, usual, longest = 1_000, 100_000, 1_000_000
	period := usual
	if share*usual < least {
		period = longest
	}
	quota := max(int64(share*float64(period)+0.5), least)
	return strconv.FormatInt(quota, 10) + " " + strconv.Itoa(period)
}

// writeLimits writes to the files of a cgroup what differs from what is there: from written, which
// it returns with what it has written, or, if a predecessor made the cgroup, from the files.
func writeLimits(dir string, limits *config.Limits, written map[string]string, found bool) (map[string]string, error) {
	const none = "max"
	memory, group, cpu, tasks := none, "0", none, none
	if limits.Memory != nil {
		// The OOM killer must end all processes together: a program that has lost a random process
		// is of no use.
		memory, group = strconv.FormatInt(*limits.Memory, 10), "1"
	}
	if limits.CPU != nil {
		cpu = cpuMax(*limits.CPU)
	}
	if limits.Tasks != nil {
		tasks = strconv.FormatInt(*limits.Tasks, 10)
	}
	for _, f := range []struct{ limit, file, text, unset string }{
		{"memory", "memory.max", memory, none},
		{"memory", "memory.oom.group", group, "0"},
		{"cpu", "cpu.max", cpu, none},
		{"tasks", "pids.max", tasks, none},
	} {
		file := filepath.Join(dir, f.file)
		before, ok := written[f.file]
		if !ok {
			before = f.unset
		}
		if !ok && found {
			if text, err := os.ReadFile(file); err == nil {
				before = strings.TrimSpace(string(text))
			}
		}
		if f.text == before {
			continue
		}
		if err := writeFile(file, f.text); err != nil {
			return written, &host.SpawnError{Stage: "limit " + f.limit + ": write", Path: file, Err: cause(err), Fault: host.FaultOf(err)}
		}
		if written == nil {
			written = map[string]string{}
		}
		written[f.file] = f.text
	}
	return written, nil
}
