package procs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/journal"
)

// A simJournal is the journal of the simulation: what is queued is written a while after it was asked for, in order, and is lost with superd before.
type simJournal struct {
	h       *history
	lag     time.Duration
	session *loop.Scope
	values  map[string]any // that are written
	queue   []simEntry
	unasked time.Duration // when the first of these was queued that nobody has asked to be written; 0: there is none
	batch   []simEntry    // being written
	writing bool          // so it is
	again   bool          // then what is queued follows
	stalled bool          // nothing gets written
}

// A simEntry waits to be written; or somebody waits for what was queued before it.
type simEntry struct {
	key   string
	value any
	flush func()
}

func newSimJournal(h *history, lag time.Duration) *simJournal {
	return &simJournal{h: h, lag: lag, session: h.v.Root().Child(), values: map[string]any{}}
}

// Put implements [Journal].
func (j *simJournal) Put(key string, value any) error {
	if !j.stalled {
		j.batch, j.queue, j.unasked = j.put(j.batch), j.put(j.queue), 0
	}
	text, err := encoded(value) // it may change later
	j.values[key] = text
	return err
}

// put writes the values of entries and returns what is left: those who wait for it.
func (j *simJournal) put(entries []simEntry) (flushes []simEntry) {
	for _, e := range entries {
		if e.flush != nil {
			flushes = append(flushes, e)
			continue
		}
		j.set(e)
	}
	return flushes
}

func (j *simJournal) set(e simEntry) {
	if e.value == nil {
		delete(j.values, e.key)
	} else {
		j.values[e.key] = e.value
	}
}

// Queue implements [Journal].
func (j *simJournal) Queue(key string, value any) {
	if j.unasked == 0 {
		j.unasked = j.h.v.Now()
	}
	for i := range j.queue {
		if j.queue[i].key == key {
			j.queue[i].value = value
			return
		}
	}
	j.queue = append(j.queue, simEntry{key: key, value: value})
}

// Write implements [Journal].
func (j *simJournal) Write() {
	if len(j.queue) > 0 {
		j.write()
	}
}

// QueueFirst implements [Journal].
func (j *simJournal) QueueFirst(key string, value any) {
	j.queue = slices.DeleteFunc(j.queue, func(e simEntry) bool { return e.key == key && e.flush == nil })
	j.queue = slices.Insert(j.queue, 0, simEntry{key: key, value: value})
	j.write()
}

// Flush implements [Journal].
func (j *simJournal) Flush(done func()) {
	if len(j.queue)+len(j.batch) == 0 || j.h.defect.hasty {
		done()
		return
	}
	j.queue = append(j.queue, simEntry{flush: done})
	j.write()
}

// write has what is queued written, after what is being written.
func (j *simJournal) write() {
	j.unasked = 0
	if j.writing || j.stalled {
		j.again = true
		return
	}
	j.writing, j.again = true, false
	j.batch, j.queue = j.queue, nil
	j.goOn()
}

// goOn writes some of the batch, a while later.
func (j *simJournal) goOn() {
	j.session.After(j.h.kernel.upTo(j.lag), func() {
		n := len(j.batch)
		if n > 0 && j.h.kernel.chance(0.3) {
			n = 1 + j.h.rng.IntN(n)
		}
		some := j.batch[:n]
		j.batch = j.batch[n:]
		for _, e := range some {
			if e.flush != nil {
				e.flush()
			} else {
				j.set(e)
			}
		}
		if len(j.batch) > 0 {
			j.goOn()
			return
		}
		if j.writing = false; j.again {
			j.write()
		}
	})
}

// check holds that nothing is queued for long without being asked for.
func (j *simJournal) check() {
	if waits := j.h.v.Now() - j.unasked; j.unasked > 0 && waits > writePause {
		j.h.fail("%s waits for %v, and nobody has the journal written", j.queue[0].key, waits)
	}
}

// queued reports whether a newer value of the key is yet to be written.
func (j *simJournal) queued(key string) bool {
	is := func(e simEntry) bool { return e.key == key }
	return slices.ContainsFunc(j.queue, is) || slices.ContainsFunc(j.batch, is)
}

// checkReply holds that what an operator has asked for is written when he is told that it is done.
func (j *simJournal) checkReply(name string, up bool) {
	in := j.h.sup.byName[name]
	if in == nil || in.removed || in.machine.wanted != (wish{up, operator}) {
		return // somebody wants something else by now
	}
	if v, ok := j.values[instanceKey(name)].(*savedInstance); !ok || v.Wanted.Up != up {
		j.h.fail("%s: the operator was answered before his wish was written", name)
	}
}

// cut is the end of superd. It returns what is in the journal, and which keys were still to be written.
func (j *simJournal) cut() (*journal.State, map[string]bool) {
	j.session.Close()
	state := &journal.State{Values: map[string]json.RawMessage{}, Existed: true}
	for key, value := range j.values {
		text, err := encoded(value)
		if err != nil {
			j.h.fail("encode %s: %v", key, err)
		}
		state.Values[key] = text
	}
	pending := map[string]bool{}
	for _, e := range slices.Concat(j.batch, j.queue) {
		pending[e.key] = true
	}
	return state, pending
}

func encoded(value any) (json.RawMessage, error) {
	if a, ok := value.(journal.Appender); ok {
		return a.AppendJSON(nil), nil
	}
	return json.Marshal(value)
}

// archive gives a configuration a number, and restore gives the configuration of a number.
func (h *history) archive(c *config.Config) []byte {
	i := slices.Index(h.configs, c)
	if i < 0 {
		i = len(h.configs)
		h.configs = append(h.configs, c)
	}
	return fmt.Appendf(nil, "%d", i)
}

func (h *history) restore(archive []byte) (*config.Config, error) {
	var i int
	if err := json.Unmarshal(archive, &i); err != nil {
		return nil, err
	}
	return h.configs[i], nil
}

// A memory is what an instance was when superd was killed.
type memory struct {
	machine       machine
	due           time.Duration // of the next start; 0: none
	stopDeadline  time.Duration
	startDeadline time.Duration
	process       *simProcess // main process; nil: none
	hook          *simProcess
	removed       bool
}

func (in *instance) memory() memory {
	m := memory{machine: in.machine, removed: in.removed}
	if t := in.restartTimer; t != nil {
		m.due = t.Due()
	}
	if r := in.run; r != nil {
		m.stopDeadline, m.startDeadline = r.stopDeadline, r.startDeadline
		if r.process != nil {
			m.process = simProcessOf(r.process)
		}
		if r.hook != nil && r.hook.process != nil {
			m.hook = simProcessOf(r.hook.process)
		}
	}
	return m
}

// simProcessOf returns the process behind what superd has; nil where it has nothing of it.
func simProcessOf(p Process) *simProcess {
	if a, ok := p.(*adopted); ok {
		p = a.Process
	}
	if h, ok := p.(*simHandle); ok {
		return h.p
	}
	return nil
}

// crash kills superd and begins another: in its place, or by hand.
func (h *history) crash() {
	if h.err != nil || h.ended {
		return
	}
	resumed := h.kernel.chance(0.7)
	before := map[string]memory{}
	for _, in := range h.sup.instances {
		before[in.name] = in.memory()
	}
	shuttingDown := h.sup.shutdown != nil
	state, pending := h.journal.cut()
	h.note("--- superd is killed; the next one goes on in its place: %v; not written: %v", resumed, sortedKeys(pending))
	h.sup.scope.Close()
	h.kernel.abandon()
	if n := h.v.OpenFDs(); n > 0 {
		h.fail("%d descriptors are open after the scope of superd is closed", n)
	}
	if h.kernel.chance(0.5) {
		h.without(h.kernel.upTo(time.Duration(h.pick(0.001, 1, 20) * float64(time.Second))))
	}
	if h.kernel.chance(h.jumps) {
		h.jump()
	}
	h.pending = 0
	values := h.journal.values
	h.journal = newSimJournal(h, h.journal.lag)
	h.journal.values = values

	recovery := ReadRecovery(state, h.restore, slog.New(slog.DiscardHandler))
	if recovery.Incomplete && len(state.Values) > 0 && state.Values[superdKey] != nil {
		h.fail("superd does not understand its own journal")
	}
	for run := range recovery.runs() { // what became of it may be forgotten
		for name := range h.models {
			v, b := recovery.instances[name], recovery.births[name]
			of := v != nil && v.Run != nil && v.Run.ID == run
			judged := of && v.State == stateNames[Clearing]
			if pending[instanceKey(name)] && !judged && (of || b != nil && b.Run == run) {
				delete(h.kernel.shortages, run)
			}
		}
	}
	recovery.Incomplete = false // it is cut off, and not damaged
	for key := range pending {
		if strings.HasPrefix(key, scalePrefix) { // what was written counts from now on
			clear(h.scales)
			for name, scaled := range recovery.scales {
				h.scales[name] = scaled.Replicas
			}
		}
	}
	if h.defect.recovery != nil {
		h.defect.recovery(h, recovery)
	}
	o := h.options()
	o.Recovery, o.Resumed = recovery, resumed
	h.startedBoot = h.v.Boot()
	h.sup = New(o)
	h.adopting = true
	if err := h.sup.Adopt(); err != nil {
		h.fail("adopt: %v", err)
		return
	}
	reload := pending[superdKey] && h.sup.configBefore != 0
	for key := range pending {
		reload = reload || strings.HasPrefix(key, "config/") || strings.HasPrefix(key, scalePrefix)
	}
	for _, in := range h.sup.instances {
		was, ok := before[in.name]
		if r := in.run; r != nil && h.kernel.mains[r.invocationID] != nil {
			h.kernel.mains[r.invocationID].began = r.startedAt
		}
		h.checkIdentity(in)
		if ok && !pending[instanceKey(in.name)] && !reload {
			h.checkAdopted(in, was)
		}
	}
	h.checkScales(reload)
	inForce := h.sup.config
	h.sup.Start(func() { h.ended = true })
	h.adopting = false
	if reload || h.sup.config != inForce {
		clear(h.scales)
		for name, scaled := range h.sup.scales {
			h.scales[name] = scaled.Replicas
		}
	}
	h.resync(before, pending, reload || shuttingDown || h.sup.config != inForce)
	h.check()
}

// without lets time pass in which there is no superd.
func (h *history) without(d time.Duration) {
	done := false
	h.v.Root().After(d, func() { done = true })
	for !done && h.err == nil && h.v.Step() {
		h.steps++
	}
}

// checkScales holds that the operator's scales are as they were, if they were written.
func (h *history) checkScales(lost bool) {
	for name, scaled := range h.sup.scales {
		if n, ok := h.scales[name]; !lost && (!ok || n != scaled.Replicas) {
			h.fail("%s is scaled to %d, it was scaled to %d", name, scaled.Replicas, n)
		}
	}
	for name := range h.scales {
		if _, ok := h.sup.scales[name]; !ok && !lost {
			h.fail("the scale of %s was forgotten", name)
		}
	}
}

// checkIdentity holds that a process which superd has taken up is the one.
func (h *history) checkIdentity(in *instance) {
	r := in.run
	if r == nil || r.process == nil {
		return
	}
	if p := simProcessOf(r.process); p != nil && (p.instance != in.name || p.run != r.invocationID || p.role != roleMain) {
		h.fail("%s has taken up %d of %s, which is not its main process", in.name, p.pid, p.instance)
	}
}

// checkAdopted holds that an instance is as it was, if that was written.
func (h *history) checkAdopted(in *instance, was memory) {
	is := in.memory()
	if p := was.hook; p != nil && !p.zombie && is.hook != p {
		h.fail("%s: its hook %d lives and was not taken up", in.name, p.pid)
	}
	a, b := was.machine, is.machine
	if a.state == Spawning || in.run != nil && in.run.hook != nil || a.state == Clearing {
		if a.wanted.up != b.wanted.up {
			h.fail("%s: wanted up = %v, it was %v", in.name, b.wanted.up, a.wanted.up)
		}
		return // it may have gone on
	}
	if is, was := recordedOf(in, &b), recordedOf(in, &a); is != was {
		h.fail("%s is taken over as %+v; it was %+v", in.name, is, was)
	}
	if a.state == Stopping && was.stopDeadline != is.stopDeadline && is.stopDeadline > h.v.Now() {
		h.fail("%s: the stop time-out is over at %v, it was to be at %v", in.name, is.stopDeadline, was.stopDeadline)
	}
	if a.state == Starting && was.startDeadline != is.startDeadline && is.startDeadline > h.v.Now()+2*time.Second {
		h.fail("%s: the start time-out is over at %v, it was to be at %v", in.name, is.startDeadline, was.startDeadline)
	}
	if was.due != is.due && is.due > h.v.Now() {
		h.fail("%s: the next start is due at %v, it was to be at %v", in.name, is.due, was.due)
	}
	if p := was.process; p != nil && !p.zombie && is.process != p {
		h.fail("%s: its process %d lives and was not taken up", in.name, p.pid)
	}
}

// A recorded is what is written down of a machine.
type recorded struct {
	state                                                  State
	wanted                                                 wish
	again, stale, owed, notStarted, starved, amiss, gaveUp bool
	attempts, restarts                                     int
	failures, ending, blame                                string
}

// recordedOf returns that.
func recordedOf(in *instance, m *machine) recorded {
	return recorded{
		state: m.state, wanted: m.wanted, again: m.again, notStarted: m.notStarted, starved: m.starved, amiss: m.amiss, gaveUp: m.gaveUp,
		stale: m.stale && !in.removed, owed: m.owed && in.program.Scheduled(),
		attempts: m.attempts, restarts: m.restarts, failures: fmt.Sprint(m.failures), ending: m.ending, blame: m.blame,
	}
}

// resync has the observer see what is new: of what was not written it can't know what has become.
func (h *history) resync(before map[string]memory, pending map[string]bool, all bool) {
	p := &h.policy
	if h.sup.shutdown == nil {
		*p = policyModel{begun: p.begun}
	}
	p.restSince = 0
	p.begun = p.begun && (h.sup.begun || !pending[superdKey])
	for _, in := range h.sup.instances {
		if h.models[in.name] == nil {
			h.models[in.name] = &model{}
		}
		model := h.models[in.name]
		_, known := before[in.name]
		lost := all || pending[instanceKey(in.name)] || !known || in.removed
		model.graph = graphModel{heldDown: in.wish().by == operator && !in.wish().up, by: in.machine.wanted.by}
		if lost {
			model.wantUp, model.since = in.wish().up && h.sup.shutdown == nil, h.v.Now()
			model.retries, model.gaveUp = in.machine.attempts, in.machine.gaveUp
			model.failures = slices.Clone(in.machine.failures)
			model.unsure = in.machine.state == Clearing
			model.last, model.anew, model.amiss = "", "", in.machine.amiss
			model.retrying = in.machine.state == Failed && in.restartTimer != nil
			model.state, model.stateAt = in.machine.state, h.v.Now()
			if model.status = in.exitStatus(); in.machine.state.AtRest() {
				model.stateAt = in.sinceAt
			}
		}
		model.in, model.run, model.hook, model.condemned = in, in.run, nil, in.machine.blame != ""
		if in.run != nil {
			model.last = in.run.invocationID
			if lost && in.machine.again {
				model.anew = model.last
			}
		}
		model.freeAt, model.rightAt, model.right = h.v.Now(), h.v.Now(), true
		h.resyncSchedule(in, model, !lost)
		if h.sup.shutdown == nil && in.endedForGood() {
			h.decides(in, model)
		}
	}
}
