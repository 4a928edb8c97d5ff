package linux

import (
	"superd/config"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/proctree"
)

// A kernelTree is a [host.Tree] of the kernel. There are two kinds: a cgroup, which a process
// leaves only with the right and the intention to do so; and, where superd can't make cgroups, a
// process scan of superd's descendants. A tree of the first kind has one of the second for
// processes that are started while no cgroup can be made.
type kernelTree interface {
	host.Tree

	// PrepareSpawn prepares the tree for a new process and activates the limits. It returns the
	// descriptor of the cgroup directory for [pidfd.Attr], which the caller closes; -1: none. It is
	// called off the loop.
	PrepareSpawn(limits *config.Limits) (cgroupFD int, err error)

	// Adopt adopts a predecessor's processes and activates the limits again. It is called off the
	// loop.
	Adopt(a *host.RecoveredProcess) error

	// RegisterSpawned registers a new main process or hook of the tree. It is called off the loop.
	RegisterSpawned(id pidfd.Identity, fifos []int)

	// MakeRoom removes what ended processes of the tree have left there and what prevents a fork
	// into it. It reports whether to try again. It is called off the loop.
	MakeRoom(cause error) bool
}

// NewTree implements [host.Host].
func (k *Host) NewTree(instance, dir string) host.Tree {
	if k.cgroups != nil && dir != host.ScanPath {
		return k.cgroups.NewTree(instance, dir)
	}
	return k.scan.NewTree(instance, dir != "")
}

// Unattributed implements [host.Host]. With cgroups there are none, as no process leaves a cgroup
// by accident.
func (k *Host) Unattributed(found func([]host.Member)) {
	if k.cgroups != nil {
		found(nil)
		return
	}
	k.scan.Unattributed(found)
}

// Unowned implements [host.Host].
func (k *Host) Unowned() []host.UnattributedProcess { return k.scan.Unowned() }

// TreeUsages returns the usage of the instances' trees, see [proctree.TreeUsages]. It may block, so
// it must not run on the loop.
func (k *Host) TreeUsages(mains []host.MainProcess, others []int) []host.TreeUsage {
	return proctree.TreeUsages(mains, others, k.runtimeDir)
}
