package procs

import (
	"fmt"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/schedule"
)

// A scheduleModel is what an observer with knowledge of configuration and clocks expects of a
// schedule.
type scheduleModel struct {
	program *config.Program // program whose schedule is active; nil: none
	// First due time of an interval, on CLOCK_BOOTTIME; 0: none was due
	origin time.Duration
	// When a time was last due, or the schedule became active or a cron line began anew
	last      time.Duration
	dueFor    time.Time // scheduled time that was last due
	first     time.Time // first time that was due since the clock was set
	point     int64     // index of an interval in its grid, counted from 1
	donePoint int64     // newest point, which must not be due again
	stepped   bool      // whether the clock was set since the last time was due
	run       string    // last run that began
	begun     simPoint  // newest time that was due when that run began
	// Time of the last run with a main process; it must not be run again, whatever is lost
	ran simPoint
	// Whether the instance waited for its schedule in the previous turn
	early        bool
	mainsStarted int // main processes so far
	plan         schedule.State
	changed      time.Duration // when the jitter was changed, on CLOCK_BOOTTIME
}

// A simPoint is a time of a schedule.
type simPoint struct {
	number int64     // as point of [scheduleModel]; 0: none was due
	at     time.Time // zero: none was due, or the clock was set since
}

// newest returns the time that was last due.
func (s *scheduleModel) newest() simPoint {
	if s.stepped {
		return simPoint{number: s.point}
	}
	return simPoint{s.point, s.dueFor}
}

// A simLine is a schedule that the simulation draws.
type simLine struct {
	line  string
	pause time.Duration // longest pause between two times
}

var simLines = []simLine{{"@every 40s", 40 * time.Second}, {"@every 9m", 9 * time.Minute}, {"*/5 * * * *", 5 * time.Minute}, {"20 * * * *", time.Hour}}

func (h *history) drawSchedule(p *config.Program) {
	p.Schedule = simLines[h.rng.IntN(len(simLines))].line
	p.ScheduleMissed = []config.Missed{config.MissedOnce, config.MissedSkip}[h.rng.IntN(2)]
	p.ScheduleJitter = time.Duration(h.pick(0, 0, 30) * float64(time.Second))
}

func pauseOf(line string) time.Duration {
	for _, l := range simLines {
		if l.line == line {
			return l.pause
		}
	}
	panic(fmt.Sprintf("no such line: %q", line))
}

// changeClock sets the clock, by a little or by much, or lets the machine sleep.
func (h *history) changeClock() {
	d := h.upTo(2 * time.Hour)
	switch h.rng.IntN(4) {
	case 0:
		h.stepWall(d - time.Hour)
	case 1:
		h.stepWall(time.Duration(h.pick(-1, 1) * float64(365*24*time.Hour)))
	default:
		h.logf("the machine sleeps for %v", d)
		h.v.Sleep(d)
		h.slept += d
		h.kernel.Sleep()
		h.wokeAt = h.v.Boot()
	}
}

func (h *history) stepWall(d time.Duration) {
	h.logf("the clock is set by %v", d)
	h.v.StepWall(d)
	for _, m := range h.models {
		if s := &m.schedule; s.program != nil {
			s.stepped, s.begun.at, s.ran.at = true, time.Time{}, time.Time{}
			if s.program.Schedule[0] != '@' {
				s.last = h.v.Boot()
			}
		}
	}
}

// checkSchedule checks that each scheduled time is due once, and is run or rightly skipped.
func (h *history) checkSchedule(in instanceView, w *observedInstance) {
	model, p := w.model, in.program()
	s := &model.schedule
	if !p.Scheduled() || !w.target.Up || in.leaves() { // its schedule must not be active
		if s.program != nil {
			*s = scheduleModel{}
		}
		if s.early = w.state == fsm.Waiting && in.awaitsSchedule(); s.early && !w.target.Up {
			h.fail("%s waits for its schedule and is not wanted up", in.name())
		}
		return
	}
	early := in.awaitsSchedule()
	defer func() { s.early = early }()
	boot := h.now + h.slept
	switch {
	case s.program == nil || s.program.Schedule != p.Schedule:
		*s = scheduleModel{program: p, last: boot, dueFor: in.Schedule().DueFor(), stepped: true, mainsStarted: h.kernel.MainsStarted(in.name())}
		return
	}
	if s.program.ScheduleJitter != p.ScheduleJitter {
		s.changed = boot // a start that the old jitter delayed may be due now
	}
	s.program = p
	if !in.Schedule().HasNext() {
		h.fail("%s: its schedule %q has no further time", in.name(), p.Schedule)
	}
	if plan := in.Schedule().Progress(); plan != s.plan {
		if s.plan = plan; s.stepped {
			s.last = boot // the same time may be due again, which dueFor does not show
		}
	}
	pause := pauseOf(p.Schedule)
	jitter := min(p.ScheduleJitter, pause)
	known := s.newest() // due time of a run that began in this turn for an earlier time
	if !in.Schedule().DueFor().Equal(s.dueFor) {
		h.observeDue(in, s, pause, jitter)
		if s.early && !early {
			model.resetFailed() // the counters of retries are reset for each due time
		}
	}
	if r := in.Run(); r.Exists() && r.ID() != s.run {
		if s.run, s.begun = r.ID(), known; s.early {
			s.begun = s.newest()
		}
	}
	if born := h.kernel.MainsStarted(in.name()); born > s.mainsStarted {
		s.mainsStarted, s.ran = born, s.begun
	}
	deadline := max(s.last+pause, h.wokeAt, h.startedBoot, s.changed) + jitter + margin
	if boot > deadline {
		h.fail("%s: no time of %q was due for %v", in.name(), p.Schedule, boot-s.last)
	}
}

// observeDue checks a scheduled time that was due in this turn.
func (h *history) observeDue(in instanceView, s *scheduleModel, pause, jitter time.Duration) {
	p, boot, wall := s.program, h.now+h.slept, h.v.Wall()
	dueFor := in.Schedule().DueFor()
	late := wall.Sub(dueFor)
	if p.Schedule[0] != '@' && !s.stepped && !s.ran.at.IsZero() && !dueFor.After(s.ran.at) {
		h.fail("%s: %v was due after it was run for %v", in.name(), dueFor, s.ran.at)
	}
	switch {
	case late < -time.Second:
		h.fail("%s: %v was due %v before it came", in.name(), dueFor, -late)
	case p.Schedule[0] == '@':
		if s.origin == 0 {
			s.origin = boot - late
		}
		s.point = 1 + int64((boot-late-s.origin+pause/2)/pause)
		if s.point <= s.donePoint {
			h.fail("%s: point %d of %q was due after point %d was done", in.name(), s.point, p.Schedule, s.donePoint)
		}
		s.donePoint = 1 + int64((boot-s.origin)/pause)
	case !s.stepped && !dueFor.After(s.dueFor):
		h.fail("%s: %v was due after %v", in.name(), dueFor, s.dueFor)
	}
	skips := p.ScheduleMissed == config.MissedSkip
	skip := skips && late > jitter+2*time.Second
	early := in.awaitsSchedule()
	switch {
	case !s.early || skips && !skip && late >= time.Second: // delayed by jitter, or missed
	case skip && !early:
		h.fail("%s was started for %v, missed by %v and to be skipped", in.name(), dueFor, late)
	case !skip && early:
		h.fail("%s was not started for %v", in.name(), dueFor)
	}
	if s.stepped {
		s.first = dueFor
	}
	s.last, s.dueFor, s.stepped = boot, dueFor, false
}

// resyncSchedule updates the model after superd was killed. known reports whether the old state was
// written.
func (h *history) resyncSchedule(in instanceView, model *model, known bool) {
	s := &model.schedule
	if !in.Schedule().Exists() || !known && s.ran == (simPoint{}) {
		*s = scheduleModel{} // the schedule may begin anew
		return
	}
	if !known { // only the start record of the last run is known
		s.donePoint, s.point = s.ran.number, s.ran.number
	}
	if d := in.Schedule().DueFor(); !d.IsZero() && (d.Before(s.first) || d.After(s.dueFor)) {
		s.stepped = true // the recorded time precedes the step of the clock
	}
	s.dueFor, s.early = in.Schedule().DueFor(), false
}
