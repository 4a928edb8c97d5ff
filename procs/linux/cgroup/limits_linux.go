package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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
	add := func(limit, controller string, isSet bool) {
		if isSet {
			all = append(all, limited{limit, controller})
		}
	}
	add("memory", "memory", l.Memory != nil)
	add("memory_high", "memory", l.MemoryHigh != nil)
	add("swap", "memory", l.Swap != nil)
	add("cpu", "cpu", l.CPU != nil)
	add("cpu_weight", "cpu", l.CPUWeight != nil)
	add("tasks", "pids", l.Tasks != nil)
	add("io", "io", len(l.IO) > 0)
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

// A setting is a file of a cgroup, or a line of it, with the value that a limit gives it.
type setting struct {
	limit, file string
	device      string // "8:0", with which the line begins; "": it is the whole file
	text        string
	unset       string // value that a new cgroup has
}

// name is the key of the setting in the active limits.
func (s *setting) name() string { return strings.TrimSpace(s.file + " " + s.device) }

// settingsOf returns the settings for the limits.
func settingsOf(limits *config.Limits) ([]setting, error) {
	const none = "max"
	number := func(n *int64, unset string) string {
		if n == nil {
			return unset
		}
		return strconv.FormatInt(*n, 10)
	}
	group, cpu := "0", none
	if limits.Memory != nil {
		// The OOM killer must end all processes together: a program that has lost a random process
		// is of no use.
		group = "1"
	}
	if limits.CPU != nil {
		cpu = cpuMax(*limits.CPU)
	}
	const usualWeight = "100"
	all := []setting{
		{"memory", "memory.max", "", number(limits.Memory, none), none},
		{"memory", "memory.oom.group", "", group, "0"},
		{"memory_high", "memory.high", "", number(limits.MemoryHigh, none), none},
		{"swap", "memory.swap.max", "", number(limits.Swap, none), none},
		{"cpu", "cpu.max", "", cpu, none},
		{"cpu_weight", "cpu.weight", "", number(limits.CPUWeight, usualWeight), usualWeight},
		{"tasks", "pids.max", "", number(limits.Tasks, none), none},
	}
	for i := range limits.IO {
		io, err := ioSetting(&limits.IO[i])
		if err != nil {
			return nil, err
		}
		all = append(all, io)
	}
	return all, nil
}

// active holds the values that the settings of a cgroup have, by name.
type active map[string]string

// writeLimits writes to the files of a cgroup what differs from what is there: from written, which
// it returns with what it has written, or, if a predecessor made the cgroup, from the files.
func writeLimits(dir string, limits *config.Limits, written active, found bool) (active, error) {
	all, err := settingsOf(limits)
	if err != nil {
		return written, err
	}
	if found && written == nil {
		written = readActive(dir, all)
	}
	for _, s := range append(all, written.endedIO(all)...) {
		before, ok := written[s.name()]
		if !ok {
			before = s.unset
		}
		if s.text == before {
			continue
		}
		file := filepath.Join(dir, s.file)
		if err := writeFile(file, strings.TrimSpace(s.device+" "+s.text)); err != nil {
			return written, &host.SpawnError{Stage: "limit " + s.limit + ": write", Path: file, Err: explainWrite(&s, cause(err)), Fault: host.FaultOf(err)}
		}
		if written == nil {
			written = active{}
		}
		written[s.name()] = s.text
	}
	return written, nil
}

// readActive reads the values of a cgroup. Files that it lacks have no entry.
func readActive(dir string, all []setting) active {
	a := active{}
	for _, s := range all {
		if text, err := os.ReadFile(filepath.Join(dir, s.file)); err == nil && s.device == "" {
			a[s.name()] = strings.TrimSpace(string(text))
		}
	}
	for device, rates := range readIO(dir) {
		s := setting{file: ioFile, device: device}
		a[s.name()] = rates
	}
	return a
}

// explainWrite adds what the kernel's error number leaves open.
func explainWrite(s *setting, err error) error {
	switch {
	case s.limit == "swap" && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: this kernel does not count swap space (CONFIG_SWAP); remove the key", err)
	case s.device != "" && errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: the kernel limits no device %s; name a whole disk", err, s.device)
	}
	return err
}
