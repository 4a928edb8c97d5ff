package config

import (
	"encoding/json"

	"superd/internal/rlimit"
)

// The journal has definitions as JSON. What follows keeps the form that journals of format 1 have
// where a field of Go has another: an older superd reads it, too.

// savedLimits are Limits with the two limits of setrlimit(2) that format 1 has, which were always
// soft and hard limit at once.
type savedLimits struct {
	NoFile, Core *int64
	*plainLimits
}

type plainLimits Limits

// MarshalJSON returns the limits in a form that an older superd reads, too.
func (l Limits) MarshalJSON() ([]byte, error) {
	saved := savedLimits{plainLimits: (*plainLimits)(&l)}
	for _, limit := range l.Rlimits {
		switch value := int64(limit.Hard); {
		case limit.Hard == rlimit.Infinity:
		case limit.Resource == rlimit.NoFile:
			saved.NoFile = &value
		case limit.Resource == rlimit.Core:
			saved.Core = &value
		}
	}
	return json.Marshal(saved)
}

// UnmarshalJSON reads what MarshalJSON returns, now or in an older superd.
func (l *Limits) UnmarshalJSON(text []byte) error {
	saved := savedLimits{plainLimits: (*plainLimits)(l)}
	if err := json.Unmarshal(text, &saved); err != nil || l.Rlimits != nil {
		return err
	}
	for _, old := range []struct {
		resource rlimit.Resource
		value    *int64
	}{{rlimit.NoFile, saved.NoFile}, {rlimit.Core, saved.Core}} {
		if old.value != nil {
			n := uint64(*old.value)
			l.Rlimits = l.Rlimits.With(rlimit.Limit{Resource: old.resource, Soft: n, Hard: n})
		}
	}
	return nil
}
