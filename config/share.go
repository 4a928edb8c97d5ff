package config

import (
	"reflect"
	"slices"
)

// sharers is how many different settings those of a program are compared with: files of thousands of programs have few kinds of them.
const sharers = 4

// A sharing has the last different settings, so that programs with the same have one copy between them.
type sharing []*Settings

// share returns settings that say what s says: those of other programs where they are among the last.
func (all *sharing) share(s *Settings) *Settings {
	if i := slices.IndexFunc(*all, func(known *Settings) bool { return reflect.DeepEqual(known, s) }); i >= 0 {
		return (*all)[i]
	}
	all.know(s)
	return s
}

// know has s be shared by those who say the same.
func (all *sharing) know(s *Settings) {
	if !slices.Contains(*all, s) {
		*all = append((*all)[max(0, len(*all)+1-sharers):], s)
	}
}
