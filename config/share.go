package config

import (
	"reflect"
	"slices"
)

// maxShared is the number of recent settings with which those of a program are compared. Files with
// thousands of programs have few different settings.
const maxShared = 4

// An interning holds the last different settings, so that programs with equal settings share one
// copy.
type interning []*Settings

// share returns settings equal to s: those of an earlier program if they are among the last.
func (all *interning) share(s *Settings) *Settings {
	if i := slices.IndexFunc(*all, func(other *Settings) bool { return reflect.DeepEqual(other, s) }); i >= 0 {
		return (*all)[i]
	}
	all.add(s)
	return s
}

// add adds s to the settings that later programs may share.
func (all *interning) add(s *Settings) {
	if !slices.Contains(*all, s) {
		*all = append((*all)[max(0, len(*all)+1-maxShared):], s)
	}
}
