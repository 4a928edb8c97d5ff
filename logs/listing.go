package logs

import (
	"slices"
	"strings"

	"superd/internal/safepath"
)

// A listing caches the names in directories for one task. Most logs are in one directory, which
// would otherwise be read once for each log. A nil listing reads the directory each time. Not safe
// for concurrent use.
type listing struct {
	names map[string][]string // by directory, sorted
}

// rotatedFrom returns the names in a directory that may be files rotated from the one named base.
func (l *listing) rotatedFrom(dir *safepath.Dir, base string) (names []string, err error) {
	directory := dir.Path()
	all, known := []string(nil), false
	if l != nil {
		all, known = l.names[directory]
	}
	if !known {
		if all, err = dir.Names(); err != nil {
			return nil, err
		}
		if l != nil {
			if l.names == nil {
				l.names = make(map[string][]string)
			}
			l.names[directory] = all
		}
	}
	prefix := base + "."
	first, _ := slices.BinarySearch(all, prefix)
	end := first
	for end < len(all) && strings.HasPrefix(all[end], prefix) {
		end++
	}
	return all[first:end], nil
}
