package host

// ProbeSuffix ends the name of the tree of an instance's exec checks. It is unambiguous: no
// instance name has a colon.
const ProbeSuffix = ":probe"

// ScanPath is the path of a tree whose processes are found by a scan of /proc.
const ScanPath = "/proc"

// A Tree is the live processes of an instance: its main process, its hooks and all their
// descendants, wherever they went. Zombies don't count.
type Tree interface {
	// Empty reports whether no process lives in it, as far as known at once. If it is false, Look
	// finds out.
	Empty() bool
	// Look calls found on the loop, perhaps before it returns, with the live processes. found owns
	// them.
	Look(found func([]Member))
	// Has reports whether the process with this pid belongs to it, as far as known at once.
	Has(pid int) bool
	// Kill sends SIGKILL to all processes at once where the kernel can, and does nothing elsewhere.
	Kill() error
	// OOMKills returns how many of its processes the kernel has killed so far for lack of memory,
	// by the tree's own limit or the machine's. It is 0 where the kernel does not count.
	OOMKills() int
	// Lack returns why its live processes are not in a cgroup of their own. It is empty if they
	// are, or if superd has no cgroups at all.
	Lack() string
	// Path returns where the tree is, for a successor.
	Path() string
	// Remove releases the tree's system resources. No process lives in it.
	Remove()
}

// A Member is one process of a tree.
type Member struct {
	Process Process
	Start   uint64 // clock ticks since boot; identifies the process together with the pid
	Group   int    // process group
	Parent  int    // pid of its parent
	Command string // its name, as in ps(1)
}
