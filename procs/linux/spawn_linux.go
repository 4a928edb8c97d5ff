package linux

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/failpoint"
	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

// Spawn implements [host.Host]. As far as possible, what can hang runs before the fork: a thread
// that waits for its child's exec can't do anything else.
func (k *Host) Spawn(spec *host.SpawnSpec, done func(host.Child, error)) host.PendingSpawn {
	a := &attempt{post: k.loop.Post, waits: true, queue: &k.starts, sockets: spec.Sockets}
	a.stage.Store(&stage{does: "wait in the start queue", queued: true})
	paths := []string{spec.Program.Directory, spec.Program.Command[0]}
	for _, file := range spec.Program.EnvFiles {
		paths = append(paths, file.Path)
	}
	a.start = start{
		run: func(s *startSlot) {
			defer a.releaseSockets()
			if a.begin(s) {
				k.work(a, spec, done)
			}
		},
		paths:   paths,
		user:    spec.Program.User,
		path:    func() string { return a.stage.Load().path },
		child:   a.childState,
		onDefer: func(why string) { a.enter("wait for other starts that hang: "+why, "") },
	}
	k.starts.add(&a.start)
	return a
}

// work carries out a spawn: prepare, commit, fork, report.
func (k *Host) work(a *attempt, spec *host.SpawnSpec, done func(host.Child, error)) {
	child := host.Child{
		ReadFDs: slices.Repeat([]int{-1}, len(spec.Outputs)), InputFD: -1, NotifyFD: -1, ReadyFD: -1,
	}
	p, cgroup, err := k.prepare(a, spec, &child)
	if p != nil {
		defer p.close()
	}
	if !a.commit() {
		closeCgroup(cgroup)
		k.loop.Post(func() {
			for _, fd := range append(child.ReadFDs, child.InputFD) {
				closeInherited(fd)
			}
			a.returned()
		})
		return
	}
	if err == nil {
		a.enter("execute", p.path)
		err = k.fork(a, p, spec, cgroup, &child)
	}
	if err != nil {
		k.loop.Post(func() { done(child, err) })
		return
	}
	k.loop.PostSoon(func() {
		done(child, nil)
		k.announced(child.Process.Pid())
	})
}

// prepare prepares all that the fork needs: descriptors, files, names and the tree. It stores
// superd's ends of FIFOs that it makes in child. cgroup is -1 without one.
func (k *Host) prepare(a *attempt, spec *host.SpawnSpec, child *host.Child) (p *prepared, cgroup int, err error) {
	if err := checkHeadroom(k.null); err != nil {
		return nil, -1, &host.SpawnError{Stage: "reserve descriptors for superd", Err: err, Fault: host.FaultOf(err)}
	}
	a.enter("unlink names of removed programs", "")
	k.unlinking.Wait() // otherwise a name that is created here might be removed
	if p, err = prepare(a, spec, child, &k.filters); err != nil {
		return p, -1, err
	}
	if p.notify >= 0 && os.Geteuid() == 0 {
		k.reach.Do(func() { k.checkReach(filepath.Dir(spec.NotifySocket)) })
	}
	a.enter("enter cgroup", "")
	cgroup, err = spec.Tree.(kernelTree).PrepareSpawn(&spec.Program.Limits)
	return p, cgroup, err
}

// fork starts the program in its tree, and records it before and after. It completes child, and
// closes cgroup.
func (k *Host) fork(a *attempt, p *prepared, spec *host.SpawnSpec, cgroup int, child *host.Child) error {
	if err := k.recordIntent(p, spec, child.ReadFDs); err != nil {
		closeCgroup(cgroup)
		return err
	}
	failpoint.Here("spawn.before-fork")
	process, at, err := k.forkIntoTree(a, p, spec, cgroup)
	if err != nil {
		return err
	}
	failpoint.Here("spawn.after-fork")
	id, _ := process.Identity() // may be incomplete: the pidfd suffices to continue
	if spec.LogSpawned != nil {
		if err := spec.LogSpawned(id, at); err != nil {
			k.log.Warn("start not recorded: after a crash superd has to search for it", "instance", spec.Name, "pid", id.Pid, "error", err)
		}
	}
	failpoint.Here("spawn.recorded")
	fifos := p.outputs
	if p.program.Log.Format == config.LogDirect {
		fifos = nil // other processes may have a log file open
	}
	spec.Tree.(kernelTree).RegisterSpawned(id, fifos)
	child.Process, child.ID, child.EnvSum = process, id, p.envSum
	for _, w := range p.warnings {
		child.SandboxWarnings = append(child.SandboxWarnings, w.Error())
	}
	child.NotifyFD, child.ReadyFD = p.notify, p.ready[0]
	p.notify, p.ready[0] = -1, -1
	return nil
}

// recordIntent writes the start record and stores the descriptors that a successor needs. outputs
// are the read ends of FIFOs that were created for the spawn.
func (k *Host) recordIntent(p *prepared, spec *host.SpawnSpec, outputs []int) error {
	if spec.LogIntent != nil {
		if err := spec.LogIntent(procfs.BootTicks()); err != nil {
			return &host.SpawnError{Stage: "record the start", Err: err, Fault: host.FaultResource}
		}
	}
	if spec.StoreFDs != nil {
		spec.StoreFDs(p.notify, p.ready[0], outputs)
	}
	return nil
}

// forkIntoTree forks and executes, a second time if the tree can remove what prevented the first.
// at is the loop's clock just before the fork. It closes cgroup.
func (k *Host) forkIntoTree(a *attempt, p *prepared, spec *host.SpawnSpec, cgroup int) (process *pidfd.Process, at time.Duration, err error) {
	stdout, stderr := p.stdoutAndStderr()
	spawn := func() (*pidfd.Process, error) {
		defer closeCgroup(cgroup)
		at = monotonic()
		return k.execute(a, p, &pidfd.Attr{
			Files:    p.files(k.null, stdout, stderr),
			CgroupFD: cgroup,
			Process:  spec.Process,
		})
	}
	tree := spec.Tree.(kernelTree)
	process, err = spawn()
	if err != nil && tree.MakeRoom(err) {
		if cgroup, err = tree.PrepareSpawn(&p.program.Limits); err == nil {
			process, err = spawn()
		}
	}
	return process, at, err
}

func closeCgroup(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// checkReach logs a warning if a program that runs as another user than root can't reach its notify
// socket.
func (k *Host) checkReach(dir string) {
	others := &rights{name: "other users", uid: unprivilegedUID}
	if refusal := others.refuses(dir); refusal != nil {
		k.log.Warn("notifications of programs that do not run as root fail: "+
			"let others enter (chmod o+x), or choose another runtime_dir", "error", refusal)
	}
}

// unprivilegedUID is that of the user nobody, who owns no files.
const unprivilegedUID = 65534

// monotonic returns the time of the loop's clock. It may be called from any goroutine.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
