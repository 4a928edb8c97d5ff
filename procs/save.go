package procs

import (
	"slices"
	"sync/atomic"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
)

// A Journal keeps values for the next superd. A [superd/procs/journal.Journal] is one.
type Journal interface {
	Put(key string, value any) error  // before it returns; off the loop
	Queue(key string, value any)      // in order, after Write; value doesn't change any more. nil: there is none any more
	QueueFirst(key string, value any) // as Queue, but before all that is queued
	Write()                           // what is queued is written soon
	Flush(done func())                // done when all that was queued is written, or can't be; on any goroutine
}

// A blank is the journal of a superd that leaves nothing.
type blank struct{}

func (blank) Put(string, any) error  { return nil }
func (blank) Queue(string, any)      {}
func (blank) QueueFirst(string, any) {}
func (blank) Write()                 {}
func (blank) Flush(done func())      { done() }

// writePause is how long after the turn of the loop that has queued them records may wait for others, to be written with them: a timer comes after the
// turn, however long that is. Were superd killed meanwhile, the next one would know what was before.
const writePause = 2 * time.Millisecond

// queue has the value of key, nil for none any more, written to the journal soon.
func (s *Supervisor) queue(key string, value any) {
	s.journal.Queue(key, value)
	s.WriteSoon()
}

// WriteSoon has all that is queued within a moment written to journal and event log, so that the goroutines that write are woken once for it.
// Until then whoever starts programs goes on undisturbed.
func (s *Supervisor) WriteSoon() {
	switch {
	case s.writing == nil:
		s.writing = s.scope.After(writePause, s.Write)
	case !s.writing.Active():
		s.writing.Reset(writePause)
	}
}

// Write has all that is queued written now: the keeper is told, the event log's goroutine is woken, then the journal's. Nothing waits for them.
func (s *Supervisor) Write() {
	s.writing.Stop()
	s.tellKeeper()
	s.writeEvents()
	s.journal.Write()
	if s.options.OnWrite != nil {
		s.options.OnWrite()
	}
	if names := s.unneeded; len(names) > 0 {
		s.unneeded = nil
		s.afterTurn(func() { s.discard(names) })
	}
}

// writeEvents has what is queued for the event log written. It comes before the journal: what is in that is never recorded as an event again.
func (s *Supervisor) writeEvents() {
	if s.options.Events != nil {
		s.options.Events.Write()
	}
}

// afterSaving runs f on the loop when what is known now is in the journal, as far as it can be written.
func (s *Supervisor) afterSaving(f func()) {
	s.writeEvents()
	s.journal.Flush(func() { s.scope.Post(f) })
}

// save writes down what the next superd must know of the instance.
func (in *instance) save() {
	if in.scope.Closed() || in.sup.ended {
		return
	}
	in.sup.queue(instanceKey(in.name), in.saved())
}

// saved returns what save writes down. It shares nothing that changes.
func (in *instance) saved() *savedInstance {
	m := &in.machine
	v := &savedInstance{
		Config: in.sup.configNumber, Removed: in.removed,
		State: stateNames[m.state], Held: in.held != nil, Wanted: saveWish(m.wanted), Again: m.again, Verdict: eventNames[m.verdict], Blame: m.blame, NotStarted: m.notStarted, Short: m.starved, Amiss: m.amiss,
		Attempts: m.attempts, Failures: slices.Clone(m.failures), GaveUp: m.gaveUp, Restarts: m.restarts, Delay: m.delay,
		Why: m.why, Ending: m.ending, Cause: m.cause,
		Since: in.sinceAt, Settled: in.settled, Drain: in.draining, Tree: in.tree.Place(),
	}
	if sc := in.sched; sc != nil {
		v.Owed, v.Schedule, v.DueFor, v.Skipped = m.owed, sc.state(), sc.dueFor, sc.skipped
	}
	v.Output, v.Kept = in.capture.FD(logs.Stdout) >= 0, in.kept[logs.Stdout].String()
	v.Stderr, v.KeptStderr = in.capture.FD(logs.Stderr) >= 0, in.kept[logs.Stderr].String()
	if d := in.capture.Drops(); d != (logs.Drops{}) {
		v.Dropped = &d
	}
	if in.feed != nil {
		v.Input, v.KeptInput = true, in.feed.kept
	}
	if in.removed {
		v.Table = savedTable(in.program)
	}
	if in.site != nil {
		v.Probes = in.site.tree.Place()
	}
	if w := in.nextWish; w != nil {
		v.Next = new(saveWish(*w))
	}
	if w := m.overruled; w != nil {
		v.Overruled = new(saveWish(*w))
	}
	if t := in.restartTimer; t != nil {
		v.Due = new(t.Due())
	}
	if e := in.lastExit; e != nil {
		v.Exit = &savedExit{Known: e.Known, Code: e.Code, Signal: e.signal, At: e.at}
	}
	if in.run != nil {
		v.Run = in.run.saved(in)
	}
	return v
}

func (r *run) saved(in *instance) *savedRun {
	v := &savedRun{
		ID: r.invocationID, Stale: in.machine.stale, Touched: r.touched, StartedAt: r.startedAt, ReadyAt: r.readyAt, StartDeadline: r.startDeadline, Group: int(r.group), OOMKills: int(r.oomKills), EnvSum: r.envSum,
		StopDeadline: r.stopDeadline, ClearBy: r.clearBy, PreStarted: r.preStarted, PostStopped: r.postStopped,
	}
	v.StopLimit, v.Notify, v.Ready, v.StatusText, v.Watchdog = r.stopLimit, r.notifyKept, r.readyKept, r.statusText, r.watchdogPeriod
	if r.readyAt == 0 {
		v.PrintsFrom, v.StderrFrom = r.printsFrom[logs.Stdout], r.printsFrom[logs.Stderr]
	}
	if r.reloading.Active() {
		v.Reloading = new(r.reloading.Due())
	}
	if r.leaving.Active() {
		v.Leaving = new(r.leaving.Due())
	}
	if v.Health = r.savedHealth; r.monitor != nil {
		v.Health = r.monitor.saved()
	}
	if r.program != in.program {
		v.Table = savedTable(r.program)
	}
	if r.process != nil {
		v.Main = savedIdentity(r.id, r.kept.String())
	}
	if h := r.hook; h != nil {
		v.Hook = &savedHook{At: h.at, Stopped: h.stopped || h.doomed, Due: h.due, Timeout: h.timeout}
		if h.failed != nil {
			v.Hook.Failed = h.failed.Error()
		}
		if h.process != nil {
			v.Hook.Process = savedIdentity(h.id, h.kept)
		}
	}
	return v
}

// saveDrops writes down what the capture has dropped, again and again as long as that changes.
func (s *Supervisor) saveDrops(c *logs.Capture) {
	in := s.byName[c.Name()]
	if in == nil || &in.capture != c {
		return
	}
	was := c.Drops()
	in.save()
	s.afterSaving(func() {
		if c.DropsSaved(was) {
			s.saveDrops(c)
		}
	})
}

func savedIdentity(id pidfd.Identity, kept string) *savedProcess {
	return &savedProcess{Pid: id.Pid, Start: id.Start, Inode: id.Inode, Kept: kept}
}

// savedTable returns a program's table without its mistakes: what has begun to run has none.
func savedTable(p *config.Program) *config.Program {
	table := *p
	table.Invalid = nil
	return &table
}

// A birth is a start on its way: what the worker writes down about it.
type birth struct {
	in      *instance
	key     string
	value   savedBirth
	written atomic.Bool
	kept    bool // the keeper keeps what was made for it; the worker's until it has come back
}

// newBirth returns the birth of the main process of the run, or of the hook at hand.
func (in *instance) newBirth(r *run) *birth {
	in.sup.births++
	b := &birth{in: in, key: birthKey(in.name, in.sup.births), value: savedBirth{Run: r.invocationID, Config: r.config, number: in.sup.births}}
	b.value.Schedule = in.sched.state()
	if r.hook != nil {
		b.value.Hook, b.value.PostStop = new(r.hook.at), in.machine.state == Clearing
	}
	return b
}

// expect writes down that a process, not older than after, is about to be born. It is called off the loop; after an error there must be no birth.
func (b *birth) expect(after uint64) error {
	b.written.Store(true)
	b.value.After = after
	return b.in.sup.journal.Put(b.key, &b.value)
}

// happened writes down that the process is there. It is called off the loop. After an error the process is found by its environment, if it has to be.
func (b *birth) happened(id pidfd.Identity, at time.Duration) error {
	b.value.Process, b.value.At = savedIdentity(id, ""), at
	return b.in.sup.journal.Put(b.key, &b.value)
}

// settle has use take what came of the birth, whose record is not needed any more when that is saved.
func (b *birth) settle(use func()) {
	b.in.settled = b.value.number
	use()
	if b.written.Load() {
		b.in.sup.queue(b.key, nil)
	}
}

// saveSelf writes down what concerns superd as a whole.
func (s *Supervisor) saveSelf() {
	if !s.ended {
		s.queue(superdKey, s.savedSelf())
	}
}

func (s *Supervisor) savedSelf() *savedSuperd {
	v := &savedSuperd{Config: s.configNumber, Before: s.configBefore, Begun: s.begun}
	if s.shutdown != nil {
		v.Shutdown = &savedShutdown{Why: s.shutdown.why, Hurry: s.shutdown.hurry, Status: s.exitStatus}
	}
	return v
}

// saveEnd leaves nothing to the next superd but how far the schedules are, and what the operator has stopped: that holds
// until he starts it.
func (s *Supervisor) saveEnd() {
	s.ended = true
	s.leaves = false
	for _, in := range s.instances {
		if state := in.sched.state(); state != nil {
			s.leaves = true
			s.queue(scheduleKey(in.name), state)
		}
		w := in.machine.wanted
		if before := in.machine.overruled; before != nil {
			w = *before
		}
		if in.removed || w != (wish{false, operator}) {
			s.queue(instanceKey(in.name), nil)
			continue
		}
		s.leaves = true
		s.queue(instanceKey(in.name), &savedInstance{State: stateNames[Stopped], Verdict: eventNames[EndDown], Wanted: saveWish(w),
			Cause: "stopped by " + operator, Since: in.sinceAt})
	}
	for number := s.configNumber; number > 0 && number >= s.configBefore; number-- {
		s.queue(configKey(number), nil)
		if s.configBefore == 0 {
			break
		}
	}
	s.queue(superdKey, &savedSuperd{Ended: true})
}

// Leaves reports whether there is something that the next superd must know, after an orderly end.
func (s *Supervisor) Leaves() bool { return s.leaves }

// enact makes next the configuration in force and has follow do what follows from that. Until it is saved, the configuration before is kept,
// too, so that the next superd can do what is missing.
func (s *Supervisor) enact(next *config.Config, follow func()) {
	if s.configBefore == 0 {
		s.configBefore = s.configNumber
	}
	s.config = next
	s.store.SetMaxTotal(next.Superd.LogMaxTotal)
	s.configNumber++
	number := s.configNumber
	s.journal.QueueFirst(configKey(number), archived{s.options.Archive, next}) // records that wait may be replaced by such as follow from it
	s.saveSelf()
	follow()
	s.afterSaving(func() {
		if s.configNumber != number {
			return // the next one has come meanwhile
		}
		for old := s.configBefore; old < number; old++ {
			s.queue(configKey(old), nil)
		}
		s.configBefore = 0
		s.saveSelf()
	})
}

// enactFirst makes the configuration that superd begins with the one in force.
func (s *Supervisor) enactFirst() {
	s.configNumber++
	s.queue(configKey(s.configNumber), archived{s.options.Archive, s.config})
	s.saveSelf()
}

// archived is a configuration, encoded when it is written.
type archived struct {
	archive func(*config.Config) []byte
	config  *config.Config
}

// AppendJSON implements [superd/procs/journal.Appender].
func (a archived) AppendJSON(b []byte) []byte {
	text := a.archive(a.config)
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	return append(b, text...)
}
