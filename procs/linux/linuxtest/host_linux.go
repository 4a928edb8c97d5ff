package linuxtest

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/pidfd"
	"superd/procs/host"
)

// A PlainHost is a [host.Host] for tests of one kind of tree. It starts a process at once, on the
// loop, so that each child is known when children are reaped. Other methods than those here panic.
type PlainHost struct {
	host.Host
	Trees   func(instance, dir string) host.Tree
	Reaping func() // called before an orphan is reaped; may be nil
}

// A spawnTree is what a start needs of a tree.
type spawnTree interface {
	PrepareSpawn(limits *config.Limits) (cgroupFD int, err error)
	RegisterSpawned(id pidfd.Identity, fifos []int)
}

// NewTree implements [host.Host].
func (h *PlainHost) NewTree(instance, dir string) host.Tree { return h.Trees(instance, dir) }

// Spawn implements [host.Host]. The process has the null device for input and output.
func (h *PlainHost) Spawn(spec *host.SpawnSpec, done func(host.Child, error)) host.PendingSpawn {
	done(h.spawn(spec))
	return nil
}

func (h *PlainHost) spawn(spec *host.SpawnSpec) (child host.Child, err error) {
	argv, env, _, err := spec.Program.Resolve(spec.Environment, spec.Own, nil, nil)
	if err != nil {
		return child, err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return child, err
	}
	tree := spec.Tree.(spawnTree)
	cgroup, err := tree.PrepareSpawn(&spec.Program.Limits)
	if err != nil {
		return child, err
	}
	if cgroup >= 0 {
		defer unix.Close(cgroup)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return child, err
	}
	defer unix.Close(null)
	p, err := pidfd.Spawn(&pidfd.Attr{
		Path: path, Args: argv, Env: env, Dir: "/", Files: []int{null, null, null}, CgroupFD: cgroup,
	})
	if err != nil {
		return child, err
	}
	id, err := p.Identity()
	if err != nil {
		return child, err
	}
	tree.RegisterSpawned(id, nil)
	return host.Child{Process: p, ID: id, NotifyFD: -1, ReadyFD: -1}, nil
}

// ReapOrphans implements [host.Host].
func (h *PlainHost) ReapOrphans(dead func(pid int)) {
	for last := 0; ; {
		pid, ok, err := pidfd.Peek()
		if err != nil || !ok || pid == last {
			return
		}
		last = pid
		dead(pid)
	}
}

// ReapUnknown implements [host.Host].
func (h *PlainHost) ReapUnknown(pid int) (pidfd.Exit, error) {
	if h.Reaping != nil {
		h.Reaping()
	}
	exit, ok, err := pidfd.ReapUnknown(pid)
	if err == nil && !ok {
		err = errors.New("it lives")
	}
	return exit, err
}
