package procs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
)

// A Kernel is the [System] of production.
type Kernel struct {
	loop  *loop.Loop
	null  int           // /dev/null, the programs' standard input
	slots chan struct{} // held from just before the fork until the exec
	gate  forkGate
	sweep func(pid int) // the sweep that waits for the gate; nil without one
}

// forkSlots bounds the forks at a time. Go serialises the fork itself; a second slot prepares meanwhile.
const forkSlots = 2

// NewKernel returns the system superd runs on.
func NewKernel(l *loop.Loop) (*Kernel, error) {
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	k := &Kernel{loop: l, null: null, slots: make(chan struct{}, forkSlots)}
	k.gate.free.L = &k.gate.mu
	l.Root().Defer(func() { unix.Close(null) })
	return k, nil
}

// A pendingSpawn is the worker's side of a spawn.
type pendingSpawn struct {
	mu        sync.Mutex
	committed bool   // at the fork, or failed: done will run
	returned  func() // set when it was called off
	stage     atomic.Pointer[string]
}

// CallOff implements [PendingSpawn].
func (p *pendingSpawn) CallOff(returned func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.committed {
		return false
	}
	p.returned = returned
	return true
}

// Stage implements [PendingSpawn].
func (p *pendingSpawn) Stage() string { return *p.stage.Load() }

func (p *pendingSpawn) enter(stage, path string) {
	text := strings.TrimSuffix(stage+" "+path, " ")
	p.stage.Store(&text)
}

// commit reports whether the spawn goes on; from then on it can't be called off.
func (p *pendingSpawn) commit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = p.returned == nil
	return p.committed
}

// Spawn implements [System]. Everything that can hang goes on before the fork: Go forks with vfork, and while a
// vforked child waits in its exec a garbage collection would stop all of superd.
func (k *Kernel) Spawn(spec *SpawnSpec, done func(Child, error)) PendingSpawn {
	p := &pendingSpawn{}
	p.enter("queue start", "")
	go k.work(spec, p, done)
	return p
}

func (k *Kernel) work(spec *SpawnSpec, p *pendingSpawn, done func(Child, error)) {
	made := -1
	prepared, err := prepare(spec, p, &made)
	if prepared != nil {
		defer prepared.close()
	}
	if err == nil {
		p.enter("queue fork", "")
		k.slots <- struct{}{}
		k.gate.enter()
	}
	forking := err == nil
	if !p.commit() {
		if forking {
			<-k.slots
		}
		k.loop.Post(func() {
			if forking {
				k.leaveGate()
			}
			if made >= 0 {
				unix.Close(made)
			}
			p.returned()
		})
		return
	}
	var process *pidfd.Process
	var ticks uint64
	if forking {
		p.enter("execute", prepared.path)
		process, ticks, err = k.fork(prepared)
		<-k.slots
	}
	k.loop.Post(func() {
		if err != nil {
			done(Child{ReadFD: made}, err)
		} else {
			done(Child{Process: process, StartTicks: ticks, ReadFD: made}, nil)
		}
		if forking {
			k.leaveGate()
		}
	})
}

func (k *Kernel) fork(p *prepared) (*pidfd.Process, uint64, error) {
	child, err := pidfd.Spawn(&pidfd.Attr{
		Path:     p.path,
		Args:     p.argv,
		Env:      p.env,
		Dir:      p.dir,
		Files:    []int{k.null, p.output, p.output},
		CgroupFD: -1,
	})
	if err != nil {
		return nil, 0, explainExec(p, err)
	}
	id, err := child.Identity()
	if err != nil {
		// It may have ended already; its pidfd is all that superd needs to go on.
		return child, 0, nil
	}
	return child, id.Start, nil
}

// A forkGate keeps the sweep away from children whose owner has not heard of them yet: from before the fork until
// the loop has taken the result.
type forkGate struct {
	mu     sync.Mutex
	free   sync.Cond
	forks  int
	wanted bool // a sweep waits: no further fork begins
}

func (g *forkGate) enter() {
	g.mu.Lock()
	for g.wanted {
		g.free.Wait()
	}
	g.forks++
	g.mu.Unlock()
}

// leaveGate runs on the loop when the result of a fork has been taken.
func (k *Kernel) leaveGate() {
	k.gate.mu.Lock()
	k.gate.forks--
	k.gate.mu.Unlock()
	if k.sweep != nil {
		k.Sweep(k.sweep)
	}
}

// Sweep implements [System].
func (k *Kernel) Sweep(dead func(pid int)) {
	g := &k.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forks > 0 {
		k.sweep, g.wanted = dead, true
		return
	}
	last := 0
	for {
		// Peeking returns the same first zombie again until its owner has reaped it.
		pid, ok, err := pidfd.Peek()
		if err != nil || !ok || pid == last {
			break
		}
		last = pid
		dead(pid)
	}
	k.sweep, g.wanted = nil, false
	g.free.Broadcast()
}

// ReapStranger implements [System].
func (k *Kernel) ReapStranger(pid int) (pidfd.Exit, error) {
	exit, _, err := pidfd.ReapStranger(pid)
	return exit, err
}

// RemoveFIFO implements [System].
func (k *Kernel) RemoveFIFO(path string) { go os.Remove(path) }

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
