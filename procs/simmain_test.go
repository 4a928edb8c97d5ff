package procs

import (
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/notify"
)

// A simService is what a program does, whichever of its processes does it: a child goes on with what its parent has begun.
type simService struct {
	began    time.Duration // when the loop heard of it
	wellAt   time.Duration // when it was ready; 0 before
	sick     bool
	sickAt   time.Duration
	busy     bool // it reads its configuration, has told superd, and answers no checks
	busyAt   time.Duration
	calmAt   time.Duration // when that was over last
	watchdog time.Duration // it is to be fed within; 0: none
	fedAt    time.Duration
}

// beget has a main process hand over to a child, of which it tells superd by MAINPID=, if it does. It may be mistaken in the number.
func (p *simProcess) beget() {
	k := p.k
	if !p.notifies || !k.chance(k.mix.begets) {
		return
	}
	p.alive.After(k.upTo(time.Duration(k.pick(0.001, 1, 60)*float64(time.Second))), func() {
		if p.dying {
			return
		}
		heir := p.bear()
		pid := heir.pid
		if k.chance(0.2) {
			pid = 2 + k.rng.IntN(10)
		}
		heir.grow()
		heir.ping()
		heir.beget()
		teller := p
		if k.chance(0.5) {
			teller = heir
		}
		teller.alive.After(k.upTo(time.Duration(k.pick(0, 1)*float64(time.Second))), func() {
			if teller.dying {
				return
			}
			k.note("%s (%d) tells that %d is its main process", p.instance, teller.pid, pid)
			p.tell(notify.Message{MainPID: pid})
			if k.chance(0.7) {
				p.alive.After(k.upTo(time.Second), func() { p.end(pidfd.Exit{Known: true}) })
			}
		})
	})
}

// bear returns a child that goes on with what the process does.
func (p *simProcess) bear() *simProcess {
	heir := p.k.born(p.instance, p.run, roleHeir)
	heir.simService, heir.parent, heir.foreign, heir.notifies, heir.follows = p.simService, p, true, true, true
	p.children = append(p.children, heir)
	heir.work(p.k.tables[p.run])
	return heir
}

// work has a process that was started by a schedule come to its end.
func (p *simProcess) work(table *config.Program) {
	if k := p.k; table != nil && table.Schedule != "" && k.mix.work > 0 {
		p.alive.After(k.upTo(k.mix.work), func() { p.end(pidfd.Exit{Known: true}) })
	}
}

// serves reports whether the process does what its program is there for: as the main one, or for that, not yet or not any more.
func (p *simProcess) serves() bool {
	main := p.k.mains[p.run]
	return p.role == roleMain || p.role == roleHeir && main != nil && main.simService == p.simService && !main.reaped
}

// announced is told that superd hears of another main process: it is to take it for that, if it is one of the program's.
func (k *simKernel) announced(run string, pid int) {
	main, p := k.mains[run], k.byPid[pid]
	if main != nil && p != nil && p.instance == main.instance {
		k.setMain(run, p)
	}
}

// setMain has p be the main process of the run. The one before is like any other of the tree.
func (k *simKernel) setMain(run string, p *simProcess) {
	before := k.mains[run]
	if before == p {
		return
	}
	if before != nil {
		before.become(roleEscaped)
		p.simService = before.simService
	}
	p.become(roleMain)
	k.mains[run], p.run, p.mainAt = p, run, k.v.Now() // it may be one that another run has left
}

// become changes the role of a process.
func (p *simProcess) become(role simRole) {
	if p.zombie {
		p.role = role
		return
	}
	p.k.count(p, -1)
	p.role = role
	p.k.count(p, 1)
}

// orphan has the children of a process that has ended be those of whoever was its parent.
func (p *simProcess) orphan() {
	for _, child := range p.children {
		if !child.zombie {
			child.parent, child.foreign = nil, p.foreign
		}
	}
}

// checkMain holds that superd has the main process which the program has told, and no other.
func (h *history) checkMain(in *instance) {
	if in.run == nil || in.run.process == nil {
		return
	}
	has := simProcessOf(in.run.process)
	if has == nil || has.role == roleMain && has.run == in.run.invocationID { // there is one such
		return
	}
	if want := h.kernel.mains[in.run.invocationID]; want != nil && has != want {
		h.fail("the main process of %s is %d of %s, superd has %d of %s", in.name, want.pid, want.instance, has.pid, has.instance)
	}
}

// running returns a history without faults in which the program was started a second ago.
func running(program *config.Program, keeper bool) (*history, *instance) {
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.kernel.keeper = faultMix{}, keeper
	h.file = &config.Config{Programs: []*config.Program{program}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(time.Second)
	return h, h.sup.byName[program.Name]
}

// TestMainWhileEnding: who becomes the main process while that is being ended is sent what the one before has got.
func TestMainWhileEnding(t *testing.T) {
	for _, state := range []State{Stopping, Killing} {
		t.Run(stateNames[state], func(t *testing.T) {
			web := programNamed("web", nil)
			web.Watchdog, web.KillMode, web.StopTimeout = time.Hour, config.KillProcess, time.Minute
			h, in := running(web, false)
			h.kernel.spared["web"] = true
			if in.machine.state != Running {
				t.Fatalf("web is %v", in.machine.state)
			}
			main := h.kernel.mains[in.run.invocationID]
			main.deaf, main.immortal = true, true
			if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]Outcome) {}); err != nil {
				t.Fatal(err)
			}
			if state == Killing {
				h.v.RunFor(web.StopTimeout + time.Second)
			}
			if in.machine.state != state {
				t.Fatalf("web is %s, want it %s", stateNames[in.machine.state], stateNames[state])
			}
			heir := main.bear()
			main.tell(notify.Message{MainPID: heir.pid})
			h.v.RunFor(10 * time.Second) // how it ended, nobody can tell
			want := syscall.SIGTERM
			if state == Killing {
				want = syscall.SIGKILL
			}
			if in.machine.state != Stopped || heir.exit.Signal != want || h.err != nil {
				t.Errorf("web is %s, its main process ended with %v, %v; want it stopped, by %v", stateNames[in.machine.state], heir.exit, h.err, want)
			}
		})
	}
}

// TestMainWithTheSameNumber: the main process, whose parent superd is not, has ended and was reaped; a child of it has its number, and is the main one now.
func TestMainWithTheSameNumber(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = time.Hour
	h, in := running(web, false)
	first := h.kernel.mains[in.run.invocationID]
	second := first.bear()
	first.tell(notify.Message{MainPID: second.pid})
	h.v.RunFor(time.Second)
	third := second.bear()
	second.tell(notify.Message{MainPID: third.pid})
	second.end(pidfd.Exit{Known: true})
	h.kernel.reapForeign(second)
	delete(h.kernel.byPid, third.pid)
	third.pid = second.pid
	h.kernel.byPid[third.pid] = third
	h.kernel.socketOf(first.run).messages = []notify.Message{{MainPID: third.pid}} // it is not heard before that
	h.v.RunFor(time.Minute)
	if in.machine.state != Running || simProcessOf(in.run.process) != third || h.err != nil {
		t.Errorf("web is %s, %v; want it running, with its third process", stateNames[in.machine.state], h.err)
	}
}

// TestWatchdogOfTheNextMain: who becomes the main process while it is found out how the one before has ended has to feed the watchdog, though that
// has starved meanwhile.
func TestWatchdogOfTheNextMain(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = 300 * time.Millisecond
	h, in := running(web, true) // the keeper could tell
	first := h.kernel.mains[in.run.invocationID]
	second := first.bear()
	first.tell(notify.Message{MainPID: second.pid})
	h.v.RunFor(20 * time.Millisecond)
	run := in.run
	third := second.bear()
	third.sick = true
	second.end(pidfd.Exit{Known: true})
	h.kernel.reapForeign(second)
	h.v.RunFor(web.Watchdog + 50*time.Millisecond)
	if in.run != run || !run.mainEnded() {
		t.Fatalf("web is %s, want it to find out how its main process has ended", stateNames[in.machine.state])
	}
	second.tell(notify.Message{MainPID: third.pid})
	h.v.RunFor(time.Minute)
	if in.run == run {
		t.Errorf("web is %s, with process %d: its watchdog has not bitten", stateNames[in.machine.state], in.run.process.Pid())
	}
}
