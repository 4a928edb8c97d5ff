package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A listing is what lies in the directories that one task looks at, each of which it reads once: most logs are in one directory, and each
// would read all of it. Nil reads them anew. It is used by one goroutine at a time.
type listing struct {
	names map[string][]string // by directory, sorted
}

// rotatedFrom returns the names of files in the directory of path that may have been rotated away from it. A directory that isn't there has none.
func (l *listing) rotatedFrom(path string) (names []string, err error) {
	directory, base := filepath.Split(path)
	all, known := []string(nil), false
	if l != nil {
		all, known = l.names[directory]
	}
	if !known {
		if all, err = readNames(directory); err != nil {
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

func readNames(directory string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Clean(directory)) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}
