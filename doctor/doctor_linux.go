package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/internal/privilege"
	"superd/internal/rlimit"
	"superd/pidfd"
	"superd/procs/linux/cgroup"
)

const (
	allow     = "allow it in the system call filter (seccomp) of the container or service"
	allowNew  = allow + ", or use a newer kernel"
	needLinux = "superd needs Linux 5.4 or newer; " + allow
)

// Require returns why superd can't run here, as a [MissingError], or nil. It reports missing or
// refused system calls only; temporary shortages, such as of descriptors, are handled elsewhere. It
// must run before Go's runtime waits for descriptors, which ends the process if it can't.
func Require() error {
	for _, f := range needed() {
		if !f.Works {
			return &MissingError{f}
		}
	}
	return nil
}

// Examine makes all trials. It forks, and creates a cgroup temporarily.
func Examine() Report {
	all := needed()
	if !all[0].Works || !all[1].Works { // Go's runtime would end the process when a file is opened
		return reportOf(all)
	}
	features := pidfd.Probe()
	for _, f := range features.List()[1:] { // the first is in needed
		finding := Finding{Name: f.Name, Works: f.Has, For: f.For}
		if !f.Has {
			finding.Instead, finding.Remedy = f.Instead, allowNew
		}
		all = append(all, finding)
	}
	return reportOf(slices.Concat(all, calls(), rights(), sandboxes()))
}

// needed returns the findings that superd can't run without.
func needed() []Finding {
	all := []Finding{
		// The first two, as [Examine] expects.
		try("eventfd2", "wake event loops", func() error {
			return closed(unix.Eventfd(0, unix.EFD_CLOEXEC))
		}),
		try("epoll_create1", "wait for descriptors", func() error { return closed(unix.EpollCreate1(unix.EPOLL_CLOEXEC)) }),
		try("socketpair", "connect keeper and supervisor", func() error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				unix.Close(pair[0])
				unix.Close(pair[1])
			}
			return err
		}),
		try("accept4", "answer requests on its control socket", acceptNone),
		try("recvmsg", "pass descriptors from the supervisor to the keeper", passMessage),
		try("ioctl", "count the bytes in a pipe (TIOCINQ)", func() error {
			return withPipes(func(from, _ int) error {
				_, err := unix.IoctlGetInt(from, unix.TIOCINQ)
				return err
			})
		}),
		try("prctl", "become the parent of orphans (PR_SET_CHILD_SUBREAPER)", func() error {
			var is int32
			return prctlSubreaper(&is)
		}),
		try("pidfd", "follow a process from start to end", func() error { return pidfd.Probe().Pidfd }),
	}
	for i := range all {
		all[i].Needed = true
		all[i].Remedy = needLinux
	}
	return append(all, procMounted())
}

// procMounted checks that /proc belongs to superd's PID namespace.
func procMounted() Finding {
	f := Finding{Name: "/proc", Works: true, Needed: true, For: "identify processes and find those of a program"}
	switch self, err := os.Readlink("/proc/self"); {
	case err != nil:
		f.Works, f.Error = false, err.Error()
	case self != strconv.Itoa(os.Getpid()):
		f.Works, f.Error = false, fmt.Sprintf("/proc shows process %s where superd is %d: it is of another PID namespace", self, os.Getpid())
	}
	f.Remedy = "mount proc at /proc in superd's own PID namespace"
	return f
}

// calls tries system calls that superd can do without.
func calls() []Finding {
	optional := func(f Finding, instead string) Finding {
		if !f.Works {
			f.Instead, f.Remedy = instead, allowNew
		}
		return f
	}
	own := try("unshare or close_range", "pass descriptors to another binary, hidden from other threads", ownTable)
	own.Remedy = allow
	return []Finding{
		optional(try("epoll_pwait2", "set timers to the microsecond", epollPwait2), "timers are set to the millisecond"),
		optional(try("timerfd_create", "detect a hung supervisor and a set clock", func() error {
			return closed(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC))
		}), "the keeper does not end a hung supervisor; schedules poll the clock"),
		optional(try("memfd_create", "upgrade the keeper, too", func() error {
			return closed(unix.MemfdCreate("superd-doctor", unix.MFD_CLOEXEC))
		}), "after an upgrade the keeper continues with its old binary"),
		optional(try("splice", "move output into files without a copy", func() error { return splice() }), "output is copied"),
		optional(try("tee", "examine output without taking it from its pipe", tee), "output is copied"),
		optional(own, "no program starts while superd executes a new binary"),
	}
}

// controllerKeys are the keys that need a controller of cgroup v2.
var controllerKeys = []struct {
	controller string
	keys       []string
}{
	{"memory", []string{"limits.memory", "limits.memory_high", "limits.swap"}},
	{"cpu", []string{"limits.cpu", "limits.cpu_weight"}},
	{"pids", []string{"limits.tasks"}},
	{"io", []string{"limits.io"}},
}

// rights checks rights that keys of programs depend on.
func rights() []Finding {
	user := Finding{Name: "user", Works: privilege.ChangeUser(), For: "run programs as other users"}
	if !user.Works {
		user.Error = "superd lacks CAP_SETUID or CAP_SETGID"
		user.Keys = []string{"user (another than superd's)", "supplementary_groups"}
		user.Remedy = "run superd as root, or with these capabilities"
	}
	cgroups := Finding{Name: "cgroups", Works: true, For: "give each program a cgroup of its own"}
	controllers, err := cgroup.Try()
	if err != nil {
		cgroups.Works, cgroups.Error = false, err.Error()
		cgroups.Instead = "processes are found by scanning /proc"
		for _, c := range controllerKeys {
			cgroups.Keys = append(cgroups.Keys, c.keys...)
		}
		cgroups.Remedy = "give superd a cgroup v2 directory that it may write (systemd: Delegate=yes)"
	}
	all := []Finding{user}
	for _, resource := range []rlimit.Resource{rlimit.NoFile, rlimit.Core, rlimit.MemLock, rlimit.NProc} {
		all = append(all, limitOf(resource))
	}
	all = append(append(all, attributes()...), cgroups)
	if err != nil {
		return all
	}
	for _, c := range controllerKeys {
		f := Finding{Name: "cgroup " + c.controller, Works: true, For: "apply " + strings.Join(c.keys, ", ")}
		if err := controllers[c.controller]; err != nil {
			f.Works, f.Error, f.Keys = false, err.Error(), c.keys
		}
		all = append(all, f)
	}
	return all
}

// attributes checks whether a program may get any value of an attribute.
func attributes() []Finding {
	const (
		leastNice, leastOOM = -20, -1000
		mostRealTime        = 99
	)
	var rights privilege.Attributes
	all := []Finding{
		{Name: "nice", For: "give a program a lower nice value than superd's", Keys: []string{"nice below superd's"}},
		{Name: "real-time", For: "give a program a real-time priority", Keys: []string{`scheduling = "fifo:N" or "rr:N"`}},
		{Name: "ionice", For: "give a program the class realtime", Keys: []string{`ionice = "realtime:N"`}},
		{Name: "oom_score_adj", For: "give a program a lower oom_score_adj than superd's", Keys: []string{"oom_score_adj below superd's"}},
	}
	for i, err := range []error{rights.Nice(leastNice), rights.RealTime(mostRealTime), rights.IORealTime(), rights.OOMScoreAdj(leastOOM)} {
		if all[i].Works = err == nil; err == nil {
			all[i].Keys = nil
			continue
		}
		all[i].Error = err.Error()
	}
	return all
}

// limitOf checks whether a program may get any value of a resource limit.
func limitOf(resource rlimit.Resource) Finding {
	f := Finding{Name: "limits." + resource.String(), Works: true, For: "set a program's limit to any value"}
	var limit unix.Rlimit
	if err := unix.Getrlimit(int(resource), &limit); err != nil || limit.Max >= 1<<62 {
		return f
	}
	if err := privilege.SetLimit(resource, limit.Max+1); err != nil {
		f.Works, f.Error = false, err.Error()
		f.Keys = []string{fmt.Sprintf("limits.%s above %d", resource, limit.Max)}
		f.Remedy = "raise the hard limit of superd itself"
	}
	return f
}

// try returns the result of a trial. It counts as failed only if the kernel or a filter refuses the
// call.
func try(name, purpose string, trial func() error) Finding {
	f := Finding{Name: name, Works: true, For: purpose}
	if err := trial(); refused(err) {
		f.Works, f.Error = false, fmt.Sprintf("%s: %v", name, err)
	}
	return f
}

func refused(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, pidfd.ErrUnsupported)
}

// closed closes a descriptor that a trial has opened.
func closed(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}
