package execshim

import (
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/rlimit"
)

// Apply sets the attributes of the calling thread, which the program gets that it executes. The
// limits come last: some restrict this process itself.
//
// Source: proc_pid_oom_score_adj(5), setpriority(2), ioprio_set(2), sched_setaffinity(2),
// sched_setscheduler(2), setrlimit(2).
func (a *Attributes) Apply() *Error {
	if a.OOMScoreAdj != nil {
		if err := setOOMScoreAdj(*a.OOMScoreAdj); err != nil {
			return failed(StageOOM, err)
		}
	}
	if a.Nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, *a.Nice); err != nil {
			return failed(StageNice, err)
		}
	}
	if a.IOPriority != nil {
		const process = 1 // IOPRIO_WHO_PROCESS
		if _, _, err := unix.RawSyscall(unix.SYS_IOPRIO_SET, process, 0, uintptr(*a.IOPriority)); err != 0 {
			return failed(StageIO, err)
		}
	}
	if a.CPUs != nil {
		if err := setAffinity(a.CPUs); err != nil {
			return failed(StageCPUs, err)
		}
	}
	if s := a.Scheduling; s != nil {
		parameter := int32(s.Priority) // struct sched_param
		if _, _, err := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, uintptr(s.Policy), uintptr(unsafe.Pointer(&parameter))); err != 0 {
			return failed(StageScheduling, err)
		}
	}
	return a.setLimits()
}

// limitsMemory reports whether a limit may keep this process from getting memory.
func (a *Attributes) limitsMemory() bool {
	return slices.ContainsFunc(a.Limits, func(l rlimit.Limit) bool {
		return l.Resource == rlimit.AS || l.Resource == rlimit.Data
	})
}

// reserveMemory gets the memory that the exec takes for arguments and environment, and returns it
// to the heap, which does not shrink: a limit below the size of a Go program allows no more.
func (s *Step) reserveMemory() {
	size := 1 << 20
	for _, list := range [][]string{s.Args, s.Env} {
		for _, text := range list {
			size += 2 * (len(text) + 16)
		}
	}
	reserve := make([]byte, size)
	runtime.KeepAlive(reserve)
	runtime.GC()
}

func (a *Attributes) setLimits() *Error {
	for _, l := range a.Limits {
		// Through the package syscall, which then does not restore the inherited limit on files.
		limit := syscall.Rlimit{Cur: l.Soft, Max: l.Hard}
		if err := syscall.Setrlimit(int(l.Resource), &limit); err != nil {
			return failed(StageLimit+Stage(l.Resource), err)
		}
	}
	return nil
}

// maxCPUs is the most that a kernel can be built for.
const maxCPUs = 8192

// setAffinity restricts the thread to CPUs. The kernel leaves out those that it does not have,
// unless these are all, so the result is checked.
func setAffinity(cpus []int) error {
	set := unix.NewCPUSet(maxCPUs)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return err
	}
	set.Zero()
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return err
	}
	if slices.ContainsFunc(cpus, func(cpu int) bool { return !set.IsSet(cpu) }) {
		return unix.EINVAL
	}
	return nil
}

func setOOMScoreAdj(score int) error {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, strconv.AppendInt(nil, int64(score), 10))
	unix.Close(fd)
	return err
}
