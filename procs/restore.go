package procs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
)

// An Adoptee is what an earlier superd has left of one instance: [System.Adopt] takes it up.
type Adoptee struct {
	Instance string
	Program  *config.Program // with its limits
	Tree     Tree
	Process  pidfd.Identity // main process or hook; zero: none
	PidFD    int            // its pidfd, -1 where the keeper had none; System.Adopt owns it
	Outputs  []AdoptedOutput

	NotifySocket string // path of the run's notify socket; empty: there is none
	NotifyFD     int    // that; -1 where the keeper had none, then System.Adopt makes another in its place
	ReadyNumber  int    // where the process has the pipe on which it tells that it is ready; 0: there is none
	ReadyFD      int    // its reading end; -1 where the keeper had none, then System.Adopt takes it from the process

	Found Process // nil: nothing is left of the process
	Ended bool    // it has ended, perhaps before the read ends were opened
	Err   error   // whether the process lives can't be found out
}

// An AdoptedOutput is a FIFO that an earlier superd has left.
type AdoptedOutput struct {
	Stream logs.Stream // or input
	FIFO   string      // its path
	ReadFD int         // its read end; -1 where the keeper had none, then System.Adopt opens the FIFO

	gap bool  // the keeper had none
	Err error // why the FIFO can't be had; ReadFD is -1 then
}

// A Sought is a process that was started, and of which only its run is known.
type Sought struct {
	Instance string
	Run      string // invocation id
	After    uint64 // it is not older, in clock ticks since boot

	Found pidfd.Identity // zero: there is none
}

// A Stray is a process that an earlier superd has started and of which is not known what it is to an instance.
type Stray struct {
	Pid      int
	Command  string // its name, as ps shows it
	Instance string
	Run      string // invocation id
}

// An adoption is what is known of an instance before it goes on.
type adoption struct {
	in      *instance
	saved   *savedInstance
	news    bool // its record lacks something of that
	adoptee *Adoptee
	told    eventlog.Told
	lost    bool // a start of which nothing is found
	gap     bool // nobody held the read end of one of its FIFOs meanwhile
	heard   bool // what its main process tells is heard
	rekept  bool // the keeper has something of it under another name than its record says
}

// Adopt takes up what an earlier superd has left and goes on with it. It is called before the loop runs and before Start. After an error
// nothing was changed, and nothing must be started.
func (s *Supervisor) Adopt() error {
	r := s.options.Recovery
	if r == nil {
		return nil
	}
	s.births = r.lastBirth
	maps.Copy(s.leftSchedules, r.schedules)
	s.configNumber, s.configBefore = r.self.Config, r.self.Before
	known := r.configs[r.oldest()]
	if known != nil {
		s.config = known
	}
	if sh := r.self.Shutdown; sh != nil && s.options.Resumed {
		s.shutdown = &shutdown{why: sh.Why, hurry: sh.Hurry}
		s.exitStatus, s.endDecided = sh.Status, sh.Status != 0
	}
	s.begun = r.self.Begun || r.Lives()
	for name, fd := range s.options.Inherited.Files {
		s.inherited[name] = fd
		s.keeping.known(name)
	}
	for _, v := range r.instances {
		s.keeping.known(v.Kept)
		s.keeping.known(v.KeptStderr)
		s.keeping.known(v.KeptInput)
		if p, _ := v.process(); p != nil {
			s.keeping.known(p.Kept)
		}
		if v.Run != nil {
			s.keeping.known(v.Run.Notify)
			s.keeping.known(v.Run.Ready)
		}
	}
	for _, b := range r.births {
		s.keeping.known(b.Notify)
		s.keeping.known(b.Ready)
		s.keeping.known(b.Kept[0])
		s.keeping.known(b.Kept[1])
	}
	s.restoreScales(r)
	all := s.merged(r)
	if err := s.search(r, all); err != nil {
		return err
	}
	if err := s.takeUp(all); err != nil {
		return err
	}
	if r.self.Shutdown != nil && s.shutdown == nil {
		// Before anything follows from that: were superd killed now, the keeper's next one must not go on with the shutdown.
		if err := s.journal.Put(superdKey, s.savedSelf()); err != nil {
			s.log.Warn("not written down that the shutdown is void", "error", err)
		}
	}
	if known == nil {
		s.enactFirst()
	} else {
		s.saveSelf()
	}
	s.goOn(all)
	return nil
}

// merged makes the instances of which the journal tells.
func (s *Supervisor) merged(r *Recovery) []*adoption {
	names := map[string]bool{}
	for name := range r.instances {
		names[name] = true
	}
	for name := range r.births {
		names[name] = true
	}
	var all []*adoption
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inForce := s.config.Program(programOf(name))
		b, number, of := r.births[name], r.oldest(), inForce
		if b != nil && r.configs[b.Config] != nil {
			number, of = b.Config, r.configs[b.Config].Program(programOf(name)) // that by which it was started
		}
		v := merge(r.instances[name], b, of != nil && of.Autostart, number)
		if b != nil && v.Run != nil && v.Run.ID == b.Run {
			v.Run.other = b.Config > r.self.Config // of a reload that has not come into the journal
		}
		program := v.Table
		if program == nil {
			program = r.table(v.Config, name)
		}
		if program == nil {
			program = inForce
		}
		unknown := program == nil
		if unknown && r.self.Ended {
			r.keys = append(r.keys, instanceKey(name)) // the operator's stop goes with the program, as at a reload
			continue
		}
		if unknown {
			program = config.DefaultProgram(programOf(name))
			s.log.Warn("program is in no configuration: it is stopped by the default rules", "instance", name)
		}
		if v != r.instances[name] && v.Run.Table == nil && b.Config != v.Config && r.configs[b.Config] != nil { // the run has come after the record
			if table := r.configs[b.Config].Program(program.Name); table != nil && table != program {
				v.Run.Table = savedTable(table)
			}
		}
		in := s.newInstance(name, program, v.runBy(program), v.Tree)
		in.inherited = true
		in.removed = v.Removed || unknown
		in.restore(v)
		in.publish()
		s.byName[name] = in
		s.instances = append(s.instances, in)
		all = append(all, &adoption{in: in, saved: v, news: v != r.instances[name]})
	}
	slices.SortFunc(s.instances, compareInstances)
	for _, in := range s.instances {
		in.findRoom()
	}
	return all
}

// runBy returns the table by which the run goes, if there is one; else that of the instance.
func (v *savedInstance) runBy(own *config.Program) *config.Program {
	if v.Run != nil && v.Run.Table != nil {
		return v.Run.Table
	}
	return own
}

// restore gives the machine its state, less what lives.
func (in *instance) restore(v *savedInstance) {
	m := &in.machine
	in.sup.counts[m.state]--
	m.state, _ = nameOf[State](stateNames[:], v.State)
	in.sup.counts[m.state]++
	m.verdict, _ = nameOf[Event](eventNames[:], v.Verdict)
	m.wanted, m.again, m.notStarted, m.starved, m.amiss, m.blame = v.Wanted.wish(), v.Again, v.NotStarted, v.Short, v.Amiss, v.Blame
	if w := v.Overruled; w != nil {
		m.overruled = new(w.wish())
	}
	m.attempts, m.failures, m.gaveUp, m.restarts, m.delay = v.Attempts, v.Failures, v.GaveUp, v.Restarts, v.Delay
	m.why, m.ending, m.cause = v.Why, v.Ending, v.Cause
	in.sinceAt, in.settled = v.Since, v.Settled
	if m.owed = v.Owed; v.Schedule != nil {
		in.sched = &scheduling{before: v.Schedule, dueFor: v.DueFor, skipped: v.Skipped}
	}
	if w := v.Next; w != nil {
		in.nextWish = new(w.wish())
	}
	if e := v.Exit; e != nil {
		in.lastExit = &ExitStatus{Known: e.Known, Code: e.Code, signal: e.Signal, at: e.At}
		if e.Signal != 0 {
			in.lastExit.Signal = signalName(syscall.Signal(e.Signal))
		}
	}
}

// process returns the process of the run that may live, and the start of which only the run is known.
func (v *savedInstance) process() (p *savedProcess, b *savedBirth) {
	r := v.Run
	switch {
	case r == nil || r.ended && r.Hook == nil:
		return nil, nil
	case r.Hook != nil:
		p, b = r.Hook.Process, r.Hook.birth
	default:
		p, b = r.Main, r.birth
	}
	if p == nil && b != nil {
		p = b.Process
	}
	return p, b
}

// search looks for processes that were started and not recorded, and for those of which the journal doesn't tell.
func (s *Supervisor) search(r *Recovery, all []*adoption) error {
	var sought []*Sought
	held := false
	where := map[*Sought]*adoption{}
	for _, a := range all {
		p, b := a.saved.process()
		held = held || a.saved.Held
		if p == nil && b != nil {
			w := &Sought{Instance: a.in.name, Run: b.Run, After: b.After}
			sought, where[w] = append(sought, w), a
		}
	}
	if len(sought) == 0 && !r.Incomplete && !held {
		return nil
	}
	strays, err := s.system.Search(sought, r.runs())
	if err != nil {
		return fmt.Errorf("look for programs of an earlier superd: %w", err)
	}
	for w, a := range where {
		a.lost = w.Found == pidfd.Identity{}
		if !a.lost {
			_, b := a.saved.process()
			b.Process = savedIdentity(w.Found, "")
		}
	}
	for _, stray := range strays {
		s.strays[stray.Instance] = append(s.strays[stray.Instance], stray)
	}
	return nil
}

// runs returns the runs that the journal tells of: whoever belongs to another one is a stray.
func (r *Recovery) runs() map[string]bool {
	runs := map[string]bool{}
	for _, v := range r.instances {
		if v.Run != nil {
			runs[v.Run.ID] = true
		}
	}
	for _, b := range r.births {
		runs[b.Run] = true
	}
	return runs
}

// takeUp opens what lives.
func (s *Supervisor) takeUp(all []*adoption) error {
	var adoptees []*Adoptee
	for _, a := range all {
		by := a.saved.runBy(a.in.program)
		t := &Adoptee{Instance: a.in.name, Program: by, Tree: a.in.tree, PidFD: -1, NotifyFD: -1, ReadyFD: -1}
		a.adoptee = t
		p, _ := a.saved.process()
		if p != nil {
			t.Process = p.identity()
			t.PidFD = s.inherit(p.Kept)
		}
		a.inheritTold()
		there, kept := a.saved.fifos()
		if a.news && a.saved.Output && len(streamsOf(by)) > 1 {
			there[logs.Stderr] = true // as standard output, which merge knows of
		}
		if a.news && a.saved.Output && a.in.isLogger() {
			there[input] = true // as well
		}
		for which, is := range there {
			if !is {
				continue
			}
			o := AdoptedOutput{Stream: logs.Stream(which), FIFO: s.fifo(a.in.name, logs.Stream(which)), ReadFD: s.inherit(kept[which])}
			o.gap = o.ReadFD < 0
			a.gap = a.gap || o.gap && o.Stream != input
			t.Outputs = append(t.Outputs, o)
		}
		if p != nil || len(t.Outputs) > 0 {
			adoptees = append(adoptees, t)
		}
	}
	s.system.Adopt(adoptees)
	var errs []error
	for _, t := range adoptees {
		if t.Err != nil {
			errs = append(errs, fmt.Errorf("adopt %s: %w", t.Instance, t.Err))
		}
	}
	if len(errs) > 0 {
		for _, t := range adoptees {
			if t.Found != nil {
				t.Found.Close()
			}
			closeInherited(t.NotifyFD)
			closeInherited(t.ReadyFD)
			for _, o := range t.Outputs {
				closeInherited(o.ReadFD)
			}
		}
		return errors.Join(errs...)
	}
	for name, fd := range s.inherited {
		s.keeper.Discard(name) // the journal doesn't speak of it
		closeInherited(fd)
	}
	clear(s.inherited)
	lost := false
	for _, a := range all {
		s.attachAdopted(a)
		lost = a.tellGap() || lost
	}
	if lost && s.options.Events != nil {
		// Before the journal forgets it: the next superd could not know.
		ctx, cancel := context.WithTimeout(context.Background(), tellPatience)
		defer cancel()
		if err := s.options.Events.Flush(ctx); err != nil {
			s.log.Warn("gaps in outputs are not recorded in time", "error", err)
		}
	}
	return nil
}

// inheritTold asks for what a main process tells superd by.
func (a *adoption) inheritTold() {
	r, in, t := a.saved.Run, a.in, a.adoptee
	if r == nil || !in.machine.state.lives() && r.birth == nil {
		return // no longer, or not yet
	}
	if r.birth != nil {
		r.Notify, r.Ready = r.birth.Notify, r.birth.Ready
	}
	p := in.program
	if r.Table != nil {
		p = r.Table
	}
	if t.NotifySocket = in.notifySocket(p); t.NotifySocket != "" {
		t.NotifyFD = in.sup.inherit(r.Notify)
	}
	if p.Ready != nil && p.Ready.FD != 0 && (in.machine.state == Starting || in.machine.state == Spawning) {
		t.ReadyNumber, t.ReadyFD = p.Ready.FD, in.sup.inherit(r.Ready)
	}
}

// tellPatience bounds how long a start waits for the event log.
const tellPatience = time.Second

// inherit returns the descriptor that the keeper had under the name, -1 if it had none. Only the first who asks gets it.
func (s *Supervisor) inherit(name string) int {
	fd, ok := s.inherited[name]
	if !ok || name == "" {
		return -1
	}
	delete(s.inherited, name)
	s.keeping.use(name)
	return fd
}

// attachAdopted gives the instance the read ends of its FIFOs.
func (s *Supervisor) attachAdopted(a *adoption) {
	in, t := a.in, a.adoptee
	_, kept := a.saved.fifos()
	if a.saved.Run != nil {
		program := in.program
		if a.saved.Run.Table != nil {
			program = a.saved.Run.Table
		}
		var unplaced []logs.Stream
		if r := a.saved.Run; r.ReadyAt == 0 && awaitsLine(program) {
			for which, from := range [...]string{logs.Stdout: r.PrintsFrom, logs.Stderr: r.StderrFrom} {
				if from == "" {
					unplaced = append(unplaced, logs.Stream(which))
				}
			}
		}
		in.capture.ResumeRun(a.saved.Run.ID, unplaced...)
	}
	if d := a.saved.Dropped; d != nil {
		in.capture.RestoreDrops(*d)
	}
	for _, o := range t.Outputs {
		if o.Err != nil {
			in.remark().noOutput = o.Err.Error()
			if t.Found != nil {
				s.log.Error("output is not captured", "instance", in.name, "error", o.Err)
			}
		}
		if o.ReadFD < 0 {
			continue
		}
		name := kept[o.Stream]
		if o.gap {
			name, a.rekept = s.keep(o.ReadFD, true), true
		}
		if o.Stream == input {
			in.takeInput(o.ReadFD, name)
			continue
		}
		in.kept[o.Stream] = keptNameOf(name)
		if err := in.capture.Attach(o.Stream, o.ReadFD); err != nil {
			s.log.Error("output is not captured", "instance", in.name, "error", err)
		}
	}
	if !a.gap && a.saved.Drain != "" {
		in.drain(a.saved.Drain)
	}
}

// outputLost says that nobody held the read end of a pipe when its program ended.
const outputLost = "its last output may be lost, as no superd was there to take it"

// tellGap records that output may be lost, and reports whether it is so: a process has ended while nobody held the read end of its pipe, or before
// all of it was taken out.
func (a *adoption) tellGap() bool {
	if !a.gap {
		return false
	}
	var runs []string
	if p, b := a.saved.process(); (p != nil || b != nil) && a.adoptee.Ended {
		runs = append(runs, a.saved.Run.ID)
		a.in.remark().note = outputLost
	}
	if a.saved.Drain != "" {
		runs = append(runs, a.saved.Drain)
	}
	for _, run := range runs {
		a.in.record(eventlog.Event{Kind: eventlog.Output, Run: run, Reason: outputLost})
	}
	return len(runs) > 0
}

// strayText names the processes that keep an instance from being started.
func strayText(strays []Stray) string {
	const shown = 5
	text := ""
	for i, stray := range strays {
		if i == shown {
			return text + fmt.Sprintf(" and %d more", len(strays)-shown)
		}
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(stray.Pid) + " (" + stray.Command + ")"
	}
	return text
}
