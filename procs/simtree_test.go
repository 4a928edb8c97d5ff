package procs

import (
	"syscall"
	"time"

	"superd/config"
	"superd/procs/host"
)

// A simTree is the tree of an instance.
type simTree struct {
	k           *simKernel
	instance    string
	processScan bool
}

// NewTree implements [host.Host].
func (k *simKernel) NewTree(instance, _ string) host.Tree {
	return &simTree{k, instance, k.chance(k.mix.processScan)}
}

// Empty implements [host.Tree].
func (t *simTree) Empty() bool {
	main, others := t.k.countLiving(t.instance)
	return !t.processScan && main+others == 0
}

// Look implements [host.Tree].
func (t *simTree) Look(found func([]host.Member)) {
	look := func() {
		var members []host.Member
		for _, pid := range sortedKeys(t.k.byPid) {
			if p := t.k.byPid[pid]; p.instance == t.instance && !p.zombie {
				members = append(members, host.Member{Process: p.open(), Start: p.start, Group: p.pid, Command: "sim"})
			}
		}
		found(members)
	}
	if t.processScan {
		t.k.session.After(t.k.upTo(10*time.Millisecond), look)
		return
	}
	look()
}

// Kill implements [host.Tree].
func (t *simTree) Kill() error {
	if t.processScan {
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

// Remove implements [host.Tree].
func (t *simTree) Remove() {
	if main, others := t.k.countLiving(t.instance); main+others > 0 && !t.k.spares(t.instance) {
		t.k.fail("the tree of %s is removed while %d processes live in it", t.instance, main+others)
	}
}

// spares reports whether kill_mode may have spared processes of the instance's program.
func (k *simKernel) spares(instance string) bool { return k.spared[config.ProgramOf(instance)] }

// Path implements [host.Tree].
func (t *simTree) Path() string { return "sim" }

// OOMKills implements [host.Tree].
func (t *simTree) OOMKills() int { return 0 }

// Has implements [host.Tree].
func (t *simTree) Has(pid int) bool {
	p := t.k.byPid[pid]
	return p != nil && p.instance == t.instance
}

// Lack implements [host.Tree].
func (t *simTree) Lack() string { return "" }
