package hosttest

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/procs/host"
)

// A Tree is the tree of an instance.
type Tree struct {
	k           *Kernel
	instance    string
	processScan bool
}

// NewTree implements [host.Host].
func (k *Kernel) NewTree(instance, _ string) host.Tree {
	return &Tree{k, instance, k.chance(k.Mix.ProcessScan)}
}

// Empty implements [host.Tree].
func (t *Tree) Empty() bool {
	main, others := t.k.CountLiving(t.instance)
	return !t.processScan && main+others == 0
}

// Look implements [host.Tree].
func (t *Tree) Look(found func([]host.Member)) {
	look := func() {
		var members []host.Member
		for p := range t.k.Processes() {
			if p.Instance == t.instance && !p.Zombie {
				members = append(members, host.Member{Process: p.open(), Start: p.start, Group: cmp.Or(p.Group, p.Pid), Parent: p.parentPid(), Command: "sim"})
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
func (t *Tree) Kill() error {
	if t.processScan {
		return nil
	}
	for p := range t.k.Processes() {
		if p.Instance == t.instance && !p.Zombie {
			h := p.open()
			h.Signal(syscall.SIGKILL)
			h.Close()
		}
	}
	return nil
}

// Remove implements [host.Tree].
func (t *Tree) Remove() {
	if main, others := t.k.CountLiving(t.instance); main+others > 0 && !t.k.Spares(t.instance) {
		t.k.fail("the tree of %s is removed while %d processes live in it", t.instance, main+others)
	}
}

// Spares reports whether kill_mode may have spared processes of the instance's program.
func (k *Kernel) Spares(instance string) bool {
	spares := func(mode config.KillMode) bool { return !mode.KillsTree() }
	return slices.ContainsFunc(k.modes[config.ProgramOf(instance)], spares)
}

// Path implements [host.Tree].
func (t *Tree) Path() string { return "sim" }

// OOMKills implements [host.Tree].
func (t *Tree) OOMKills() int { return 0 }

// Has implements [host.Tree].
func (t *Tree) Has(pid int) bool {
	p := t.k.Process(pid)
	return p != nil && p.Instance == t.instance
}

// Lack implements [host.Tree].
func (t *Tree) Lack() string { return "" }
