package segment

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"superd/internal/safepath"
)

// List finds the rotated files, and the current file if the collector has not opened it yet. l may
// be nil.
func (segs *Log) List(l *Listing) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	return segs.listLocked(l)
}

// listLocked is list for callers that hold disk.
func (segs *Log) listLocked(l *Listing) error {
	if segs.listed || segs.path == "" { // a sink
		return nil
	}
	if !segs.alone() {
		l = nil // the listing may be older than another collector's changes
	}
	at := segs.location()
	dir, base, err := at.Locate()
	if errors.Is(err, fs.ErrNotExist) {
		segs.recordFilesLocked(nil, Info{})
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := l.rotatedFrom(dir, base)
	if err != nil {
		return err
	}
	var found []rotatedFile
	for _, name := range names {
		s, c, ok := parseStamp(base, name)
		suffix := strings.TrimPrefix(name, base)
		if _, _, unfinished := parseStamp(base, strings.TrimSuffix(name, unfinishedSuffix)); !ok && unfinished && !segs.isCompressing(segs.path+suffix) {
			if err := segs.removeUnfinished(suffix); err != nil { // of a killed predecessor
				return err
			}
		}
		if !ok {
			continue
		}
		if c != "" {
			// compression did not end, as the original is there
			if _, err := dir.Stat(strings.TrimSuffix(name, c.Suffix())); err == nil {
				if err := segs.removeUnfinished(suffix); err != nil {
					return err
				}
				continue
			}
		}
		info, err := dir.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode.IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		content := info.Size
		if c != "" {
			if content, err = at.contentSizeIn(dir, name, c); err != nil {
				content = 0 // unreadable; the file still counts toward Keep
			}
		} else if content > maxContent { // it has holes
			content = 0
		}
		// recordFilesLocked turns end into a position
		found = append(found, rotatedFile{stamp: s, compression: c, end: content, size: chargedBytes(&info)})
	}
	newest, err := dir.Stat(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	segs.recordFilesLocked(found, newFileInfo(&newest))
	return nil
}

// recordFilesLocked stores the files that were found. The caller holds disk.
func (segs *Log) recordFilesLocked(found []rotatedFile, newest Info) {
	slices.SortFunc(found, func(a, b rotatedFile) int { return cmp.Compare(a.stamp, b.stamp) })
	end := int64(0)
	for i := len(found) - 1; i >= 0; i-- {
		found[i].start, found[i].end = end-found[i].end, end
		end = found[i].start
	}
	segs.recordFound(newest)
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.rotated = found
	segs.listed = true
}

// removeUnfinished removes an unfinished file of a predecessor. It does nothing if the log is not
// registered in paths: then the archive may still be writing that file.
func (segs *Log) removeUnfinished(suffix string) error {
	if segs.paths == nil {
		return nil
	}
	return segs.location().remove(suffix)
}

// A Listing caches the names in directories for one task. Most logs are in one directory, which
// would otherwise be read once for each log. A nil listing reads the directory each time. Not safe
// for concurrent use.
type Listing struct {
	names map[string][]string // by directory, sorted
}

// rotatedFrom returns the names in a directory that may be files rotated from the one named base.
func (l *Listing) rotatedFrom(dir *safepath.Dir, base string) (names []string, err error) {
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
