package procs

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
)

// A simKernel is the System of the simulation: processes that live, bring forth others, ignore signals, hang and die as a
// seed draws it, with pids and descriptors that are used again as soon as they can be.
type simKernel struct {
	v      *loop.Virtual
	rng    *rand.Rand
	mix    faultMix
	queued bool   // those starts that hang wait for their turn
	notify func() // SIGCHLD
	starts func(*SpawnSpec)
	note   func(format string, args ...any)
	fail   func(format string, args ...any)

	session                                    *loop.Scope    // of the present superd: with it goes what it has under way
	keeper                                     bool           // it reaps those whom an earlier superd has started, and tells
	tell                                       func(KeptExit) // the present superd
	exits                                      []KeptExit     // that the keeper has, and nobody has acknowledged
	unsought, unidentified, unwritten, invents bool           // planted

	byPid   map[int]*simProcess // alive or zombie
	byStart map[uint64]*simProcess
	zombies []*simProcess // in the order of their ends
	counts  map[string]*living
	spawned int
	reaped  int
	forks   int // between commit and the moment the loop took the result
	sweep   func(pid int)
	spared  map[string]bool // instances whose escaped processes kill_mode has spared at least once
	ungated bool            // planted: the sweep doesn't wait for forks

	sockets   map[string]*simSocket      // by run
	told      map[int]*simSocket         // by descriptor
	unheld    bool                       // planted: messages are taken out before what follows from them is saved
	bornMains map[string]int             // by instance
	mains     map[string]*simProcess     // by run: what superd has got as the main process
	shortages map[string]bool            // runs whose start has failed for lack of something
	tables    map[string]*config.Program // by run: what it was started by
	hookEnds  int
	endedAt   map[int]time.Duration // by pid, of the last that had it
	asked     func(instance string) // what a process waits in
}

// A faultMix says how often what goes wrong, as probabilities. The zero value is a world without faults, in which
// processes run until they are told to end.
type faultMix struct {
	crash      float64 // a process ends by itself
	deaf       float64 // it ignores the stop signal
	slowStop   float64 // it takes its time to end, at times longer than the stop time-out
	immortal   float64 // SIGKILL takes minutes, as in a kernel that waits for a disk
	spawnFails float64
	shortage   float64 // of failed spawns: the machine is short of something
	spawnHangs float64
	execHangs  float64 // the fork is done, and its result takes minutes
	lateResult time.Duration
	watchFails float64 // a process can't be watched
	slowSpawn  time.Duration
	life       time.Duration // mean life of a process that crashes
	orphans    float64       // an end leaves a zombie that nobody knows
	breeds     float64       // a process brings forth another one, which leaves its group
	hookFails  float64
	hookHangs  float64
	hookTime   time.Duration
	work       time.Duration // how long a run of a schedule takes at most; 0: for ever
	forkTime   time.Duration // between what a worker does about a fork
	slowInit   float64       // who is not superd's child is reaped late
	exitInfo   float64       // the kernel tells then how he ended
	neverReady float64
	slowReady  time.Duration
	sick       float64 // it answers no checks any more, and does not feed its watchdog
	reloads    float64
	checkHangs float64
	census     float64 // a tree takes a while to be looked at, as without cgroups
}

// A simProcess is one process.
type simProcess struct {
	k        *simKernel
	instance string
	run      string // invocation id
	role     simRole
	pid      int
	start    uint64
	began    time.Duration // when the loop heard of it
	zombie   bool
	reaped   bool
	exit     pidfd.Exit
	dying    bool
	dyingAt  time.Duration
	deaf     bool
	immortal bool
	foreign  bool          // superd is not its parent any more
	exitInfo bool          // the kernel tells how it ended
	wellAt   time.Duration // when it was ready; 0 before
	sick     bool
	sickAt   time.Duration
	watchdog time.Duration // it is to be fed within; 0: none
	fedAt    time.Duration
	alive    *loop.Scope
	handles  []*simHandle
}

type simRole uint8

const (
	roleMain simRole = iota
	roleHook
	roleAfterHook
	roleEscaped // a descendant that has left its group
	roleOrphan  // nobody's
	roleProbe   // of an exec check
)

// child reports whether superd has started it.
func (r simRole) child() bool { return r <= roleAfterHook || r == roleProbe }

// A simHandle is a pidfd, the Process that superd sees.
type simHandle struct {
	p      *simProcess
	fd     int
	closed bool
}

func (k *simKernel) chance(p float64) bool { return p > 0 && k.rng.Float64() < p }

func (k *simKernel) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(k.rng.Int64N(int64(d)))
}

// simSpawn is a spawn under way.
type simSpawn struct {
	k           *simKernel
	committed   bool
	committedAt time.Duration
	hangs       bool
	timer       *loop.Timer
}

func (s *simSpawn) Stage() string { return "open executable /sim" }

func (s *simSpawn) Queued() bool { return s.hangs && s.k.queued }

func (s *simSpawn) CallOff(returned func()) bool {
	switch {
	case s.committed:
		return false
	case s.hangs && !s.k.queued:
		s.k.session.After(s.k.upTo(time.Hour), returned)
	default:
		s.timer.Stop()
		s.k.session.Post(returned)
	}
	return true
}

// Spawn implements [System].
func (k *simKernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	k.starts(spec)
	s := &simSpawn{k: k, hangs: k.chance(k.mix.spawnHangs)}
	if s.hangs {
		k.note("spawn of %s hangs", spec.Name)
		return s
	}
	var fault *SpawnError
	run := spec.Own["SUPERD_INVOCATION_ID"]
	switch {
	case !k.chance(k.mix.spawnFails):
	case k.chance(k.mix.shortage):
		fault = &SpawnError{Stage: "execute", Err: syscall.EAGAIN, Fault: faultResource}
	default:
		fault = &SpawnError{Stage: "open executable", Err: syscall.ENOENT, Fault: faultProgram}
	}
	role := roleMain
	switch spec.Program.Command[0] {
	default:
		k.tables[run] = spec.Program
	case simHook:
		role = roleHook
	case simAfterHook:
		role = roleAfterHook
	case simProbe:
		role = roleProbe
	}
	s.timer = k.session.After(k.upTo(k.mix.slowSpawn), func() {
		s.committed, s.committedAt = true, k.v.Now()
		if err := k.expect(spec); err != nil && fault == nil {
			fault = &SpawnError{Stage: "write down the start", Err: err, Fault: faultResource}
		}
		if fault != nil {
			k.note("spawn of %s fails: %v", spec.Name, fault)
			k.session.Post(func() {
				if role != roleAfterHook && role != roleProbe && fault.Fault == faultResource {
					k.shortages[run] = true
				}
				done(Child{NotifyFD: -1, ReadyFD: -1}, fault)
			})
			return
		}
		k.forks++
		k.session.After(k.upTo(k.mix.forkTime), func() { k.fork(spec, run, role, done) })
	})
	return s
}

// fork is what a worker does when a start can't be called off any more.
func (k *simKernel) fork(spec *SpawnSpec, run string, role simRole, done func(Child, error)) {
	p := k.born(spec.Tree.(*simTree).instance, run, role)
	if role == roleMain {
		p.watchdog = spec.Program.Watchdog
		if k.bornMains[spec.Name]++; spec.Program.Schedule != "" && k.mix.work > 0 {
			p.alive.After(k.upTo(k.mix.work), func() { p.end(pidfd.Exit{Known: true}) })
		}
		p.grow()
	}
	k.session.After(k.upTo(k.mix.forkTime), func() {
		if !k.unwritten && spec.Happened != nil {
			spec.Happened(p.id(), k.v.Now())
		}
		late := time.Millisecond
		switch {
		case k.chance(k.mix.execHangs):
			late = 10 * time.Minute
		case k.chance(0.1):
			late = max(k.mix.lateResult, 200*time.Millisecond)
		}
		k.session.After(k.upTo(late), func() {
			p.began = k.v.Now()
			if role == roleMain {
				k.mains[run] = p
			}
			notifyFD, readyFD := k.openTold(run, spec.NotifySocket != "", spec.ReadyFD != 0)
			done(Child{Process: p.open(), ID: p.id(), NotifyFD: notifyFD, ReadyFD: readyFD}, nil)
			k.forks--
			if k.forks == 0 && k.sweep != nil {
				k.Sweep(k.sweep)
			}
		})
	})
}

func (k *simKernel) expect(spec *SpawnSpec) error {
	if k.unwritten || spec.Expect == nil {
		return nil
	}
	return spec.Expect(uint64(k.spawned))
}

// The commands of the hooks before and after a run.
const (
	simHook      = "/hook"
	simAfterHook = "/after"
	simProbe     = "/probe"
)

// born makes a process with the lowest free pid: the shortest way to a pid that is used again.
func (k *simKernel) born(instance, run string, role simRole) *simProcess {
	pid := 2
	for k.byPid[pid] != nil {
		pid++
	}
	if role.child() && role != roleProbe {
		for _, other := range k.byPid {
			twice := role == roleMain && other.role == roleMain
			if !other.zombie && other.role == roleMain && role == roleMain && programOf(other.instance) == programOf(instance) && numbered(other.instance) != numbered(instance) {
				k.fail("%s is started as %d while %d of %s lives", instance, pid, other.pid, other.instance)
			}
			if other.instance == instance && !other.zombie && (twice || other.run != run && !k.spares(instance)) {
				k.fail("%s is started as %d while %d of it lives", instance, pid, other.pid)
			}
		}
	}
	k.spawned++
	p := &simProcess{
		k: k, instance: instance, run: run, role: role, pid: pid, start: uint64(k.spawned),
		deaf: k.chance(k.mix.deaf), immortal: k.chance(k.mix.immortal),
		alive: k.v.Root().Child(), exitInfo: k.chance(k.mix.exitInfo),
	}
	k.byPid[pid], k.byStart[p.start] = p, p
	k.count(p, 1)
	k.note("%s is born as %d (role %d, deaf %v, immortal %v)", instance, pid, role, p.deaf, p.immortal)
	switch role {
	case roleProbe:
		if !k.chance(k.mix.checkHangs) {
			exit := pidfd.Exit{Known: true}
			if k.answer(strings.TrimSuffix(instance, probeSuffix)) != nil {
				exit.Code = 1
			}
			p.alive.After(k.upTo(50*time.Millisecond), func() { p.end(exit) })
		}
	case roleHook, roleAfterHook:
		if !k.chance(k.mix.hookHangs) {
			exit := pidfd.Exit{Known: true}
			if k.chance(k.mix.hookFails) {
				exit.Code = 1
			}
			p.alive.After(k.upTo(max(k.mix.hookTime, 50*time.Millisecond)), func() { p.end(exit) })
		}
	case roleMain:
		if k.chance(k.mix.crash) {
			exit := pidfd.Exit{Known: true, Code: k.rng.IntN(3)}
			if k.chance(0.3) {
				exit = pidfd.Exit{Known: true, Signal: syscall.SIGSEGV}
			}
			p.alive.After(time.Duration(k.rng.ExpFloat64()*float64(k.mix.life)), func() { p.end(exit) })
		}
	}
	if role != roleOrphan && k.chance(k.mix.breeds) {
		p.alive.After(k.upTo(100*time.Millisecond), func() { k.born(instance, run, roleEscaped).foreign = p.foreign })
	}
	return p
}

// end makes p a zombie. An escaped one has lost its parent and is superd's child by then.
func (p *simProcess) end(exit pidfd.Exit) {
	k := p.k
	if p.zombie {
		return
	}
	k.note("%s (%d) ends: %v", p.instance, p.pid, exit)
	p.zombie, p.exit, k.endedAt[p.pid] = true, exit, k.v.Now()
	k.count(p, -1)
	p.alive.Close()
	if p.foreign {
		late := 10 * time.Millisecond
		if k.chance(k.mix.slowInit) {
			late = 3 * time.Second
		}
		k.v.Root().After(k.upTo(late), func() { k.reapForeign(p) })
	} else {
		k.zombies = append(k.zombies, p)
	}
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable)
		}
	}
	if p.role == roleHook || p.role == roleAfterHook {
		k.hookEnds++
	}
	if p.foreign {
		return
	}
	if p.role != roleOrphan && k.chance(k.mix.orphans) {
		k.born("", "", roleOrphan).end(pidfd.Exit{Known: true})
	}
	k.v.Root().After(k.upTo(10*time.Millisecond), k.notify)
}

func (p *simProcess) open() *simHandle {
	h := &simHandle{p: p, fd: p.k.v.NewFD()}
	p.handles = append(p.handles, h)
	if p.k.chance(p.k.mix.watchFails) {
		p.k.v.RefuseWatch(h.fd)
	}
	if p.zombie {
		p.k.v.SetReady(h.fd, loop.Readable)
	}
	return h
}

func (h *simHandle) Pid() int { return h.p.pid }
func (h *simHandle) FD() int  { return h.fd }

// Signal implements [Process].
func (h *simHandle) Signal(sig syscall.Signal) error {
	p, k := h.p, h.p.k
	switch {
	case h.closed:
		k.fail("%v for %s goes through pidfd %d, which is closed", sig, p.instance, h.fd)
	case p.reaped:
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	case p.zombie || p.dying:
	case sig == syscall.SIGKILL && p.immortal:
		p.dying, p.dyingAt = true, k.v.Now()
		p.alive.After(time.Minute+k.upTo(10*time.Minute), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGKILL:
		p.dying, p.dyingAt = true, k.v.Now()
		p.alive.After(k.upTo(5*time.Millisecond), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGTERM && !p.deaf:
		delay := time.Duration(0)
		if k.chance(k.mix.slowStop) {
			delay = k.upTo(12 * time.Second)
		}
		p.alive.After(delay, func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	}
	return nil
}

// SignalGroup implements [Process]: everyone is alone in his group.
func (h *simHandle) SignalGroup(sig syscall.Signal) error { return h.Signal(sig) }

// Wait implements [Process].
func (h *simHandle) Wait() (pidfd.Exit, bool, error) {
	switch p := h.p; {
	case h.closed:
		p.k.fail("wait for %s goes through pidfd %d, which is closed", p.instance, h.fd)
	case p.foreign:
		return pidfd.Exit{}, false, pidfd.ErrNotChild
	case !p.zombie:
		return pidfd.Exit{}, false, nil
	case !p.reaped:
		p.k.reap(p)
	}
	return h.p.exit, true, nil
}

// ExitInfo implements [Process].
func (h *simHandle) ExitInfo() (pidfd.Exit, bool, error) {
	switch p := h.p; {
	case !p.reaped:
		return pidfd.Exit{}, false, nil
	case p.k.invents:
		return pidfd.Exit{Known: true}, true, nil
	case !p.exitInfo:
		return pidfd.Exit{}, false, pidfd.ErrUnsupported
	}
	return h.p.exit, true, nil
}

// Close implements [Process].
func (h *simHandle) Close() error {
	if h.closed {
		h.p.k.fail("pidfd %d of %s is closed twice", h.fd, h.p.instance)
		return nil
	}
	h.closed = true
	h.p.k.v.CloseFD(h.fd)
	return nil
}

func (k *simKernel) reap(p *simProcess) {
	if p.reaped {
		k.fail("%d (%s) is reaped twice", p.pid, p.instance)
		return
	}
	p.reaped = true
	k.reaped++
	delete(k.byPid, p.pid)
	k.zombies = slices.DeleteFunc(k.zombies, func(z *simProcess) bool { return z == p })
}

// Sweep implements [System].
func (k *simKernel) Sweep(dead func(pid int)) {
	if k.forks > 0 && !k.ungated {
		k.sweep = dead
		return
	}
	k.sweep = nil
	last := 0
	for len(k.zombies) > 0 && k.zombies[0].pid != last {
		last = k.zombies[0].pid
		dead(last)
	}
}

// ReapStranger implements [System].
func (k *simKernel) ReapStranger(pid int) (pidfd.Exit, error) {
	p := k.byPid[pid]
	if p == nil {
		k.fail("stranger %d is reaped, which is not there", pid)
		return pidfd.Exit{}, syscall.ECHILD
	}
	if p.role.child() {
		k.fail("%d of %s is reaped as a stranger", pid, p.instance)
	}
	k.reap(p)
	return p.exit, nil
}

// WaitsIn implements [System].
func (k *simKernel) WaitsIn(pid int) string {
	p := k.byPid[pid]
	// Of one that can't be watched, superd learns a while later.
	// Of one that is not its child, only when that is reaped.
	if ago := k.v.Now() - k.endedAt[pid]; (p == nil || p.zombie && !p.foreign) && ago > unwatchedPause+100*time.Millisecond {
		k.fail("superd asks what %d waits in, which has ended %v ago", pid, ago)
	}
	if p != nil && k.asked != nil {
		k.asked(p.instance)
	}
	return "D (disk sleep)"
}

// living is how many processes of an instance live.
type living struct{ main, others int }

// count notes that one more lives, or one less.
func (k *simKernel) count(p *simProcess, by int) {
	c := k.counts[p.instance]
	if c == nil {
		c = &living{}
		k.counts[p.instance] = c
	}
	if p.role == roleMain {
		c.main += by
	} else {
		c.others += by
	}
}

// living counts the living processes of an instance.
func (k *simKernel) living(instance string) (main, others int) {
	if c := k.counts[instance]; c != nil {
		return c.main, c.others
	}
	return 0, 0
}

// A simTree is the tree of an instance.
type simTree struct {
	k        *simKernel
	instance string
	census   bool
}

// NewTree implements [System].
func (k *simKernel) NewTree(instance, _ string) Tree {
	return &simTree{k, instance, k.chance(k.mix.census)}
}

// Empty implements [Tree].
func (t *simTree) Empty() bool {
	main, others := t.k.living(t.instance)
	return !t.census && main+others == 0
}

// Look implements [Tree].
func (t *simTree) Look(found func([]Member)) {
	look := func() {
		var members []Member
		for _, pid := range sortedKeys(t.k.byPid) {
			if p := t.k.byPid[pid]; p.instance == t.instance && !p.zombie {
				members = append(members, Member{Process: p.open(), Start: p.start, Group: p.pid, Command: "sim"})
			}
		}
		found(members)
	}
	if t.census {
		t.k.session.After(t.k.upTo(10*time.Millisecond), look)
		return
	}
	look()
}

// Kill implements [Tree].
func (t *simTree) Kill() error {
	if t.census {
		return nil
	}
	for _, pid := range sortedKeys(t.k.byPid) {
		if p := t.k.byPid[pid]; p.instance == t.instance && !p.zombie {
			h := p.open()
			h.Signal(syscall.SIGKILL)
			h.Close()
		}
	}
	return nil
}

// Remove implements [Tree].
func (t *simTree) Remove() {
	if main, others := t.k.living(t.instance); main+others > 0 && !t.k.spares(t.instance) {
		t.k.fail("the tree of %s is removed while %d processes live in it", t.instance, main+others)
	}
}

// spares reports whether kill_mode has spared processes of the instance's program.
func (k *simKernel) spares(instance string) bool { return k.spared[programOf(instance)] }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Place implements [Tree].
func (t *simTree) Place() string { return "sim" }

// OOMKills implements [Tree].
func (t *simTree) OOMKills() int { return 0 }

func (p *simProcess) id() pidfd.Identity {
	return pidfd.Identity{Pid: p.pid, Start: p.start, Inode: p.start}
}

// Adopt implements [System].
func (k *simKernel) Adopt(all []*Adoptee) {
	for _, a := range all {
		if p := k.byStart[a.Process.Start]; p != nil && p.role == roleMain && k.mains[p.run] == nil {
			k.mains[p.run], p.began = p, k.v.Now()
		}
		if p := k.byStart[a.Process.Start]; p != nil && (a.NotifySocket != "" || a.ReadyNumber != 0) {
			s := k.socketOf(p.run)
			if !k.keeper {
				s.messages, s.lost = nil, true
			}
			a.NotifyFD, a.ReadyFD = k.openTold(p.run, a.NotifySocket != "", a.ReadyNumber != 0)
		}
		p := k.byPid[a.Process.Pid]
		if p != nil && (p.start == a.Process.Start || k.unidentified) {
			a.Found = p.open()
		}
	}
}

// Search implements [System].
func (k *simKernel) Search(sought []*Sought, _ map[string]bool) ([]Stray, error) {
	for _, w := range sought {
		for _, pid := range sortedKeys(k.byPid) {
			p := k.byPid[pid]
			if p.run == w.Run && p.role.child() && p.start > w.After && !p.zombie && !k.unsought {
				w.Found = p.id()
			}
		}
	}
	return nil, nil
}

// abandon is the end of superd: those whom it has started get another parent.
func (k *simKernel) abandon() {
	k.session.Close()
	k.session = k.v.Root().Child()
	k.forks, k.sweep = 0, nil
	for _, pid := range sortedKeys(k.byPid) {
		p := k.byPid[pid]
		p.foreign = true
		if p.zombie {
			k.reapForeign(p)
		}
	}
	for _, p := range k.mains {
		p.foreign = true // or its exit was known to a superd that is no more
	}
	k.zombies = nil
}

// reapForeign is the reaping of a process that is not superd's child.
func (k *simKernel) reapForeign(p *simProcess) {
	if p.reaped {
		return
	}
	k.reap(p)
	k.endedAt[p.pid] = k.v.Now()
	for _, h := range p.handles {
		if !h.closed {
			k.v.SetReady(h.fd, loop.Readable|loop.Hangup)
		}
	}
	if k.keeper && p.role.child() {
		e := KeptExit{p.pid, p.start, p.exit}
		k.exits = append(k.exits, e)
		k.session.After(k.upTo(20*time.Millisecond), func() { k.tell(e) })
	}
}

// Store implements [Keeper].
func (k *simKernel) Store(string, int) {}

// Discard implements [Keeper].
func (k *simKernel) Discard(string) {}

// Acknowledge implements [Keeper].
func (k *simKernel) Acknowledge(pid int, start uint64) {
	k.exits = slices.DeleteFunc(k.exits, func(e KeptExit) bool { return e.Pid == pid && e.Start == start })
}

// Has implements [Tree].
func (t *simTree) Has(pid int) bool {
	p := t.k.byPid[pid]
	return p != nil && p.instance == t.instance
}
