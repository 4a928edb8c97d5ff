package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"superd/config"
)

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
