package procs

import (
	"math/rand/v2"
	"syscall"
	"time"

	"superd/config"
	"superd/config/filewatch"
	"superd/procs/fsm"
	"superd/procs/instance"
)

// A filesModel is what the observer knows of watched files. Its numbers are drawn from a generator
// of its own, so that histories without watched files stay the same.
type filesModel struct {
	drawn   bool // whether programs watch files
	rng     *rand.Rand
	changes map[string]fileChange    // what must follow from a change, by instance
	starts  map[string]time.Duration // when a change last started the instance
}

// A fileChange is a change of a file that an instance has not reacted to.
type fileChange struct {
	at, due time.Duration
	run     string // the run under way at that time; empty: none
}

func newFilesModel(seed uint64) filesModel {
	return filesModel{
		drawn: seed%16 == 9, rng: rand.New(rand.NewPCG(seed, 11)), changes: map[string]fileChange{},
		starts: map[string]time.Duration{},
	}
}

// watchedPaths are the files that are drawn.
var watchedPaths = []string{"/srv/a", "/srv/b"}

// drawWatch draws the files that a program watches.
func (h *history) drawWatch(p *config.Program) {
	m := &h.files
	p.Watch = nil
	if m.rng.IntN(4) == 0 || p.Scheduled() {
		return
	}
	k := filewatch.Settings{
		Paths:    watchedPaths[m.rng.IntN(2) : 1+m.rng.IntN(2)],
		Debounce: []time.Duration{0, 200 * time.Millisecond, 30 * time.Second}[m.rng.IntN(3)],
	}
	if len(k.Paths) == 0 {
		k.Paths = watchedPaths
	}
	if m.rng.IntN(4) == 0 {
		k.Signal = syscall.SIGHUP
	}
	p.Watch = &k
}

// changeFiles changes files once or several times in a row, and records what must follow.
func (h *history) changeFiles() {
	m := &h.files
	path := watchedPaths[m.rng.IntN(2)]
	for i := range 1 + m.rng.IntN(3) {
		if i > 0 {
			h.runChecked(time.Duration(m.rng.IntN(300)) * time.Millisecond)
		}
		h.logf("%s changes", path)
		h.kernel.ChangeFile(path)
		for in := range inspect(h.sup).instances() {
			h.expectFileChange(in, path)
		}
	}
}

// expectFileChange records that an instance must react to a change.
func (h *history) expectFileChange(in instanceView, path string) {
	p := inspect(h.sup).config().Program(in.program().Name)
	watches := p != nil && p.Watch != nil && (p.Watch.Paths[0] == path || len(p.Watch.Paths) == 2)
	if !watches || in.leaves() || inspect(h.sup).shutdownBegun() {
		return
	}
	c := fileChange{at: h.v.Now(), due: h.v.Now() + p.Watch.Debounce + 20*time.Millisecond}
	if r := in.Run(); r.Exists() {
		c.run = r.ID()
	}
	h.files.changes[in.name()] = c
}

// onFileChange is called before superd restarts an instance since files have changed.
func (h *history) onFileChange(on *instance.Instance) {
	in := inspect(h.sup).instance(on.Name)
	if !in.target().Up || inspect(h.sup).shutdownBegun() {
		h.fail("%s is restarted by a changed file, and is to be down", on.Name)
	}
	h.logf("%s is restarted: a file has changed", on.Name)
	h.models[on.Name].resetFailed()
	h.files.starts[on.Name] = h.v.Now()
}

// checkFiles checks that an instance has reacted to a change when the time for that is over: it
// has another run, is about to have one, or is down by request.
func (h *history) checkFiles(in instanceView) {
	c, ok := h.files.changes[in.name()]
	switch p := inspect(h.sup).config().Program(in.program().Name); {
	case !ok:
		return
	case !in.target().Up, in.leaves(), inspect(h.sup).shutdownBegun(), h.reloadedAt >= c.at,
		p == nil || p.Watch == nil || p.Watch.Signal != 0:
		delete(h.files.changes, in.name())
		return
	case h.v.Now() < c.due:
		return
	}
	delete(h.files.changes, in.name())
	switch r := in.Run(); {
	case r.Exists() && r.ID() == c.run && in.state() == fsm.Running && !in.Machine().RestartPending():
		h.fail("%s runs as before a change of its files", in.name())
	case in.state() == fsm.Failed && h.files.starts[in.name()] < c.at && in.stateSince() < c.at:
		h.fail("%s has failed and is not started after a change of its files", in.name())
	}
}
