package procs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"superd/config"
	"superd/procs/journal"
	"superd/procs/schedule"
)

// A Recovery is what the last superd has left for this one. It is read before a supervisor is made of it.
type Recovery struct {
	Incomplete bool // something may live of which the journal doesn't tell
	Clean      bool // the last superd came to an orderly end: what lives was left alone

	existed   bool
	self      savedSuperd
	configs   map[uint64]*config.Config
	instances map[string]*savedInstance
	births    map[string]*savedBirth    // the newest of each instance
	scales    map[string]scale          // by program
	keys      []string                  // that are not needed any more
	schedules map[string]schedule.State // of those that ended in order, and of an earlier boot
	lastBirth uint64
}

// A Restorer makes configurations of their archives, as [config.Restore] does.
type Restorer func(archive []byte) (*config.Config, error)

// ReadRecovery makes sense of a journal. log is told what can't be understood; what is missing then counts as not known, and makes the recovery
// incomplete.
func ReadRecovery(state *journal.State, restore Restorer, log *slog.Logger) *Recovery {
	r := &Recovery{existed: state.Existed, configs: map[uint64]*config.Config{}, instances: map[string]*savedInstance{}, births: map[string]*savedBirth{}, schedules: map[string]schedule.State{}}
	if state.OtherBoot {
		log.Info("journal of an earlier boot passed over: its programs are gone")
		r.keys = slices.Collect(maps.Keys(state.Values))
		r.readSchedules(state, log)
		r.readInstances(state, log)
		for name, v := range r.instances {
			if v.Schedule != nil {
				r.schedules[name] = *v.Schedule // the clock goes on
			}
		}
		clear(r.instances)
		r.lastBirth, r.Incomplete = 0, true // unless somebody has brought them back with their memory
		return r
	}
	r.Incomplete = state.Damaged > 0
	if text, ok := state.Values[superdKey]; ok {
		if err := json.Unmarshal(text, &r.self); err != nil {
			r.misread(superdKey, err, log)
		}
	} else {
		r.Incomplete = true
	}
	restored := restoreAhead(state, r.self.Config, restore)
	r.readInstances(state, log)
	for key, text := range state.Values {
		if name, number, ok := instanceOfBirth(key); ok {
			r.readBirth(name, number, key, text, log)
		}
	}
	r.findNewest(state)
	r.readConfigs(state, restored(), log)
	r.readSchedules(state, log)
	r.readScales(state, log)
	if r.Incomplete && state.Existed {
		log.Warn("not everything is known of what the last superd has left: what lives of it is looked for in /proc")
	}
	return r
}

func (r *Recovery) misread(key string, err error, log *slog.Logger) {
	r.Incomplete = true
	log.Warn("record of the journal not understood", "key", key, "error", err)
}

// findNewest has the newest configuration be in force by which anything has happened, whatever superd's own record says: that may be an older one.
func (r *Recovery) findNewest(state *journal.State) {
	newest := r.self.Config
	for _, v := range r.instances {
		newest = max(newest, v.Config)
	}
	for _, b := range r.births {
		newest = max(newest, b.Config)
	}
	if there, ok := newestConfig(configNumbers(state), r.self.Config, newest); ok {
		r.self.Before = r.oldest()
		r.self.Config = there
	}
}

// configNumbers returns the numbers of the configurations that the journal has.
func configNumbers(state *journal.State) (numbers []uint64) {
	for key := range state.Values {
		if n, ok := numberOfConfig(key); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// newestConfig returns the greatest of the numbers above after and up to last.
func newestConfig(numbers []uint64, after, last uint64) (newest uint64, ok bool) {
	for _, n := range numbers {
		if n > after && n <= last && n > newest {
			newest, ok = n, true
		}
	}
	return newest, ok
}

// restoreAhead has the configuration of that number restored beside other work: it takes a while, and is most likely the one in force. What it returns waits for
// that, and returns what gives each its configuration.
func restoreAhead(state *journal.State, number uint64, restore Restorer) func() func(number uint64) (*config.Config, error) {
	var conf *config.Config
	var err error
	var done sync.WaitGroup
	archive, ok := state.Values[configKey(number)]
	if ok {
		done.Go(func() { conf, err = restore(archive) })
	}
	return func() func(uint64) (*config.Config, error) {
		done.Wait()
		return func(n uint64) (*config.Config, error) {
			if ok && n == number {
				return conf, err
			}
			return restore(state.Values[configKey(n)])
		}
	}
}

func (r *Recovery) readConfigs(state *journal.State, restore func(number uint64) (*config.Config, error), log *slog.Logger) {
	for key := range state.Values {
		number, ok := numberOfConfig(key)
		if !ok {
			continue
		}
		if number > r.self.Config || number < r.oldest() {
			r.keys = append(r.keys, key) // it has not come into force, or is out of it
			continue
		}
		conf, err := restore(number)
		if err != nil {
			r.misread(key, err, log)
			continue
		}
		r.configs[number] = conf
	}
	// The number may be there before the configuration is. Of one that is not there nobody has been told that it is in force.
	if oldest := r.oldest(); r.self.Config > oldest {
		r.self.Config = oldest
		if there, ok := newestConfig(slices.Collect(maps.Keys(r.configs)), oldest, math.MaxUint64); ok {
			r.self.Config = there
		}
	}
}

// oldest returns the number of the configuration that is in force until what follows from the next ones is done.
func (r *Recovery) oldest() uint64 {
	if r.self.Before != 0 {
		return r.self.Before
	}
	return r.self.Config
}

func (r *Recovery) readSchedules(state *journal.State, log *slog.Logger) {
	for key, text := range state.Values {
		name, ok := strings.CutPrefix(key, "schedule/")
		if !ok {
			continue
		}
		var left schedule.State
		if err := json.Unmarshal(text, &left); err != nil {
			log.Warn("record of the journal not understood", "key", key, "error", err)
			r.keys = append(r.keys, key)
			continue
		}
		r.schedules[name] = left
	}
}

// readInstances decodes the instances' records, on all processors: there may be ten thousand.
func (r *Recovery) readInstances(state *journal.State, log *slog.Logger) {
	var names []string
	for key := range state.Values {
		if name, ok := strings.CutPrefix(key, "instance/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	values, errs := make([]savedInstance, len(names)), make([]error, len(names))
	inParallel(len(names), func(i int) {
		if errs[i] = json.Unmarshal(state.Values[instanceKey(names[i])], &values[i]); errs[i] == nil {
			errs[i] = values[i].check()
		}
	})
	for i, name := range names {
		if errs[i] != nil {
			r.misread(instanceKey(name), errs[i], log)
			continue
		}
		r.instances[name] = &values[i]
		r.lastBirth = max(r.lastBirth, values[i].Settled)
	}
}

// check reports what this superd can't make sense of.
func (v *savedInstance) check() error {
	state, err := nameOf[State](stateNames[:], v.State)
	if err != nil {
		return err
	}
	verdict, err := nameOf[Event](eventNames[:], v.Verdict)
	if err != nil {
		return err
	}
	main, run := state.lives(), v.Run != nil
	if run != (main || state == Spawning || state == Clearing) || main && v.Run.Main == nil {
		return fmt.Errorf("state %s and run don't fit", v.State)
	}
	if !v.Wanted.Up && (state == Starting || state == Running) {
		return fmt.Errorf("it is %s and not wanted", v.State)
	}
	if state == Clearing && (verdict < EndRetry || verdict > EndWait) {
		return fmt.Errorf("state %s with the verdict %s", v.State, v.Verdict)
	}
	if v.Due != nil && rules[state][RestartDue] == nil {
		return fmt.Errorf("state %s with a start that is due", v.State)
	}
	if run && v.Run.Hook != nil && !isHookNumber(v.Run.Hook.At) {
		return fmt.Errorf("hook %d", v.Run.Hook.At)
	}
	if v.Table != nil && v.Table.Settings == nil || run && v.Run.Table != nil && v.Run.Table.Settings == nil {
		return errors.New("a table of a program without settings")
	}
	return nil
}

// isHookNumber reports whether a program may have so many hooks before this one.
func isHookNumber(at int) bool { return at >= 0 && at < 10_000 }

func (r *Recovery) readBirth(name string, number uint64, key string, text []byte, log *slog.Logger) {
	r.keys = append(r.keys, key)
	r.lastBirth = max(r.lastBirth, number)
	b := &savedBirth{}
	err := json.Unmarshal(text, b)
	if err == nil && b.Hook != nil && !isHookNumber(*b.Hook) {
		err = fmt.Errorf("hook %d", *b.Hook)
	}
	if err != nil {
		r.misread(key, err, log)
		return
	}
	b.number = number
	if known := r.births[name]; known == nil || known.number < number {
		r.births[name] = b
	}
}

// Config returns the configuration that was in force, nil where it is not known.
func (r *Recovery) Config() *config.Config { return r.configs[r.self.Config] }

// Lives reports whether the journal tells of programs that may live.
func (r *Recovery) Lives() bool {
	if len(r.births) > 0 {
		return true
	}
	for _, v := range r.instances {
		if v.Run != nil {
			return true
		}
	}
	return false
}

// table returns the table of an instance in the configuration with that number, or the one that took its place; nil if there is none.
func (r *Recovery) table(number uint64, instance string) *config.Program {
	best := uint64(math.MaxUint64)
	for n := range r.configs {
		if n >= number && n < best {
			best = n
		}
	}
	conf := r.configs[best]
	if conf == nil {
		return nil
	}
	return conf.Program(programOf(instance))
}

// merge returns what is to be known of an instance, with its newest birth. b is nil without one; v is nil where there is no record of the
// instance: then its configuration, which has that number, says whether it is to be up.
func merge(v *savedInstance, b *savedBirth, autostart bool, number uint64) *savedInstance {
	if v == nil {
		v = &savedInstance{Config: number, State: stateNames[Stopped], Verdict: eventNames[WantUp]}
		if autostart {
			v.Wanted = savedWish{true, theConfiguration}
		}
	}
	if b == nil || b.number <= v.Settled {
		return v
	}
	merged, run := *v, savedRun{ID: b.Run}
	if v.Run != nil && v.Run.ID == b.Run {
		run = *v.Run
	} else { // nothing is left of the run before
		merged.State, merged.Due, merged.Again, merged.Blame = stateNames[Spawning], nil, false, ""
	}
	run.Touched = true
	merged.Run, merged.Settled = &run, b.number
	merged.Owed = true // where there is a schedule
	if b.Schedule != nil && (v.Schedule == nil || v.Schedule.Boot <= b.Schedule.Boot) {
		merged.Schedule = b.Schedule // else more was due while the start was on its way
	}
	merged.Output = true // it was made before
	merged.Kept, merged.KeptStderr = cmp.Or(b.Kept[0], v.Kept), cmp.Or(b.Kept[1], v.KeptStderr)
	switch {
	case b.Hook == nil:
		run.PreStarted, run.Hook, run.birth = true, nil, b
	default:
		run.Hook = &savedHook{At: *b.Hook, birth: b}
		if b.PostStop && merged.State != stateNames[Clearing] {
			merged.State, run.ended = stateNames[Running], true
		}
	}
	return &merged
}

// inParallel calls f for 0 to n-1 on all processors.
func inParallel(n int, f func(i int)) {
	const share = 64
	workers := min(runtime.GOMAXPROCS(0), (n+share-1)/share)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				f(i)
			}
		})
	}
	all.Wait()
}

// SameOr returns a [Restorer] that takes known for the configuration of its own archive, and restores others.
func SameOr(known *config.Config, restore Restorer) Restorer {
	own := sync.OnceValue(func() []byte { return bytes.TrimSpace(known.Archive()) })
	return func(archive []byte) (*config.Config, error) {
		if known != nil && bytes.Equal(archive, own()) {
			return known, nil
		}
		conf, err := restore(archive)
		if err != nil {
			return nil, fmt.Errorf("restore configuration: %w", err)
		}
		return conf, nil
	}
}
