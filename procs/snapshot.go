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
	"slices"
	"strings"
	"sync"

	"superd/config"
	"superd/internal/workers"
	"superd/procs/fsm"
	"superd/procs/journal"
	"superd/procs/schedule"
)

// A Snapshot is what a predecessor has recorded. It is read before the supervisor is created.
type Snapshot struct {
	Incomplete bool // processes may live that the journal does not have
	Clean      bool // the predecessor ended in order: it spared all processes that live

	otherBoot bool
	// Runs whose started processes a damaged journal may not have
	uncertainRuns map[string]bool
	existed       bool
	self          savedSuperd
	configs       map[uint64]*config.Config
	instances     map[string]*savedInstance
	starts        map[string]*savedStart // newest start of each instance
	scales        map[string]scale       // by program
	keys          []string               // keys that are not needed any more
	// Progress of schedules, after an orderly end and from an earlier boot
	schedules map[string]schedule.State
	lastStart uint64
}

// A Restorer decodes an archived configuration, as [config.Restore] does.
type Restorer func(archive []byte) (*config.Config, error)

// ReadSnapshot decodes a journal. It logs records that it can't decode. They count as unknown and
// make the snapshot incomplete.
func ReadSnapshot(state *journal.State, restore Restorer, log *slog.Logger) *Snapshot {
	r := &Snapshot{existed: state.Existed, configs: map[uint64]*config.Config{}, instances: map[string]*savedInstance{}, starts: map[string]*savedStart{}, schedules: map[string]schedule.State{}}
	if state.OtherBoot {
		log.Info("journal of an earlier boot ignored: its programs are gone")
		r.keys = slices.Collect(maps.Keys(state.Values))
		r.readSchedules(state, log)
		r.readInstances(state, log)
		for name, v := range r.instances {
			if v.Schedule != nil {
				r.schedules[name] = *v.Schedule // the wall clock runs across boots
			}
		}
		clear(r.instances)
		r.otherBoot = true
		// Processes may have been restored, as from a checkpoint
		r.lastStart, r.Incomplete = 0, true
		return r
	}
	r.Incomplete = state.Damaged > 0 || state.MissingBytes != 0
	if text, ok := state.Values[superdKey]; ok {
		if err := json.Unmarshal(text, &r.self); err != nil {
			r.logBadRecord(superdKey, err, log)
		}
	} else {
		r.Incomplete = true
	}
	restored := restoreEarly(state, r.self.Config, restore)
	r.readInstances(state, log)
	for key, text := range state.Values {
		if name, number, ok := instanceOfStart(key); ok {
			r.readStart(name, number, key, text, log)
		}
	}
	r.findNewest(state)
	r.readConfigs(state, restored(), log)
	r.readSchedules(state, log)
	r.readScales(state, log)
	if r.Incomplete && state.Existed {
		log.Warn("journal incomplete: scanning /proc for processes of the predecessor")
	}
	return r
}

func (r *Snapshot) logBadRecord(key string, err error, log *slog.Logger) {
	r.Incomplete = true
	log.Warn("journal record not understood", "key", key, "error", err)
}

// findNewest finds the newest configuration to which any record refers. superd's own record may
// refer to an older one.
func (r *Snapshot) findNewest(state *journal.State) {
	newest := r.self.Config
	for _, v := range r.instances {
		newest = max(newest, v.Config)
	}
	for _, start := range r.starts {
		newest = max(newest, start.Config)
	}
	if there, ok := newestConfig(configNumbers(state), r.self.Config, newest); ok {
		r.self.Before = r.oldest()
		r.self.Config = there
	}
}

func configNumbers(state *journal.State) (numbers []uint64) {
	for key := range state.Values {
		if n, ok := numberOfConfig(key); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// newestConfig returns the greatest of the numbers that are greater than after and at most last.
func newestConfig(numbers []uint64, after, last uint64) (newest uint64, ok bool) {
	for _, n := range numbers {
		if n > after && n <= last && n > newest {
			newest, ok = n, true
		}
	}
	return newest, ok
}

// restoreEarly restores the configuration of that number in another goroutine: it takes a while,
// and is probably the active one. The returned function waits for it, and returns one that restores
// a configuration by its number.
func restoreEarly(state *journal.State, number uint64, restore Restorer) func() func(number uint64) (*config.Config, error) {
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

func (r *Snapshot) readConfigs(state *journal.State, restore func(number uint64) (*config.Config, error), log *slog.Logger) {
	for key := range state.Values {
		number, ok := numberOfConfig(key)
		if !ok {
			continue
		}
		if number > r.self.Config || number < r.oldest() {
			r.keys = append(r.keys, key) // it is not active
			continue
		}
		conf, err := restore(number)
		if err != nil {
			r.logBadRecord(key, err, log)
			continue
		}
		r.configs[number] = conf
	}
	// A record may refer to a configuration that is not written yet. A missing configuration was
	// never reported as active.
	if oldest := r.oldest(); r.self.Config > oldest {
		r.self.Config = oldest
		if there, ok := newestConfig(slices.Collect(maps.Keys(r.configs)), oldest, math.MaxUint64); ok {
			r.self.Config = there
		}
	}
	// It is removed when all effects of later ones are saved
	if r.self.Before != 0 && r.configs[r.self.Before] == nil && r.configs[r.self.Config] != nil {
		r.self.Before = 0
		for number := range r.configs {
			if number < r.self.Config {
				r.keys = append(r.keys, configKey(number))
			}
		}
	}
}

// oldest returns the number of the configuration that stays active until the effects of later ones
// are applied.
func (r *Snapshot) oldest() uint64 {
	if r.self.Before != 0 {
		return r.self.Before
	}
	return r.self.Config
}

func (r *Snapshot) readSchedules(state *journal.State, log *slog.Logger) {
	for key, text := range state.Values {
		name, ok := strings.CutPrefix(key, "schedule/")
		if !ok {
			continue
		}
		var progress schedule.State
		if err := json.Unmarshal(text, &progress); err != nil {
			log.Warn("journal record not understood", "key", key, "error", err)
			r.keys = append(r.keys, key)
			continue
		}
		r.schedules[name] = progress
	}
}

// readInstances decodes the instances' records on all processors: there may be ten thousand.
func (r *Snapshot) readInstances(state *journal.State, log *slog.Logger) {
	var names []string
	for key := range state.Values {
		if name, ok := strings.CutPrefix(key, "instance/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	values, errs := make([]savedInstance, len(names)), make([]error, len(names))
	workers.Each(len(names), func(i int) {
		if errs[i] = json.Unmarshal(state.Values[instanceKey(names[i])], &values[i]); errs[i] == nil {
			errs[i] = values[i].check()
		}
	})
	for i, name := range names {
		if errs[i] != nil {
			r.logBadRecord(instanceKey(name), errs[i], log)
			continue
		}
		r.instances[name] = &values[i]
		r.lastStart = max(r.lastStart, values[i].LastCompletedStart)
	}
}

// check returns an error for values that this superd can't use.
func (v *savedInstance) check() error {
	m := v.machine()
	if err := m.Check(); err != nil {
		return err
	}
	state, err := fsm.ParseState(v.State)
	if err != nil {
		return err
	}
	main, run := state.Lives(), v.Run != nil
	if run != state.HasRun() || main && v.Run.Main == nil {
		return fmt.Errorf("state %s does not fit the run", v.State)
	}
	if v.Due != nil && !state.MayRetry() {
		return fmt.Errorf("state %s with a pending restart", v.State)
	}
	if run && v.Run.Hook != nil && !isHookNumber(v.Run.Hook.At) {
		return fmt.Errorf("hook %d", v.Run.Hook.At)
	}
	if v.Definition != nil && v.Definition.Settings == nil || run && v.Run.Definition != nil && v.Run.Definition.Settings == nil {
		return errors.New("a definition without settings")
	}
	return nil
}

// isHookNumber reports whether a program can have a hook of that index.
func isHookNumber(at int) bool { return at >= 0 && at < 10_000 }

func (r *Snapshot) readStart(name string, number uint64, key string, text []byte, log *slog.Logger) {
	r.keys = append(r.keys, key)
	r.lastStart = max(r.lastStart, number)
	start := &savedStart{}
	err := json.Unmarshal(text, start)
	if err == nil && start.Hook != nil && !isHookNumber(*start.Hook) {
		err = fmt.Errorf("hook %d", *start.Hook)
	}
	if err != nil {
		r.logBadRecord(key, err, log)
		return
	}
	start.number = number
	if known := r.starts[name]; known == nil || known.number < number {
		r.starts[name] = start
	}
}

// Config returns the configuration that was active; nil if it is unknown.
func (r *Snapshot) Config() *config.Config { return r.configs[r.self.Config] }

// Lives reports whether the journal has runs, whose processes may live.
func (r *Snapshot) Lives() bool {
	if len(r.starts) > 0 {
		return true
	}
	for _, v := range r.instances {
		if v.Run != nil {
			return true
		}
	}
	return false
}

// definition returns the definition of an instance's program in the configuration of that number
// or, if it is removed, the next one in the journal; nil if there is none.
func (r *Snapshot) definition(number uint64, instance string) *config.Program {
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

// merge returns the record v of an instance with its newest start record applied; start may be nil.
// Without a record, v is nil: then autostart, from the configuration of that number, says whether
// the instance is wanted up.
func merge(v *savedInstance, start *savedStart, autostart bool, number uint64) *savedInstance {
	if v == nil {
		v = &savedInstance{Config: number, State: fsm.Stopped.Name(), Outcome: fsm.WantUp.OutcomeName()}
		if autostart {
			v.Desired = fsm.Target{Up: true, By: fsm.By(fsm.ActorConfiguration)}.Snapshot()
		}
	}
	if start == nil || start.number <= v.LastCompletedStart {
		return v
	}
	merged, run := *v, savedRun{ID: start.Run}
	if v.Run != nil && v.Run.ID == start.Run {
		run = *v.Run
	} else { // the earlier run is over
		merged.State, merged.Due, merged.RestartPending = fsm.Spawning.Name(), nil, false
		merged.FailureReason = fsm.SavedReason{}
	}
	run.HadProcess = true
	merged.Run, merged.LastCompletedStart = &run, start.number
	merged.RunPending = true // without a schedule it has no effect
	if start.Schedule != nil && (v.Schedule == nil || !start.Schedule.Before(*v.Schedule)) {
		merged.Schedule = start.Schedule // otherwise another time was due during the start
	}
	merged.Output = true // the FIFO was created before
	merged.FDName, merged.StderrFDName = cmp.Or(start.FDNames[0], v.FDName), cmp.Or(start.FDNames[1], v.StderrFDName)
	if start.Hook == nil {
		run.PreStarted, run.Hook, run.start = true, nil, start
	} else {
		run.Hook = &savedHook{At: *start.Hook, start: start}
		if start.PostStop && merged.State != fsm.TearingDown.Name() {
			merged.State, run.ended = fsm.Running.Name(), true
		}
	}
	return &merged
}

// SameOr returns a [Restorer] that returns known for the archive of known, and calls restore for
// others.
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
