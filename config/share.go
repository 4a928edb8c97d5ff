package config

import (
	"reflect"
	"slices"
)

// sharers is how many recent settings those of a program are compared with. Files with thousands of
// programs have few different settings.
const sharers = 4

// An interning holds the last different settings, so that programs with equal settings share one
// copy.
type interning []*Settings

// share returns settings equal to s: those of an earlier program if they are among the last.
func (all *interning) share(s *Settings) *Settings {
	if i := slices.IndexFunc(*all, func(known *Settings) bool { return reflect.DeepEqual(known, s) }); i >= 0 {
		return (*all)[i]
	}
	all.know(s)
	return s
}

// know adds s to the settings that later programs may share.
func (all *interning) know(s *Settings) {
	if !slices.Contains(*all, s) {
		*all = append((*all)[max(0, len(*all)+1-sharers):], s)
	}
}
