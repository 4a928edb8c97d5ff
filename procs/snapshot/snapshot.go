package snapshot

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"superd/config"
	"superd/procs/counters"
	"superd/procs/schedule"
)

// A Snapshot is what a predecessor has recorded.
type Snapshot struct {
	Existed    bool // there was a journal
	OtherBoot  bool // it is of an earlier boot: no instance is set
	Incomplete bool // processes may live that the journal does not have

	// Record of superd, but the active configuration is the newest to which any record refers
	Superd    Superd
	Configs   map[uint64]*config.Config // active configuration, and those that it replaces
	Instances map[string]*Instance
	Starts    map[string]*Start // newest start of each instance
	Scales    map[string]Scale  // by program
	Sockets   map[string]Socket // by the name in the descriptor store
	Rolls     map[string]Roll   // rolling restarts under way, by program
	Totals    counters.Totals   // by instance
	// Progress of schedules, after an orderly end or from an earlier boot
	Schedules map[string]schedule.State
	LastStart uint64 // greatest number of a start

	Obsolete []string // keys that are not needed any more
	Refused  []BadRecord
}

// A BadRecord is a record that this superd can't use. It counts as unknown.
type BadRecord struct {
	Key string
	Err error
}

// String returns what is wrong, and what is used instead.
func (r BadRecord) String() string {
	switch parseKey(r.Key).kind {
	case rollRecord:
		return "journal record not understood: the rolling restart ends here"
	case scaleRecord:
		return "journal record not understood: using the replicas of the configuration"
	default:
		return "journal record not understood"
	}
}

// A record is a record of the journal before it is decoded.
type record struct {
	key
	text  string // of the key
	value json.RawMessage
}

// refuse refuses a record on which processes depend.
func (s *Snapshot) refuse(r record, err error) {
	s.Incomplete = true
	s.Refused = append(s.Refused, BadRecord{r.text, err})
}

// drop refuses a record on which no process depends, and which is replaced.
func (s *Snapshot) drop(r record, err error) {
	s.Obsolete = append(s.Obsolete, r.text)
	s.Refused = append(s.Refused, BadRecord{r.text, err})
}

// Config returns the configuration that was active; nil if it is unknown.
func (s *Snapshot) Config() *config.Config { return s.Configs[s.Superd.Config] }

// Oldest returns the number of the configuration that stays active until the effects of later ones
// are applied.
func (s *Snapshot) Oldest() uint64 {
	if s.Superd.Before != 0 {
		return s.Superd.Before
	}
	return s.Superd.Config
}

// Definition returns the definition of an instance's program in the configuration of that number
// or, if it is removed, the next one in the journal; nil if there is none.
func (s *Snapshot) Definition(number uint64, instance string) *config.Program {
	best := uint64(math.MaxUint64)
	for n := range s.Configs {
		if n >= number && n < best {
			best = n
		}
	}
	conf := s.Configs[best]
	if conf == nil {
		return nil
	}
	return conf.Program(config.ProgramOf(instance))
}

// Lives reports whether the journal has runs, whose processes may live.
func (s *Snapshot) Lives() bool {
	if len(s.Starts) > 0 {
		return true
	}
	for _, v := range s.Instances {
		if v.Run != nil {
			return true
		}
	}
	return false
}

// Names returns the names of the instances that the journal has, in order.
func (s *Snapshot) Names() []string {
	names := map[string]bool{}
	for name := range s.Instances {
		names[name] = true
	}
	for name := range s.Starts {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Runs returns the runs that the journal has. Processes of any other run are leftover processes.
func (s *Snapshot) Runs() map[string]bool {
	runs := map[string]bool{}
	for _, v := range s.Instances {
		if v.Run != nil {
			runs[v.Run.ID] = true
		}
	}
	for _, start := range s.Starts {
		runs[start.Run] = true
	}
	return runs
}

// FDNames returns the names in the descriptor store that the journal has. Some may occur twice.
func (s *Snapshot) FDNames() []string {
	var names []string
	for _, v := range s.Instances {
		names = append(names, v.FDNames()...)
	}
	for _, start := range s.Starts {
		names = append(names, start.Notify, start.Ready, start.FDNames[0], start.FDNames[1])
	}
	names = slices.AppendSeq(names, maps.Keys(s.Sockets))
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// HasStart reports whether the instance has a start record whose result is not in its own record.
func (s *Snapshot) HasStart(name string) bool {
	start, v := s.Starts[name], s.Instances[name]
	return start != nil && (v == nil || start.Number > v.LastCompletedStart)
}
