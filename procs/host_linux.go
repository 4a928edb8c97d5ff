package procs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/failpoint"
	"superd/internal/privilege"
	"superd/internal/procfs"
	"superd/loop"
	"superd/pidfd"
)

// A Kernel is the [System] of production.
type Kernel struct {
	loop        *loop.Loop
	runtimeDir  string
	fifoDir     string
	keeper      int // its pid; 0: none
	log         *slog.Logger
	openFiles   *unix.Rlimit
	slots       *pidfd.Slots
	null        int  // /dev/null, the programs' standard input
	ambient     bool // superd has capabilities that programs of other users must not get
	oomScoreAdj *int // value for the programs; nil: superd's own
	starts      startQueue
	gate        reapGate
	reapChild   func(pid int) // callback of the last ReapOrphans; loop only
	sigchld     Mutable       // may be nil
	cgroups     *cgroups      // of the trees; nil: none, the process scan finds their processes
	scan        *processScan  // for trees without a cgroup
	looks       chan struct{} // semaphore for looks at a cgroup
	unlinks     workerPool    // workers that remove names of FIFOs and notify sockets
	unlinking   job           // removals under way: a start waits for their end
	reach       sync.Once     // see checkReach
}

// NewKernel returns the system superd runs on.
func NewKernel(l *loop.Loop, o KernelOptions) (*Kernel, error) {
	// Its number is below the slots, so that it needs none.
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	l.Root().Defer(func() { unix.Close(null) })
	slots, err := pidfd.ReserveSlots(o.LockFD, workers)
	if err != nil {
		return nil, err
	}
	l.Root().Defer(slots.Close)
	oomScoreAdj, err := ownOOMScore()
	if err != nil {
		return nil, fmt.Errorf("read own oom_score_adj: %w", err)
	}
	k := &Kernel{loop: l, openFiles: o.OpenFiles, slots: slots, runtimeDir: o.RuntimeDir, fifoDir: o.FIFODir, keeper: o.KeeperPid, log: o.Log, sigchld: o.SIGCHLD, null: null, oomScoreAdj: oomScoreAdj, ambient: privilege.Ambient()}
	k.starts.crowded = k.crowded(cmp.Or(o.KeeperPid, os.Getpid()), o.Crowd)
	k.gate.init()
	k.unlinks.most = unlinkSlots
	l.Root().Defer(k.unlinking.wait) // a successor must not have names removed later
	if err := k.startTrees(o); err != nil {
		return nil, err
	}
	return k, nil
}

// gatherPause is how long a successful start waits for others while many starts are queued, so that
// the loop handles them together.
const gatherPause = 4 * time.Millisecond

// crowded returns a function to call when many starts begin to wait, and when none waits any more.
func (k *Kernel) crowded(leader int, tell func(bool)) func(bool) {
	precede := privilege.Precedence(leader)
	return func(many bool) {
		if precede != nil {
			if err := precede(many); err != nil {
				k.log.Warn("superd's share of the processor is not set", "error", err)
			}
		}
		k.loop.Post(func() {
			k.loop.Gather(gatherPause * time.Duration(one(many)))
			if tell != nil {
				tell(many)
			}
		})
	}
}

// A pendingSpawn is the worker's side of a spawn.
type pendingSpawn struct {
	loop  *loop.Loop
	stage atomic.Pointer[stage]
	queue *startQueue
	start start // its place in the queue

	mu       sync.Mutex      // never held while blocking, as the loop takes it
	waits    bool            // no worker has taken it yet
	seat     *seat           // among the starts under way
	progress *pidfd.Progress // a child between its fork and its exec; nil: none
	step     Process         // a running exec shim; nil: none
	killed   bool            // the child or the shim got SIGKILL, as the spawn was cancelled
	hungAs   int             // its pid
	hungIn   WaitState       // its wait state before the kill
	unwanted bool            // Cancel was called too late to prevent the fork
	// it can't be cancelled: it makes a FIFO, forks, or has failed; done will run
	committed bool
	returned  func() // set by Cancel
}

// Cancel implements [PendingSpawn].
func (p *pendingSpawn) Cancel(returned func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.committed {
		p.unwanted = true
		p.killChild()
		return false
	}
	p.returned = returned
	if p.waits {
		p.queue.drop(&p.start)
		p.loop.Post(returned)
	}
	return true
}

// Child implements [PendingSpawn].
func (p *pendingSpawn) Child() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child()
}

// child is Child with p.mu held.
func (p *pendingSpawn) child() int {
	switch {
	case p.step != nil:
		return p.step.Pid()
	case p.progress != nil:
		return p.progress.Pid()
	}
	return 0
}

// killChild kills a child that has not executed the program yet. The caller holds p.mu.
func (p *pendingSpawn) killChild() {
	pid := p.child()
	if pid == 0 || p.killed {
		return
	}
	p.hungAs, p.hungIn = pid, waitsIn(pid) // before the signal changes it
	switch {
	case p.step != nil:
		// It is a separate process, not a fork that superd waits for.
		p.killed = p.step.Signal(unix.SIGKILL) == nil
	default:
		p.killed = p.progress.Kill()
	}
}

// forkBegins registers a child about to be forked, which may hang before its exec. It reports
// whether the spawn is still wanted.
func (p *pendingSpawn) forkBegins(progress *pidfd.Progress) (wanted bool) {
	p.seat.mayHang()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress = progress
	return !p.unwanted
}

// forkEnds unregisters the child: it has executed something, or is gone.
func (p *pendingSpawn) forkEnds() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress = nil
}

// stepBegins registers a running exec shim. It may hang where superd's own checks could not foresee
// it.
func (p *pendingSpawn) stepBegins(step Process) {
	p.seat.mayHang()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step
	if p.unwanted { // cancelled before the shim was registered
		p.killChild()
	}
}

// stepEnds reports whether the shim was killed, as the spawn was cancelled.
func (p *pendingSpawn) stepEnds() (killed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = nil
	return p.killed
}

// errHung returns the error of a start whose child was killed before it executed the program.
func (p *pendingSpawn) errHung() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hungAs == 0 {
		return errors.New("called off")
	}
	return fmt.Errorf("no answer in time: process %d waited in %s before it executed the program; %s",
		p.hungAs, p.hungIn.Text, p.hungIn.hint())
}

// childState returns the child's state from /proc; 0 without a child.
func (p *pendingSpawn) childState() byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := p.child()
	if pid == 0 && p.progress != nil {
		return stateRunning // about to run for the first time
	}
	if pid == 0 {
		return 0
	}
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return 0
	}
	return s.State
}

// begin assigns a worker's seat. It reports whether the spawn was not cancelled.
func (p *pendingSpawn) begin(s *seat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits, p.seat = false, s
	return p.returned == nil
}

// Queued implements [PendingSpawn].
func (p *pendingSpawn) Queued() bool { return p.stage.Load().queued }

// A stage is what a worker does, with a path if it is about a file.
type stage struct {
	does, path string
	queued     bool // waits for a worker
}

// Stage implements [PendingSpawn].
func (p *pendingSpawn) Stage() string {
	s := p.stage.Load()
	if s.path == "" {
		return s.does
	}
	return s.does + " " + s.path
}

func (p *pendingSpawn) enter(does, path string) { p.stage.Store(&stage{does: does, path: path}) }

// unlessCanceled runs f unless the spawn was cancelled. The spawn can't be cancelled while f runs,
// so what f uses of the instance, such as its FIFO, stays.
func (p *pendingSpawn) unlessCanceled(f func() error) error {
	if !p.commit() {
		return errCanceled
	}
	err := f()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = false
	return err
}

var errCanceled = errors.New("called off")

// commit reports whether the spawn continues. From then on it can't be cancelled.
func (p *pendingSpawn) commit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = p.returned == nil
	return p.committed
}

// Spawn implements [System]. As far as possible, what can hang runs before the fork: a thread that
// waits for its child's exec can't do anything else.
func (k *Kernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	p := &pendingSpawn{loop: k.loop, waits: true, queue: &k.starts}
	p.stage.Store(&stage{does: "wait for a turn to start", queued: true})
	p.start = start{
		run: func(s *seat) {
			if p.begin(s) {
				k.work(spec, p, done)
			}
		},
		paths:  []string{spec.Program.Directory, spec.Program.Command[0], spec.Program.EnvFile},
		user:   spec.Program.User,
		at:     func() string { return p.stage.Load().path },
		child:  p.childState,
		passed: func(why string) { p.enter("wait for other starts that hang: "+why, "") },
	}
	k.starts.add(&p.start)
	return p
}

func (k *Kernel) work(spec *SpawnSpec, p *pendingSpawn, done func(Child, error)) {
	made := slices.Repeat([]int{-1}, len(spec.Outputs))
	madeInput := -1
	prepared, err := k.prepare(spec, p, made, &madeInput)
	if prepared != nil {
		defer prepared.close()
	}
	cgroup := -1
	if err == nil {
		p.enter("enter cgroup", "")
		cgroup, err = spec.Tree.(kernelTree).prepareSpawn(&spec.Program.Limits)
	}
	if !p.commit() {
		closeCgroup(cgroup)
		k.loop.Post(func() {
			for _, fd := range append(made, madeInput) {
				closeInherited(fd)
			}
			p.returned()
		})
		return
	}
	if err != nil {
		k.loop.Post(func() { done(Child{ReadFDs: made, InputFD: madeInput, NotifyFD: -1, ReadyFD: -1}, err) })
		return
	}
	p.enter("execute", prepared.path)
	process, id, err := k.fork(prepared, spec, cgroup, made)
	child := Child{ReadFDs: made, InputFD: madeInput, NotifyFD: -1, ReadyFD: -1}
	if err == nil {
		child.Process, child.ID, child.EnvSum = process, id, prepared.envSum
		child.NotifyFD, child.ReadyFD = prepared.notify, prepared.ready[0]
		prepared.notify, prepared.ready[0] = -1, -1
	}
	if err != nil {
		k.loop.Post(func() { done(child, err) })
		return
	}
	k.loop.PostSoon(func() {
		done(child, nil)
		k.announced(process.Pid())
	})
}

// prepare calls [prepare], unless too few free descriptors are left.
func (k *Kernel) prepare(spec *SpawnSpec, p *pendingSpawn, made []int, madeInput *int) (*prepared, error) {
	if err := checkHeadroom(k.null); err != nil {
		return nil, &SpawnError{Stage: "keep descriptors free for superd itself", Err: err, Fault: faultOf(err)}
	}
	p.enter("wait until names of removed programs are gone", "")
	k.unlinking.wait() // otherwise a name that is made here might be removed
	prepared, err := prepare(spec, p, made, madeInput)
	if err == nil && prepared.notify >= 0 && os.Geteuid() == 0 {
		k.reach.Do(func() { k.checkReach(filepath.Dir(spec.NotifySocket)) })
	}
	return prepared, err
}

// checkReach logs a warning if a program that runs as another user than root can't reach its notify
// socket.
func (k *Kernel) checkReach(dir string) {
	others := &rights{who: "other users", uid: unprivilegedUID}
	if refusal := others.refuses(dir); refusal != nil {
		k.log.Warn("notifications of programs that do not run as root can't come: "+
			"let others enter (chmod o+x), or choose another runtime_dir", "error", refusal)
	}
}

// unprivilegedUID is that of the user nobody, who owns no files.
const unprivilegedUID = 65534

// fork starts the program in its tree, and records it before and after. outputs are the read ends
// of FIFOs that were made for it. It closes cgroup.
func (k *Kernel) fork(p *prepared, spec *SpawnSpec, cgroup int, outputs []int) (*pidfd.Process, pidfd.Identity, error) {
	tree := spec.Tree.(kernelTree)
	if spec.LogIntent != nil {
		if err := spec.LogIntent(bootTicks()); err != nil {
			closeCgroup(cgroup)
			return nil, pidfd.Identity{}, &SpawnError{Stage: "write down the start", Err: err, Fault: faultResource}
		}
	}
	if spec.StoreFDs != nil {
		spec.StoreFDs(p.notify, p.ready[0], outputs)
	}
	failpoint.Here("spawn.before-fork")
	stdout, stderr := p.stdoutAndStderr()
	var before time.Duration
	spawn := func() (*pidfd.Process, error) {
		defer closeCgroup(cgroup)
		before = monotonic()
		return k.execute(p, &pidfd.Attr{
			Files:    p.files(k.null, stdout, stderr),
			CgroupFD: cgroup,
			Process:  spec.Process,
		})
	}
	child, err := spawn()
	if err != nil && tree.makeRoom(err) {
		if cgroup, err = tree.prepareSpawn(&p.program.Limits); err == nil {
			child, err = spawn()
		}
	}
	if err != nil {
		return nil, pidfd.Identity{}, err
	}
	failpoint.Here("spawn.after-fork")
	id, _ := child.Identity() // may be incomplete: the pidfd suffices to continue
	if spec.LogSpawned != nil {
		if err := spec.LogSpawned(id, before); err != nil {
			k.log.Warn("start not written down: if superd is killed now, it has to be looked for", "instance", spec.Name, "pid", id.Pid, "error", err)
		}
	}
	failpoint.Here("spawn.recorded")
	fifos := p.outputs
	if p.program.Log.Format == config.LogDirect {
		fifos = nil // other processes may have a log file open
	}
	tree.registerSpawned(id, fifos)
	return child, id, nil
}

// files returns the program's descriptors 0, 1, 2 and so on.
func (p *prepared) files(null, stdout, stderr int) []int {
	files := []int{null, stdout, stderr}
	if p.input >= 0 {
		files[0] = p.input
	}
	if p.readyNumber > 0 {
		for len(files) < p.readyNumber {
			files = append(files, -1)
		}
		files = append(files, p.ready[1])
	}
	return files
}

func closeCgroup(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// ReapUnknown implements [System].
func (k *Kernel) ReapUnknown(pid int) (pidfd.Exit, error) {
	k.scan.reaped.Add(1) // before the reaping, so that a scan that misses the zombie notices
	exit, _, err := pidfd.ReapStranger(pid)
	return exit, err
}

// RemoveNames implements [System]. A name that can't be removed stays, or goes with its directory.
func (k *Kernel) RemoveNames(paths []string) {
	k.unlinking.begin(&k.unlinks, func() { unlink(paths) })
}

// RemoveOtherNames implements [System].
func (k *Kernel) RemoveOtherNames(dirs, keep []string) {
	kept := make(map[string]bool, len(keep))
	for _, path := range keep {
		kept[path] = true
	}
	k.unlinking.begin(&k.unlinks, func() {
		for _, dir := range dirs {
			entries, _ := os.ReadDir(dir) // as many as can be read
			for _, entry := range entries {
				if path := filepath.Join(dir, entry.Name()); !kept[path] {
					unlink([]string{path})
				}
			}
		}
	})
}

// unlink removes names as far as possible. No name is a directory's.
func unlink(paths []string) {
	for _, path := range paths {
		_ = unix.Unlink(path)
	}
}

// WaitsIn implements [System].
func (k *Kernel) WaitsIn(pid int) WaitState { return waitsIn(pid) }

// waitsIn returns what a process waits in. Source: man 5 proc_pid_stat, proc_pid_wchan.
func waitsIn(pid int) WaitState {
	state := "an unknown state"
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "State:"); ok {
				state = strings.TrimSpace(rest)
			}
		}
	}
	if wchan, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid)); err == nil && len(wchan) > 0 && string(wchan) != "0" {
		state += " in " + string(wchan)
	}
	return WaitState{Text: state, Stopped: strings.HasPrefix(state, string(stateStopped))}
}
