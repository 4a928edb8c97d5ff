package procs

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"superd/loop"
	"superd/pidfd"
)

// A simKernel is the System of the simulation: processes that live, ignore signals, hang and die as a seed draws it, with
// pids and descriptors that are reused as soon as they can be.
type simKernel struct {
	v      *loop.Virtual
	rng    *rand.Rand
	mix    faultMix
	notify func() // SIGCHLD
	note   func(format string, args ...any)
	fail   func(format string, args ...any)

	byPid   map[int]*simProcess // alive or zombie
	zombies []*simProcess       // in the order of their ends
	spawned int
	reaped  int
	forks   int // between commit and the moment the loop took the result
	hung    int // workers that hang
	sweep   func(pid int)
}

// A faultMix says how often what goes wrong, as probabilities. The zero value is a world without faults, in which
// processes run until they are told to end.
type faultMix struct {
	crash      float64 // a process ends by itself
	deaf       float64 // it ignores the stop signal
	immortal   float64 // SIGKILL takes minutes, as in a kernel that waits for a disk
	spawnFails float64
	shortage   float64 // of failed spawns: the machine is short of something
	spawnHangs float64
	slowSpawn  time.Duration
	life       time.Duration // mean life of a process that crashes
	orphans    float64       // an exit leaves a zombie that nobody knows
}

type simProcess struct {
	k        *simKernel
	instance string
	pid, fd  int
	zombie   bool
	reaped   bool
	closed   bool
	exit     pidfd.Exit
	dying    bool
	deaf     bool
	immortal bool
	orphan   bool
	alive    *loop.Scope
}

type simSpawn struct {
	k         *simKernel
	committed bool
	hangs     bool
	timer     *loop.Timer
	returned  func()
}

func (s *simSpawn) Stage() string { return "open executable /sim" }

func (s *simSpawn) CallOff(returned func()) bool {
	if s.committed {
		return false
	}
	s.returned = returned
	if !s.hangs {
		s.timer.Stop()
		s.k.v.Post(returned)
		return true
	}
	s.k.hung++
	s.k.v.Root().After(s.k.upTo(time.Hour), func() {
		s.k.hung--
		returned()
	})
	return true
}

func (k *simKernel) chance(p float64) bool { return p > 0 && k.rng.Float64() < p }

func (k *simKernel) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(k.rng.Int64N(int64(d)))
}

// Spawn implements [System].
func (k *simKernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	s := &simSpawn{k: k, hangs: k.chance(k.mix.spawnHangs)}
	if s.hangs {
		k.note("spawn of %s hangs", spec.Name)
		return s
	}
	var fault *SpawnError
	switch {
	case !k.chance(k.mix.spawnFails):
	case k.chance(k.mix.shortage):
		fault = &SpawnError{Stage: "execute", Err: syscall.EAGAIN, Fault: faultResource}
	default:
		fault = &SpawnError{Stage: "open executable", Err: syscall.ENOENT, Fault: faultProgram}
	}
	s.timer = k.v.Root().After(k.upTo(k.mix.slowSpawn), func() {
		s.committed = true
		if fault != nil {
			k.note("spawn of %s fails: %v", spec.Name, fault)
			k.v.Post(func() { done(Child{ReadFD: -1}, fault) })
			return
		}
		k.forks++
		p := k.born(spec.Name)
		k.v.Root().After(k.upTo(time.Millisecond), func() {
			done(Child{Process: p, ReadFD: -1}, nil)
			k.forks--
			if k.forks == 0 && k.sweep != nil {
				k.Sweep(k.sweep)
			}
		})
	})
	return s
}

// born makes a process with the lowest free pid: the shortest way to a pid that is used again.
func (k *simKernel) born(instance string) *simProcess {
	pid := 2
	for k.byPid[pid] != nil {
		pid++
	}
	for _, other := range k.byPid {
		if other.instance == instance && instance != "" && !other.zombie {
			k.fail("%s runs twice: pids %d and %d", instance, other.pid, pid)
		}
	}
	p := &simProcess{
		k: k, instance: instance, pid: pid, fd: k.v.NewFD(),
		deaf: k.chance(k.mix.deaf), immortal: k.chance(k.mix.immortal),
		alive: k.v.Root().Child(),
	}
	k.byPid[pid] = p
	k.spawned++
	k.note("%s is born as %d (deaf %v, immortal %v)", instance, pid, p.deaf, p.immortal)
	if k.chance(k.mix.crash) {
		life := time.Duration(k.rng.ExpFloat64() * float64(k.mix.life))
		exit := pidfd.Exit{Known: true, Code: k.rng.IntN(3)}
		if k.chance(0.3) {
			exit = pidfd.Exit{Known: true, Signal: syscall.SIGSEGV}
		}
		p.alive.After(life, func() { p.end(exit) })
	}
	return p
}

// end makes p a zombie.
func (p *simProcess) end(exit pidfd.Exit) {
	k := p.k
	k.note("%s (%d) ends: %v", p.instance, p.pid, exit)
	p.zombie, p.exit = true, exit
	k.zombies = append(k.zombies, p)
	p.alive.Close()
	if !p.closed {
		k.v.SetReady(p.fd, loop.Readable)
	}
	if k.chance(k.mix.orphans) {
		o := k.born("")
		o.orphan = true
		o.end(pidfd.Exit{Known: true})
	}
	k.v.Root().After(k.upTo(10*time.Millisecond), k.notify)
}

func (p *simProcess) Pid() int { return p.pid }
func (p *simProcess) FD() int  { return p.fd }

// Signal implements [Process].
func (p *simProcess) Signal(sig syscall.Signal) error { return p.SignalGroup(sig) }

// SignalGroup implements [Process].
func (p *simProcess) SignalGroup(sig syscall.Signal) error {
	k := p.k
	switch {
	case p.closed:
		k.fail("%v for %s goes through pidfd %d, which is closed", sig, p.instance, p.fd)
	case p.reaped:
		return fmt.Errorf("signal: %w", pidfd.ErrGone)
	case p.zombie || p.dying:
	case sig == syscall.SIGKILL && p.immortal:
		p.dying = true
		p.alive.After(time.Minute+k.upTo(10*time.Minute), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGKILL:
		p.dying = true
		p.alive.After(k.upTo(5*time.Millisecond), func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	case sig == syscall.SIGTERM && !p.deaf:
		delay := time.Duration(0)
		if k.chance(0.5) {
			delay = k.upTo(12 * time.Second) // some of it longer than the stop time-out
		}
		p.alive.After(delay, func() { p.end(pidfd.Exit{Known: true, Signal: sig}) })
	}
	return nil
}

// Wait implements [Process].
func (p *simProcess) Wait() (pidfd.Exit, bool, error) {
	switch {
	case p.closed:
		p.k.fail("wait for %s goes through pidfd %d, which is closed", p.instance, p.fd)
	case !p.zombie:
		return pidfd.Exit{}, false, nil
	case !p.reaped:
		p.k.reap(p)
	}
	return p.exit, true, nil
}

func (k *simKernel) reap(p *simProcess) {
	if p.reaped {
		k.fail("%d (%s) is reaped twice", p.pid, p.instance)
		return
	}
	p.reaped = true
	k.reaped++
	delete(k.byPid, p.pid)
	for i, z := range k.zombies {
		if z == p {
			k.zombies = append(k.zombies[:i], k.zombies[i+1:]...)
			break
		}
	}
}

// Close implements [Process].
func (p *simProcess) Close() error {
	if p.closed {
		p.k.fail("pidfd %d of %s is closed twice", p.fd, p.instance)
	}
	p.closed = true
	p.k.v.CloseFD(p.fd)
	return nil
}

// Sweep implements [System].
func (k *simKernel) Sweep(dead func(pid int)) {
	if k.forks > 0 {
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
	switch {
	case p == nil:
		k.fail("stranger %d reaped, which is not there", pid)
		return pidfd.Exit{}, syscall.ECHILD
	case !p.orphan:
		k.fail("%d of %s reaped as a stranger", pid, p.instance)
	}
	k.reap(p)
	k.v.CloseFD(p.fd)
	p.closed = true
	return p.exit, nil
}

// RemoveFIFO implements [System].
func (k *simKernel) RemoveFIFO(string) {}

// WaitsIn implements [System].
func (k *simKernel) WaitsIn(int) string { return "D (disk sleep)" }

// living returns the living main processes of an instance.
func (k *simKernel) living(instance string) int {
	n := 0
	for _, p := range k.byPid {
		if p.instance == instance && !p.zombie {
			n++
		}
	}
	return n
}
