package logs

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
)

// A segment is one file of a log, the current or a rotated one.
type segment struct {
	location
	name        string
	stamp       stamp // of a rotated file; else 0
	compression Compression
	start, end  int64 // positions, see segments
	identity          // of the current file only
}

// A rotatedFile is what segments stores of a rotated file.
type rotatedFile struct {
	stamp       stamp
	compression Compression
	start, end  int64
	size        int64 // bytes on the disk, see [chargedBytes]
}

// suffix returns what the file's name has after that of the log file.
func (r rotatedFile) suffix() string { return r.stamp.name("") + r.compression.suffix() }

func (segs *segments) segment(r rotatedFile) segment {
	return segment{
		location: location{segs.path, segs.options}, name: segs.path + r.suffix(),
		stamp: r.stamp, compression: r.compression, start: r.start, end: r.end,
	}
}

// suffix returns what the file's name has after that of the log file.
func (s segment) suffix() string { return strings.TrimPrefix(s.name, s.path) }

// A newestFile is what segments stores of the current file.
type newestFile struct {
	start, end int64
	identity
	uncharged int64 // bytes that do not count: holes, or those of other names, see [chargedBytes]
}

// onDisk returns how many bytes of it are on the disk. Output of superd counts at once, even where
// the file system reports it later (ZFS).
func (n newestFile) onDisk() int64 { return max(n.end-n.start-n.uncharged, 0) }

// newestSegment returns the current file's segment. The caller holds mu.
func (segs *segments) newestSegment() segment {
	return segment{location: location{segs.path, segs.options}, name: segs.path, start: segs.current.start, end: segs.current.end, identity: segs.current.identity}
}

// rotated reports whether the file has its final name.
func (s segment) rotated() bool { return s.stamp != 0 }

// A segments maps each byte of a log to a file. The collector adds to it; followers only read it.
//
// A byte has a position, which stays the same while the collector uses the path. The current file
// began at 0 when it was first found; files rotated before that have negative positions. A position
// in no segment is that of a byte that no longer exists: its file was pruned, removed or truncated.
type segments struct {
	path    string
	options *Options // how the log is written, and who may own its files; never nil; guarded by mu

	// disk is held while files are renamed or listed. mu alone guards the fields and is never held
	// during a system call.
	disk     *sync.Mutex // shared by all segments of the path: the field lock of one of them
	lock     sync.Mutex
	paths    *paths // guards users and writes; never changed; nil: not registered
	users    int32
	writes   bool // its file is open, or was
	listed   bool // rotated holds the files of earlier collectors, too; guarded by disk
	resolved bool // the path was resolved once; guarded by mu
	// The file was looked for and did not exist; only this collector creates it. Guarded by mu
	absent bool

	mu       sync.Mutex
	resolver *pathResolver // to the current file; nil: not resolved yet, or the path has no links
	rotated  []rotatedFile // oldest first
	current  newestFile    // its identity is zero if there is none yet
	// began is the position of the first byte that this collector wrote; math.MaxInt64 before.
	began int64
	// run is the start of the present run's output; unknown: it began before this collector.
	run        int64
	ended      int64       // end of the output of the newest run that has ended; unknown: none has
	truncation *truncation // the last one; nil: there was none
}

// maxContent is the largest size that a file counts for, so that positions do not overflow. Any
// user who may write to the directory can make a file of 8 EiB.
const maxContent = 1 << 44

// cappedSize returns the size that an open file, or one to be opened, counts for.
func (i fileInfo) cappedSize() int64 {
	if !i.regular {
		return 0 // it can't be read back
	}
	return min(i.size, maxContent)
}

// unknown is a position before all others.
const unknown = math.MinInt64

func newSegments(path string, o *Options) *segments {
	segs := new(segments)
	segs.init(path, o)
	return segs
}

// init makes segs, which is zero, what [newSegments] returns. It saves an allocation if segs is a
// field.
func (segs *segments) init(path string, o *Options) {
	segs.path, segs.options, segs.began, segs.run, segs.ended = path, o, math.MaxInt64, unknown, unknown
	segs.disk = &segs.lock
}

// list finds the rotated files, and the current file if the collector has not opened it yet. l may
// be nil.
func (segs *segments) list(l *listing) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	return segs.listLocked(l)
}

// listLocked is list for callers that hold disk.
func (segs *segments) listLocked(l *listing) error {
	if segs.listed || segs.path == "" { // a sink
		return nil
	}
	if !segs.alone() {
		l = nil // the listing may be older than another collector's changes
	}
	at := segs.location()
	dir, base, err := at.locate()
	if errors.Is(err, fs.ErrNotExist) {
		segs.recordFilesLocked(nil, fileInfo{})
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
			if _, err := dir.Stat(strings.TrimSuffix(name, c.suffix())); err == nil {
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
		// foundLocked turns end into a position
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
func (segs *segments) recordFilesLocked(found []rotatedFile, newest fileInfo) {
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
func (segs *segments) removeUnfinished(suffix string) error {
	if segs.paths == nil {
		return nil
	}
	return segs.location().remove(suffix)
}

func (segs *segments) location() location {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return location{segs.path, segs.options}
}

// recordFound records the current file as found before the collector has opened it.
func (segs *segments) recordFound(newest fileInfo) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if segs.current.identity == (identity{}) && newest.regular {
		segs.current.identity, segs.current.end = newest.identity, segs.current.start+newest.cappedSize()
		segs.current.uncharged = max(newest.cappedSize()-newest.charged, 0)
	}
}

// recordAbsent records that the current file does not exist.
func (segs *segments) recordAbsent() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.absent = true
}

// recordOpened records that the collector writes at the end of the file that info describes.
func (segs *segments) recordOpened(info fileInfo) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	cur := &segs.current
	size := info.cappedSize()
	if known := cur.identity != (identity{}); known && (cur.identity != info.identity || size < cur.end-cur.start) {
		cur.start = cur.end // another file, or a truncated one
	}
	cur.identity = info.identity
	cur.end = cur.start + size
	cur.uncharged = max(size-info.charged, 0)
	segs.began = min(segs.began, cur.end)
}

// setOptions sets how the log is written from now on, and who may own its files.
func (segs *segments) setOptions(o *Options) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.options = o
}

// recordAppended records that n bytes were appended to the current file. It ignores them with
// Direct, as then the program writes to the file, too; refresh reads its size instead.
func (segs *segments) recordAppended(n int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if segs.options.Format != Direct {
		segs.current.end += n
	}
}

// recordTruncation records that the current file was truncated to size bytes: a torn record was
// removed and will be written again.
func (segs *segments) recordTruncation(size int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	end := segs.current.start + size
	segs.current.end = end
	segs.began, segs.run, segs.ended = min(segs.began, end), min(segs.run, end), min(segs.ended, end)
	segs.truncation = &truncation{end}
}

// A truncation is the position at which the current file was truncated.
type truncation struct{ at int64 }

// lastTruncation returns the last one, nil if there was none.
func (segs *segments) lastTruncation() *truncation {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.truncation
}

// newestStamp returns the stamp of the newest rotated file, 0 if there is none.
func (segs *segments) newestStamp() stamp {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if len(segs.rotated) == 0 {
		return 0
	}
	return segs.rotated[len(segs.rotated)-1].stamp
}

// recordRotated records that the current file was given the name of stamp s, and that the next file
// does not exist yet.
func (segs *segments) recordRotated(s stamp) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	cur := segs.current
	segs.rotated = append(segs.rotated, rotatedFile{stamp: s, start: cur.start, end: cur.end, size: cur.onDisk()})
	segs.current = newestFile{start: cur.end, end: cur.end}
}

// pruned forgets the oldest rotated files, and returns them oldest first. Of the newest ones it
// retains at most keep, with at most bytes on the disk in all.
func (segs *segments) pruned(keep int, bytes int64) (removed []segment) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	n := len(segs.rotated)
	for n > 0 && len(segs.rotated)-n < keep && segs.rotated[n-1].size <= bytes {
		n--
		bytes -= segs.rotated[n].size
	}
	for _, r := range segs.rotated[:n] {
		removed = append(removed, segs.segment(r))
	}
	segs.rotated = slices.Delete(segs.rotated, 0, n)
	return removed
}

// forgetRemoved forgets a rotated file that was removed by another process.
func (segs *segments) forgetRemoved(removed segment) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.rotated = slices.DeleteFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == removed.stamp && r.compression == removed.compression })
}

func (segs *segments) forget(s stamp) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.rotated = slices.DeleteFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == s })
}

// segmentAt returns the segment that has position p, else the first one after it, else the current
// file.
func (segs *segments) segmentAt(p int64) segment {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.end > p {
			return segs.segment(r)
		}
	}
	return segs.newestSegment()
}

// segmentBefore returns the segment that has the byte before position p, else the last one before
// it, if there is one.
func (segs *segments) segmentBefore(p int64) (segment, bool) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if segs.current.start < min(p, segs.current.end) {
		return segs.newestSegment(), true
	}
	for _, r := range slices.Backward(segs.rotated) {
		if r.start < min(p, r.end) {
			return segs.segment(r), true
		}
	}
	return segment{}, false
}

func (segs *segments) end() int64 {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.current.end
}

// first returns the position of the first byte that this collector wrote or will write.
func (segs *segments) first() int64 {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return min(segs.began, segs.current.end)
}
