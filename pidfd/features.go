package pidfd

// Features says what the running kernel supports and permits.
type Features struct {
	// Nil: a child has a pidfd from its start (Linux 5.2), by which it can be waited for (5.4);
	// needed by Spawn
	Pidfd           error
	PidfdOpen       bool // Open gets a pidfd (5.3), which epoll can watch
	PidfdSignal     bool // signals are sent through the pidfd (5.1)
	CloneIntoCgroup bool // Attr.CgroupFD (5.7)
	CloseRange      bool // Slots (5.9)
	// SignalGroup also works after the leader was reaped, or if it is not a child (6.9)
	GroupSignal bool
	// Identity has an inode, and a descriptor hangs up when its process is reaped (6.9)
	Pidfs    bool
	ExitInfo bool // ExitInfo (6.15)
}

// A Feature is one of Features, described for people.
type Feature struct {
	Name    string
	Has     bool
	For     string // what superd uses it for
	Instead string // what superd does without it; "": superd needs it
}

// List returns all features, the needed one first.
func (f Features) List() []Feature {
	return []Feature{
		{"pidfd", f.Pidfd == nil, "follow a process from start to end", ""},
		{"pidfd_open", f.PidfdOpen, "wait for the end of processes that are not its children",
			"polls /proc"},
		{"pidfd_send_signal", f.PidfdSignal, "send signals that reach no other process",
			"kill, after a check that the pid is still that process"},
		{"clone_into_cgroup", f.CloneIntoCgroup, "start a program in its cgroup",
			"programs get no cgroups; processes are found by scanning /proc"},
		{"close_range", f.CloseRange, "start a program at a cost independent of their number",
			"a start copies all of superd's descriptors"},
		{"group_signal", f.GroupSignal, "signal a process group after its leader has ended",
			"signals the group by number while its leader is a child, else each process"},
		{"pidfs", f.Pidfs, "identify a process by an inode", "by pid and start time"},
		{"exit_info", f.ExitInfo, "read the exit status of a process that is not a child",
			"the keeper reports it; if there was none, it is unknown"},
	}
}
