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
	size        int64 // bytes on the disk, see [takes]
}

// suffix returns what the file's name has after that of the log file.
func (r rotatedFile) suffix() string { return r.stamp.name("") + r.compression.suffix() }

func (ch *segments) segment(r rotatedFile) segment {
	return segment{
		location: location{ch.path, ch.options}, name: ch.path + r.suffix(),
		stamp: r.stamp, compression: r.compression, start: r.start, end: r.end,
	}
}

// suffix returns what the file's name has after that of the log file.
func (s segment) suffix() string { return strings.TrimPrefix(s.name, s.path) }

// A newestFile is what segments stores of the current file.
type newestFile struct {
	start, end int64
	identity
	free int64 // bytes that were holes, or counted for another name, when it was opened or seen
}

// onDisk returns how many bytes of it are on the disk. What superd writes counts at once, even
// where the file system reports it later (ZFS).
func (n newestFile) onDisk() int64 { return max(n.end-n.start-n.free, 0) }

// newestSegment returns the current file's segment. The caller holds mu.
func (ch *segments) newestSegment() segment {
	return segment{location: location{ch.path, ch.options}, name: ch.path, start: ch.current.start, end: ch.current.end, identity: ch.current.identity}
}

// rotated reports whether the file has its final name.
func (s segment) rotated() bool { return s.stamp != 0 }

// A segments maps each byte of a log to a file. The collector adds to it, and its followers look
// up.
//
// A byte has a position, which stays the same while the collector uses the path. The current file
// began at 0 when it was first seen; files rotated before that have negative positions. A position
// in no segment is that of a byte that is gone: its file was pruned, removed or truncated.
type segments struct {
	path    string
	options *Options // how the log is written and who may own its files; never nil; guarded by mu

	// disk is held while files are renamed or listed. mu alone guards the fields and is never held
	// during a system call.
	disk   *sync.Mutex // shared by all segments of the path: the field lock of one of them
	lock   sync.Mutex
	paths  *paths // guards users and writes; never changed; nil: not registered
	users  int32
	writes bool // its file is open, or was
	listed bool // rotated holds the files of earlier collectors, too; guarded by disk
	gone   bool // the path was resolved before; guarded by mu

	mu       sync.Mutex
	resolver *pathResolver // to the current file; nil: not resolved yet, or the path has no links
	rotated  []rotatedFile // oldest first
	current  newestFile    // its identity is zero if there is none yet
	// began is the position of the first byte that this collector wrote; math.MaxInt64 before.
	began int64
	// run is the start of the present run's output; unknown: it began before this collector.
	run   int64
	ended int64 // end of the output of the newest run that has ended; unknown: none has
	cut   *cut  // the newest one; nil: there was none
}

// maxContent is the size at most that a file counts for, so that positions do not overflow. Anyone
// who may write to the directory can make a file of 8 EiB.
const maxContent = 1 << 44

// counted returns the size that an open file, or one to be opened, counts for.
func (i fileInfo) counted() int64 {
	if !i.regular {
		return 0 // it can't be read back
	}
	return min(i.size, maxContent)
}

// unknown is a position before all others.
const unknown = math.MinInt64

func newChain(path string, o *Options) *segments {
	ch := new(segments)
	ch.init(path, o)
	return ch
}

// init makes ch, which is zero, what [newChain] returns. It saves an allocation if ch is a field.
func (ch *segments) init(path string, o *Options) {
	ch.path, ch.options, ch.began, ch.run, ch.ended = path, o, math.MaxInt64, unknown, unknown
	ch.disk = &ch.lock
}

// list finds the rotated files, and the current file if the collector has not opened it yet. l may
// be nil.
func (ch *segments) list(l *listing) error {
	ch.disk.Lock()
	defer ch.disk.Unlock()
	return ch.listLocked(l)
}

// listLocked is list for callers that hold disk.
func (ch *segments) listLocked(l *listing) error {
	if ch.listed || ch.path == "" { // a sink
		return nil
	}
	if !ch.alone() {
		l = nil // the listing may be older than another collector's changes
	}
	at := ch.location()
	dir, base, err := at.dir()
	if errors.Is(err, fs.ErrNotExist) {
		ch.foundLocked(nil, fileInfo{})
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
		if _, _, unfinished := parseStamp(base, strings.TrimSuffix(name, unfinishedSuffix)); !ok && unfinished && !ch.wrapping(ch.path+suffix) {
			if err := ch.clear(suffix); err != nil { // a predecessor was killed while it compressed
				return err
			}
		}
		if !ok {
			continue
		}
		if c != "" {
			// compression did not end, as the original is there
			if _, err := dir.Stat(strings.TrimSuffix(name, c.suffix())); err == nil {
				if err := ch.clear(suffix); err != nil {
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
				content = 0 // unreadable, yet it counts for the files to keep
			}
		} else if content > maxContent { // it has holes
			content = 0
		}
		// foundLocked turns end into a position
		found = append(found, rotatedFile{stamp: s, compression: c, end: content, size: takes(&info)})
	}
	newest, err := dir.Stat(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ch.foundLocked(found, newFileInfo(&newest))
	return nil
}

// foundLocked stores the files that were found. The caller holds disk.
func (ch *segments) foundLocked(found []rotatedFile, newest fileInfo) {
	slices.SortFunc(found, func(a, b rotatedFile) int { return cmp.Compare(a.stamp, b.stamp) })
	end := int64(0)
	for i := len(found) - 1; i >= 0; i-- {
		found[i].start, found[i].end = end-found[i].end, end
		end = found[i].start
	}
	ch.seen(newest)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rotated = found
	ch.listed = true
}

// clear removes an unfinished file of a predecessor. It does nothing if the log is not registered
// in paths: then the archive may still be writing that file.
func (ch *segments) clear(suffix string) error {
	if ch.paths == nil {
		return nil
	}
	return ch.location().remove(suffix)
}

func (ch *segments) location() location {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return location{ch.path, ch.options}
}

// seen records the current file as found before the collector has opened it.
func (ch *segments) seen(newest fileInfo) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.current.identity == (identity{}) && newest.regular {
		ch.current.identity, ch.current.end = newest.identity, ch.current.start+newest.counted()
		ch.current.free = max(newest.counted()-newest.room, 0)
	}
}

// opened records that the collector writes at the end of the file described by info.
func (ch *segments) opened(info fileInfo) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	cur := &ch.current
	size := info.counted()
	if known := cur.identity != (identity{}); known && (cur.identity != info.identity || size < cur.end-cur.start) {
		cur.start = cur.end // another file, or a truncated one
	}
	cur.identity = info.identity
	cur.end = cur.start + size
	cur.free = max(size-info.room, 0)
	ch.began = min(ch.began, cur.end)
}

// setOptions sets how the log is written from now on, and who may own its files.
func (ch *segments) setOptions(o *Options) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.options = o
}

// grown records that n bytes were appended to the current file. It ignores them with Direct, as
// then the program writes to the file, too; refresh looks at its size instead.
func (ch *segments) grown(n int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.options.Format != Direct {
		ch.current.end += n
	}
}

// cutOff records that the current file was truncated to size bytes: a torn record was removed and
// will be written again.
func (ch *segments) cutOff(size int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	end := ch.current.start + size
	ch.current.end = end
	ch.began, ch.run, ch.ended = min(ch.began, end), min(ch.run, end), min(ch.ended, end)
	ch.cut = &cut{end}
}

// A cut is the position at which the current file was truncated.
type cut struct{ at int64 }

// lastCut returns the newest cut, nil if there was none.
func (ch *segments) lastCut() *cut {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cut
}

// newestStamp returns the stamp of the newest rotated file, 0 if there is none.
func (ch *segments) newestStamp() stamp {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(ch.rotated) == 0 {
		return 0
	}
	return ch.rotated[len(ch.rotated)-1].stamp
}

// rotatedTo records that the current file was given the name of stamp s, and that the next file
// does not exist yet.
func (ch *segments) rotatedTo(s stamp) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	cur := ch.current
	ch.rotated = append(ch.rotated, rotatedFile{stamp: s, start: cur.start, end: cur.end, size: cur.onDisk()})
	ch.current = newestFile{start: cur.end, end: cur.end}
}

// pruned forgets the oldest rotated files, and returns them oldest first. It retains the newest
// ones: at most keep, with at most bytes on the disk in all.
func (ch *segments) pruned(keep int, bytes int64) (gone []segment) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	n := len(ch.rotated)
	for n > 0 && len(ch.rotated)-n < keep && ch.rotated[n-1].size <= bytes {
		n--
		bytes -= ch.rotated[n].size
	}
	for _, r := range ch.rotated[:n] {
		gone = append(gone, ch.segment(r))
	}
	ch.rotated = slices.Delete(ch.rotated, 0, n)
	return gone
}

// lost forgets a rotated file that was removed by another process.
func (ch *segments) lost(gone segment) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rotated = slices.DeleteFunc(ch.rotated, func(r rotatedFile) bool { return r.stamp == gone.stamp && r.compression == gone.compression })
}

func (ch *segments) forget(s stamp) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rotated = slices.DeleteFunc(ch.rotated, func(r rotatedFile) bool { return r.stamp == s })
}

// at returns the segment that holds position p, else the first one after it, else the current file.
func (ch *segments) at(p int64) segment {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, r := range ch.rotated {
		if r.end > p {
			return ch.segment(r)
		}
	}
	return ch.newestSegment()
}

// before returns the segment that holds the byte before position p, else the last one before it, if
// there is one.
func (ch *segments) before(p int64) (segment, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.current.start < min(p, ch.current.end) {
		return ch.newestSegment(), true
	}
	for _, r := range slices.Backward(ch.rotated) {
		if r.start < min(p, r.end) {
			return ch.segment(r), true
		}
	}
	return segment{}, false
}

func (ch *segments) end() int64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.current.end
}

// first returns the position of the first byte that this collector wrote or will write.
func (ch *segments) first() int64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return min(ch.began, ch.current.end)
}
