package linux

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/codec"
	"superd/internal/execshim"
	"superd/internal/privilege"
	"superd/procs/host"
)

// checkAttributes refuses attributes that superd may not give to a program.
func checkAttributes(program *config.Program) error {
	key, err := program.Attributes.Check(privilege.Attributes{})
	if err != nil {
		return &host.SpawnError{Stage: "set " + key, Err: err}
	}
	for _, limit := range program.Limits.Rlimits {
		if err := privilege.SetLimit(limit.Resource, limit.Hard); err != nil {
			stage := execshim.StageLimit + execshim.Stage(limit.Resource)
			return &host.SpawnError{Stage: stage.String(), Err: err}
		}
	}
	return nil
}

// Numbers of the kernel. Source: linux/ioprio.h, linux/sched.h.
var (
	ioClasses = map[codec.IOClass]int{codec.IORealTime: 1, codec.IOBestEffort: 2, codec.IOIdle: 3}
	policies  = map[codec.Policy]int{
		codec.PolicyOther: unix.SCHED_NORMAL, codec.PolicyFIFO: unix.SCHED_FIFO, codec.PolicyRR: unix.SCHED_RR,
		codec.PolicyBatch: unix.SCHED_BATCH, codec.PolicyIdle: unix.SCHED_IDLE,
	}
)

// attributesOf returns the attributes that a program, its hooks and the commands of its checks get.
func (k *Host) attributesOf(program *config.Program) execshim.Attributes {
	from := &program.Attributes
	a := execshim.Attributes{
		OOMScoreAdj: k.oomScoreAdj, Nice: from.Nice, CPUs: from.CPUAffinity,
		Limits: program.Limits.Rlimits,
	}
	if from.OOMScoreAdj != nil {
		a.OOMScoreAdj = from.OOMScoreAdj
	}
	if io := from.IONice; io != nil {
		const classShift = 13
		a.IOPriority = new(ioClasses[io.Class]<<classShift | io.Level)
	}
	if s := from.Scheduling; s != nil {
		a.Scheduling = &execshim.Scheduling{Policy: policies[s.Policy], Priority: s.Priority}
	}
	return a
}

// explainAttribute explains why the kernel has refused an attribute that seemed allowed; it returns
// err if the stage concerns none.
func explainAttribute(program *config.Program, failed *execshim.Error) error {
	if resource, ok := failed.Stage.Limit(); ok {
		limit, _ := program.Limits.Rlimits.Of(resource)
		return fmt.Errorf("to %d: %w; only root outside of a user namespace may raise a hard limit", limit.Hard, failed.Errno)
	}
	if failed.Stage == execshim.StageCPUs {
		return fmt.Errorf("to %s: %w; superd itself may use the CPUs %s: name those of this machine, and of superd's cpuset", codec.ShowCPUs(program.Attributes.CPUAffinity), failed.Errno, ownCPUs())
	}
	if slices.Contains([]execshim.Stage{execshim.StageNice, execshim.StageIO, execshim.StageScheduling, execshim.StageOOM}, failed.Stage) {
		return fmt.Errorf("%w; only root outside of a user namespace, or a container that allows it, may do that", failed.Errno)
	}
	return failed.Errno
}

// ownCPUs returns the CPUs that superd may use, "?" if they are unknown.
func ownCPUs() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "?"
	}
	_, rest, _ := strings.Cut(string(text), "\nCpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}
