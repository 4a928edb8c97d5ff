package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"superd/config"
	"superd/internal/workers"
	"superd/procs/fsm"
	"superd/procs/journal"
	"superd/procs/schedule"
)

// Read returns what the journal says. What it refuses makes the snapshot incomplete, except for
// scales, rolls, schedules and totals: no process depends on these. restore decodes configurations;
// one that fails counts as unknown, too. It is called on several goroutines.
func Read(state *journal.State, restore Restorer) *Snapshot {
	s := &Snapshot{
		Existed: state.Existed, OtherBoot: state.OtherBoot,
		Configs: map[uint64]*config.Config{}, Instances: map[string]*Instance{},
		Starts: map[string]*Start{}, Scales: map[string]Scale{}, Rolls: map[string]Roll{},
		Schedules: map[string]schedule.State{}, Sockets: map[string]Socket{},
	}
	var records [kindCount][]record
	for _, text := range slices.Sorted(maps.Keys(state.Values)) {
		k := parseKey(text)
		records[k.kind] = append(records[k.kind], record{k, text, state.Values[text]})
	}
	if state.OtherBoot {
		s.readOtherBoot(&records)
		return s
	}
	s.Incomplete = state.Damaged > 0 || state.MissingBytes != 0 || len(records[superdRecord]) == 0
	for _, r := range records[superdRecord] {
		if err := json.Unmarshal(r.value, &s.Superd); err != nil {
			s.refuse(r, err)
		}
	}
	restored := restoreEarly(records[configRecord], s.Superd.Config, restore)
	s.readInstances(records[instanceRecord])
	s.readStarts(records[startRecord])
	s.findNewest(records[configRecord])
	s.readConfigs(records[configRecord], restored())
	s.readSchedules(records[scheduleRecord])
	s.readScales(records[scaleRecord])
	s.readSockets(records[socketRecord])
	s.readRolls(records[rollRecord])
	for _, r := range records[totalsRecord] {
		if err := json.Unmarshal(r.value, &s.Totals); err != nil {
			s.drop(r, err)
		}
	}
	return s
}

// readOtherBoot reads a journal of an earlier boot. Its programs are gone, but the wall clock runs
// across boots, and with it the schedules. It is incomplete: processes may have been restored, as
// from a checkpoint.
func (s *Snapshot) readOtherBoot(records *[kindCount][]record) {
	s.readSchedules(records[scheduleRecord])
	s.readInstances(records[instanceRecord])
	for name, v := range s.Instances {
		if v.Schedule != nil {
			s.Schedules[name] = *v.Schedule
		}
	}
	clear(s.Instances)
	s.Obsolete = nil
	for _, all := range records {
		for _, r := range all {
			s.Obsolete = append(s.Obsolete, r.text)
		}
	}
	s.LastStart, s.Incomplete = 0, true
}

// readInstances decodes the instances' records on all processors: there may be ten thousand.
func (s *Snapshot) readInstances(records []record) {
	values, errs := make([]Instance, len(records)), make([]error, len(records))
	workers.Each(len(records), func(i int) {
		if errs[i] = json.Unmarshal(records[i].value, &values[i]); errs[i] == nil {
			errs[i] = values[i].Check()
		}
	})
	for i, r := range records {
		if errs[i] != nil {
			s.refuse(r, errs[i])
			continue
		}
		s.Instances[r.name] = &values[i]
		s.LastStart = max(s.LastStart, values[i].LastCompletedStart)
	}
}

// Check returns an error for values that this superd can't use.
func (v *Instance) Check() error {
	machine := v.Machine()
	if err := machine.Check(); err != nil {
		return err
	}
	state, err := fsm.ParseState(v.State)
	if err != nil {
		return err
	}
	run := v.Run != nil
	if run != state.HasRun() || state.Lives() && v.Run.Main == nil {
		return fmt.Errorf("state %s does not fit the run", v.State)
	}
	if v.Due != nil && !state.MayRetry() {
		return fmt.Errorf("state %s with a pending restart", v.State)
	}
	if v.Due != nil && state == fsm.Failed && v.Outcome != fsm.RunEndedStartLimit.OutcomeName() {
		return fmt.Errorf("state %s with outcome %s and a pending restart", v.State, v.Outcome)
	}
	if run && v.Run.Hook != nil && !isHookIndex(v.Run.Hook.At) {
		return fmt.Errorf("hook %d", v.Run.Hook.At)
	}
	for _, p := range []*config.Program{v.Definition, v.RunDefinition(nil)} {
		if p != nil && p.Settings == nil {
			return errors.New("a definition without settings")
		}
	}
	return nil
}

// isHookIndex reports whether a program can have a hook of that index.
func isHookIndex(at int) bool { return at >= 0 && at < 10_000 }

func (s *Snapshot) readStarts(records []record) {
	for _, r := range records {
		s.Obsolete = append(s.Obsolete, r.text)
		s.LastStart = max(s.LastStart, r.number)
		start := &Start{Number: r.number}
		err := json.Unmarshal(r.value, start)
		if err == nil && start.Hook != nil && !isHookIndex(*start.Hook) {
			err = fmt.Errorf("hook %d", *start.Hook)
		}
		if err != nil {
			s.refuse(r, err)
			continue
		}
		if known := s.Starts[r.name]; known == nil || known.Number < r.number {
			s.Starts[r.name] = start
		}
	}
}

func (s *Snapshot) readSchedules(records []record) {
	for _, r := range records {
		var progress schedule.State
		if err := json.Unmarshal(r.value, &progress); err != nil {
			s.drop(r, err)
			continue
		}
		s.Schedules[r.name] = progress
	}
}

func (s *Snapshot) readScales(records []record) {
	for _, r := range records {
		var v Scale
		err := json.Unmarshal(r.value, &v)
		if err == nil && (v.Replicas < 0 || v.Replicas > config.MaxReplicas) {
			err = fmt.Errorf("%d replicas", v.Replicas)
		}
		if err != nil {
			s.drop(r, err)
			continue
		}
		s.Scales[r.name] = v
	}
}

// readSockets decodes the records of sockets. One that is lost is opened again.
func (s *Snapshot) readSockets(records []record) {
	for _, r := range records {
		var v Socket
		if err := json.Unmarshal(r.value, &v); err != nil {
			s.drop(r, err)
			continue
		}
		s.Sockets[r.name] = v
	}
}

func (s *Snapshot) readRolls(records []record) {
	for _, r := range records {
		var v Roll
		err := json.Unmarshal(r.value, &v)
		if err == nil {
			err = v.Check()
		}
		if err != nil {
			s.drop(r, err)
			continue
		}
		s.Rolls[r.name] = v
	}
}

// A Restorer decodes an archived configuration, as [config.Restore] does.
type Restorer func(archive []byte) (*config.Config, error)

// SameOr returns a [Restorer] that returns known for the archive of known, and calls restore for
// others. known may be nil.
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

// restoreEarly restores the configuration of that number in another goroutine: it takes a while,
// and is probably the active one. The returned function waits for it, and returns one that
// restores any record of a configuration.
func restoreEarly(records []record, number uint64, restore Restorer) func() func(record) (*config.Config, error) {
	var conf *config.Config
	var err error
	var done sync.WaitGroup
	i := slices.IndexFunc(records, func(r record) bool { return r.number == number })
	if i >= 0 {
		done.Go(func() { conf, err = restore(records[i].value) })
	}
	return func() func(record) (*config.Config, error) {
		done.Wait()
		return func(r record) (*config.Config, error) {
			if r.number == number {
				return conf, err
			}
			return restore(r.value)
		}
	}
}

// findNewest finds the newest configuration to which any record refers. superd's own record may
// refer to an older one.
func (s *Snapshot) findNewest(records []record) {
	newest := s.Superd.Config
	for _, v := range s.Instances {
		newest = max(newest, v.Config)
	}
	for _, start := range s.Starts {
		newest = max(newest, start.Config)
	}
	var numbers []uint64
	for _, r := range records {
		numbers = append(numbers, r.number)
	}
	if there, ok := newestConfig(numbers, s.Superd.Config, newest); ok {
		s.Superd.Before = s.Oldest()
		s.Superd.Config = there
	}
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

func (s *Snapshot) readConfigs(records []record, restore func(record) (*config.Config, error)) {
	for _, r := range records {
		if r.number > s.Superd.Config || r.number < s.Oldest() {
			s.Obsolete = append(s.Obsolete, r.text) // it is not active
			continue
		}
		conf, err := restore(r)
		if err != nil {
			s.refuse(r, err)
			continue
		}
		s.Configs[r.number] = conf
	}
	// A record may refer to a configuration that is not written yet. A missing configuration was
	// never reported as active.
	if oldest := s.Oldest(); s.Superd.Config > oldest {
		s.Superd.Config = oldest
		if there, ok := newestConfig(slices.Collect(maps.Keys(s.Configs)), oldest, math.MaxUint64); ok {
			s.Superd.Config = there
		}
	}
	// It is removed when all effects of later ones are saved
	if s.Superd.Before != 0 && s.Configs[s.Superd.Before] == nil && s.Configs[s.Superd.Config] != nil {
		s.Superd.Before = 0
		for _, number := range slices.Sorted(maps.Keys(s.Configs)) {
			if number < s.Superd.Config {
				s.Obsolete = append(s.Obsolete, ConfigKey(number))
			}
		}
	}
}
