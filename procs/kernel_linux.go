package procs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/crashpoint"
	"superd/loop"
	"superd/pidfd"
	"superd/privilege"
)

// A Kernel is the [System] of production.
type Kernel struct {
	loop        *loop.Loop
	runtimeDir  string
	log         *slog.Logger
	openFiles   *unix.Rlimit
	slots       *pidfd.Slots
	null        int  // /dev/null, the programs' standard input
	ambient     bool // superd has capabilities that programs of other users must not get
	oomScoreAdj *int // what the programs get; nil: superd's own
	starts      startQueue
	gate        forkGate
	sweep       func(pid int) // what the last sweep was to do; loop only
	sigchld     Mutable       // may be nil
	cgroups     *cgroups      // of the trees; nil: there are none, the census finds their processes
	census      *census       // nil with cgroups
	looks       chan struct{} // held by those who look at a cgroup
	unlinks     runners       // that remove FIFOs
	unlinking   errand
}

// NewKernel returns the system superd runs on.
func NewKernel(l *loop.Loop, o KernelOptions) (*Kernel, error) {
	// It lies below the slots, so that it needs none.
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
	k := &Kernel{loop: l, openFiles: o.OpenFiles, slots: slots, runtimeDir: o.RuntimeDir, log: o.Log, sigchld: o.SIGCHLD, null: null, oomScoreAdj: oomScoreAdj, ambient: privilege.Ambient()}
	k.starts.crowded = k.crowded(cmp.Or(o.KeeperPid, os.Getpid()), o.Crowd)
	k.gate.init()
	k.unlinks.most = unlinkSlots
	l.Root().Defer(k.unlinking.wait) // the next superd is to find none of them that is still to go
	if err := k.startTrees(o); err != nil {
		return nil, err
	}
	return k, nil
}

// gatherPause is how long a start that has succeeded waits for others, to be dealt with on the loop together, while many wait for their turn.
const gatherPause = 4 * time.Millisecond

// crowded returns what to do when many starts begin to wait, and when nobody waits any more.
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

	mu        sync.Mutex // nobody blocks with it: the loop takes it
	waits     bool       // no worker has come yet
	seat      *seat      // among the starts under way
	step      Process    // a step under way; nil without one
	killed    bool       // so it was
	unwanted  bool       // somebody has tried to call it off when it was too late for that
	committed bool       // it can't be called off: at the FIFO, at the fork, or failed: done will run
	returned  func()     // set when it was called off
}

// CallOff implements [PendingSpawn].
func (p *pendingSpawn) CallOff(returned func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.step != nil && !p.killed {
		// It is a process of its own, not a fork that superd waits for, so it can be ended.
		p.killed = p.step.Signal(unix.SIGKILL) == nil
	}
	if p.committed {
		p.unwanted = true
		return false
	}
	p.returned = returned
	if p.waits {
		p.queue.drop(&p.start)
		p.loop.Post(returned)
	}
	return true
}

// stepBegins tells that the spawn is a step now, which may hang where superd could not look.
func (p *pendingSpawn) stepBegins(step Process) {
	p.seat.mayHang()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step
	if p.unwanted { // since before it was known
		p.killed = step.Signal(unix.SIGKILL) == nil
	}
}

// stepEnds reports whether the step was killed, since nobody wants to wait for it any more.
func (p *pendingSpawn) stepEnds() (killed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = nil
	return p.killed
}

// begin reports whether there is something to do for the worker that has come.
func (p *pendingSpawn) begin(s *seat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits, p.seat = false, s
	return p.returned == nil
}

// Queued implements [PendingSpawn].
func (p *pendingSpawn) Queued() bool { return strings.HasPrefix(p.Stage(), queued) }

// queued begins the stages in which a worker waits for its turn.
const queued = "wait for a turn to "

// A stage is what a worker does, and to which file if it is about one.
type stage struct{ does, path string }

// Stage implements [PendingSpawn].
func (p *pendingSpawn) Stage() string {
	s := p.stage.Load()
	return strings.TrimSuffix(s.does+" "+s.path, " ")
}

func (p *pendingSpawn) enter(does, path string) { p.stage.Store(&stage{does, path}) }

// unlessCalledOff runs f, unless the spawn was called off; and it can't be while f runs. What f uses of the instance, such
// as its FIFO, is there for as long.
func (p *pendingSpawn) unlessCalledOff(f func() error) error {
	if !p.commit() {
		return errCalledOff
	}
	err := f()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = false
	return err
}

var errCalledOff = errors.New("called off")

// commit reports whether the spawn goes on; from then on it can't be called off.
func (p *pendingSpawn) commit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = p.returned == nil
	return p.committed
}

// Spawn implements [System]. Everything that can hang goes on before the fork: a start can't be called off while a
// thread waits for its child's exec.
func (k *Kernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	p := &pendingSpawn{loop: k.loop, waits: true, queue: &k.starts}
	p.enter(queued+"start", "")
	p.start = start{
		run: func(s *seat) {
			if p.begin(s) {
				k.work(spec, p, done)
			}
		},
		paths:  []string{spec.Program.Directory, spec.Program.Command[0], spec.Program.EnvFile},
		at:     func() string { return p.stage.Load().path },
		passed: func(path string) { p.enter("wait for other starts that hang on the file system of", path) },
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
		cgroup, err = spec.Tree.(kernelTree).admit(&spec.Program.Limits)
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
	p.seat.settle()
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
		k.known(process.Pid())
	})
}

// prepare is [prepare], unless there is too little left of what all starts take.
func (k *Kernel) prepare(spec *SpawnSpec, p *pendingSpawn, made []int, madeInput *int) (*prepared, error) {
	if err := checkHeadroom(k.null); err != nil {
		return nil, &SpawnError{Stage: "keep descriptors free for superd itself", Err: err, Fault: faultOf(err)}
	}
	return prepare(spec, p, made, madeInput)
}

// fork starts the program in its tree, and has it written down before and after. outputs are the read ends of FIFOs that were made for it. It closes
// cgroup.
func (k *Kernel) fork(p *prepared, spec *SpawnSpec, cgroup int, outputs []int) (*pidfd.Process, pidfd.Identity, error) {
	tree := spec.Tree.(kernelTree)
	if spec.Expect != nil {
		if err := spec.Expect(bootTicks()); err != nil {
			closeCgroup(cgroup)
			return nil, pidfd.Identity{}, &SpawnError{Stage: "write down the start", Err: err, Fault: faultResource}
		}
	}
	if spec.Made != nil {
		spec.Made(p.notify, p.ready[0], outputs)
	}
	crashpoint.Here("spawn.before-fork")
	stdout, stderr := p.stdoutAndStderr()
	spawn := func() (*pidfd.Process, error) {
		defer closeCgroup(cgroup)
		return k.execute(p, &pidfd.Attr{
			Files:    p.files(k.null, stdout, stderr),
			CgroupFD: cgroup,
			Process:  spec.Process,
		})
	}
	child, err := spawn()
	if err != nil && tree.makeRoom(err) {
		if cgroup, err = tree.admit(&p.program.Limits); err == nil {
			child, err = spawn()
		}
	}
	if err != nil {
		return nil, pidfd.Identity{}, err
	}
	crashpoint.Here("spawn.after-fork")
	id, _ := child.Identity() // as far as it can be told just now: its pidfd is all that superd needs to go on
	if spec.Happened != nil {
		if err := spec.Happened(id, monotonic()); err != nil {
			k.log.Warn("start not written down: if superd is killed now, it has to be looked for", "instance", spec.Name, "pid", id.Pid, "error", err)
		}
	}
	crashpoint.Here("spawn.recorded")
	fifos := p.outputs
	if p.program.Log.Format == config.LogDirect {
		fifos = nil // a log file may be open elsewhere
	}
	tree.born(id, fifos)
	return child, id, nil
}

// files returns what become the program's descriptors 0, 1, 2 and so on.
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

// A forkGate keeps the sweep away from children whose owner has not heard of them yet.
type forkGate struct {
	mu      sync.Mutex
	free    sync.Cond
	forks   int          // between a fork and its exec: their pids are not known
	newborn map[int]bool // whose owner on the loop has not heard of them
	wanted  bool         // a sweep waits for forks to be 0: no further one begins
	held    int          // those who let no further one begin, see HoldForks
	blocked bool         // a sweep has met a newborn
}

func (g *forkGate) init() {
	g.free.L = &g.mu
	g.newborn = map[int]bool{}
}

// spawn forks and executes.
func (k *Kernel) spawn(attr *pidfd.Attr) (*pidfd.Process, error) {
	k.gate.enter()
	attr.Slots, attr.OpenFiles = k.slots, k.openFiles
	child, err := pidfd.Spawn(attr)
	if err == nil {
		k.gate.mu.Lock()
		k.gate.newborn[child.Pid()] = true
		k.gate.mu.Unlock()
	}
	k.leaveGate()
	return child, err
}

// enter keeps the sweep away until leaveGate.
func (g *forkGate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.wanted || g.held > 0 {
		g.free.Wait()
	}
	g.forks++
}

// leaveGate lets a sweep that waits go on. From any goroutine.
func (k *Kernel) leaveGate() {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	k.gate.forks--
	if k.gate.wanted && k.gate.forks == 0 {
		k.loop.Post(k.sweepAgain)
	}
}

// known tells that a child has an owner on the loop, or is gone. From any goroutine.
func (k *Kernel) known(pid int) {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	delete(k.gate.newborn, pid)
	if k.gate.blocked {
		k.gate.blocked = false
		k.loop.Post(k.sweepAgain)
	}
}

// Hush implements [System].
func (k *Kernel) Hush() {
	if k.sigchld != nil {
		k.sigchld.Mute()
	}
}

// Sweep implements [System].
func (k *Kernel) Sweep(dead func(pid int)) {
	k.sweep = dead
	if k.sigchld != nil {
		k.sigchld.Unmute() // before it looks
	}
	k.sweepAgain()
}

func (k *Kernel) sweepAgain() {
	g := &k.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forks > 0 {
		g.wanted = true
		return
	}
	g.wanted = false
	g.free.Broadcast()
	last := 0
	for range sweepShare {
		// Peeking returns the same first zombie again until its owner has reaped it.
		pid, ok, err := pidfd.Peek()
		if err != nil || !ok || pid == last {
			return
		}
		if g.newborn[pid] {
			g.blocked = true
			return
		}
		last = pid
		k.sweep(pid)
	}
	k.loop.Post(k.sweepAgain)
}

// sweepShare is how many zombies a sweep takes before others have their turn on the loop: a thousand programs killed at
// once are all zombies when it begins.
const sweepShare = 16

// ReapStranger implements [System].
func (k *Kernel) ReapStranger(pid int) (pidfd.Exit, error) {
	if k.census != nil {
		k.census.reaped.Add(1) // before: a walk that misses the zombie is to know
	}
	exit, _, err := pidfd.ReapStranger(pid)
	return exit, err
}

// RemoveFIFOs implements [System]. What can't be removed goes with the directory, or stays with it.
func (k *Kernel) RemoveFIFOs(paths []string) {
	k.unlinking.begin(&k.unlinks, func() {
		for _, path := range paths {
			_ = unix.Unlink(path)
		}
	})
}

// WaitsIn implements [System]. Source: man 5 proc_pid_stat, proc_pid_wchan.
func (k *Kernel) WaitsIn(pid int) string {
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
	return state
}
