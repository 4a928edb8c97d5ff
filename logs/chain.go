package logs

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A segment is the part of the output that lies in one file.
type segment struct {
	name        string // the file's path
	stamp       stamp  // of a rotated file
	compression Compression
	start, end  int64 // positions
	identity          // of the newest file; of rotated ones it isn't kept
}

// A rotatedFile is what is kept of a segment whose file has its final name.
type rotatedFile struct {
	stamp       stamp
	compression Compression
	start, end  int64
	size        int64 // bytes on the disk
}

func (ch *chain) segment(r rotatedFile) segment {
	return segment{
		name: r.stamp.name(ch.path) + r.compression.suffix(), stamp: r.stamp, compression: r.compression, start: r.start, end: r.end,
	}
}

// A newestFile is what is kept of the segment whose file has the path as its name.
type newestFile struct {
	start, end int64
	identity
}

// newestSegment is for those who hold mu.
func (ch *chain) newestSegment() segment {
	return segment{name: ch.path, start: ch.current.start, end: ch.current.end, identity: ch.current.identity}
}

// rotated reports whether the file has its final name.
func (s segment) rotated() bool { return s.stamp != 0 }

// A chain knows in which file each byte of the output lies. The capture adds to it, its followers look things up.
//
// A byte has a position, for as long as the capture uses that path: the newest file began at 0 when it was first seen,
// files rotated away before that have negative positions. Positions that no segment has are those of bytes that are
// gone, because their file was pruned, removed or truncated.
type chain struct {
	path string

	// disk is held while file names change or are listed; mu alone guards the fields, and never during a system call.
	disk   *sync.Mutex // of all chains of the path: lock, of one of them
	lock   sync.Mutex
	paths  *paths // guards the two that follow; never changed. nil: nobody else knows of the chain
	users  int32
	writes bool // its file is open, or was
	listed bool // guarded by disk: rotated holds the files of earlier captures, too
	gone   bool // guarded by mu: somebody has gone the way

	mu      sync.Mutex
	way     *way          // to the newest file; nil: nobody has gone it, or else its path has no links
	format  Format        // of what is written
	rotated []rotatedFile // oldest first
	current newestFile    // the newest file; that there is none yet shows in its identity
	began   int64         // position of the first byte that this capture wrote; math.MaxInt64 before
	run     int64         // where the output of the present run begins; unknown: it began before this capture
	ended   int64         // where that of the newest run that has ended ends; unknown: none has
	cut     *cut          // the newest one; nil: there was none
}

// unknown is a position before all others.
const unknown = math.MinInt64

func newChain(path string, format Format) *chain {
	ch := new(chain)
	ch.init(path, format)
	return ch
}

// init makes ch, the zero chain, what [newChain] returns: for one that is a part of what has that life.
func (ch *chain) init(path string, format Format) {
	ch.path, ch.format, ch.began, ch.run, ch.ended = path, format, math.MaxInt64, unknown, unknown
	ch.disk = &ch.lock
}

// list finds the rotated files that are there already, and the newest file if the capture has not opened it yet. l may be nil.
func (ch *chain) list(l *listing) error {
	ch.disk.Lock()
	defer ch.disk.Unlock()
	return ch.listLocked(l)
}

// listLocked is list for those who hold disk.
func (ch *chain) listLocked(l *listing) error {
	if ch.listed || ch.path == "" { // a sink
		return nil
	}
	if !ch.alone() {
		l = nil // what it tells may be older than what another one has done since
	}
	directory, base := filepath.Split(ch.path)
	names, err := l.rotatedFrom(ch.path)
	if err != nil {
		return err
	}
	var found []rotatedFile
	for _, own := range names {
		name := directory + own
		s, c, ok := parseStamp(base, own)
		if _, _, unfinished := parseStamp(base, strings.TrimSuffix(own, unfinishedSuffix)); !ok && unfinished && !ch.wrapping(name) {
			if err := ch.clear(name); err != nil { // an earlier superd was killed over it
				return err
			}
		}
		if !ok {
			continue
		}
		if c != "" {
			if _, err := os.Lstat(strings.TrimSuffix(name, c.suffix())); err == nil { // so it was over this one
				if err := ch.clear(name); err != nil {
					return err
				}
				continue
			}
		}
		info, err := statPath(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		content := info.size
		if c != "" {
			if content, err = c.contentSize(name); err != nil {
				content = 0 // nobody can read it; it is one of those to keep, all the same
			}
		}
		found = append(found, rotatedFile{stamp: s, compression: c, end: content, size: info.size}) // end: moved below
	}
	newest, err := statPath(ch.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

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
	return nil
}

// clear removes what an earlier superd has left. A chain that others don't know of can't tell that from what the archive is about to finish.
func (ch *chain) clear(name string) error {
	if ch.paths == nil {
		return nil
	}
	return removeFile(name)
}

// seen takes note of the newest file as it lies there before the capture has opened it.
func (ch *chain) seen(newest fileInfo) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.current.identity == (identity{}) && newest.regular {
		ch.current.identity, ch.current.end = newest.identity, ch.current.start+newest.size
	}
}

// opened records that the capture writes to the file described by info, at its end.
func (ch *chain) opened(info fileInfo) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	cur := &ch.current
	size := info.size
	if !info.regular {
		size = 0 // nothing can be read back
	}
	if known := cur.identity != (identity{}); known && (cur.identity != info.identity || size < cur.end-cur.start) {
		cur.start = cur.end // another file, or one that was truncated
	}
	cur.identity = info.identity
	cur.end = cur.start + size
	ch.began = min(ch.began, cur.end)
}

// setFormat tells how what comes next is written.
func (ch *chain) setFormat(format Format) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.format = format
}

// grown records that n bytes were appended to the newest file. Who writes to one that others write to, too, has it looked at instead.
func (ch *chain) grown(n int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.format != Direct {
		ch.current.end += n
	}
}

// cutOff records that the newest file has only so many bytes left: a torn record was taken away, which comes once more.
func (ch *chain) cutOff(size int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	end := ch.current.start + size
	ch.current.end = end
	ch.began, ch.run, ch.ended = min(ch.began, end), min(ch.run, end), min(ch.ended, end)
	ch.cut = &cut{end}
}

// A cut is where the end of a newest file was taken away.
type cut struct{ at int64 }

// lastCut returns the newest cut, nil if there was none.
func (ch *chain) lastCut() *cut {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cut
}

// newestStamp returns the stamp of the file that was rotated last, 0 without one.
func (ch *chain) newestStamp() stamp {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(ch.rotated) == 0 {
		return 0
	}
	return ch.rotated[len(ch.rotated)-1].stamp
}

// rotatedTo records that the newest file was given the name that belongs to s and that the next one is yet to be made.
func (ch *chain) rotatedTo(s stamp) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	cur := ch.current
	ch.rotated = append(ch.rotated, rotatedFile{stamp: s, start: cur.start, end: cur.end, size: cur.end - cur.start})
	ch.current = newestFile{start: cur.end, end: cur.end}
}

// pruned forgets the oldest rotated files: all but the keep newest, and as many more as have to go until the others have at most that
// many bytes on the disk. It returns those forgotten, oldest first.
func (ch *chain) pruned(keep int, bytes int64) (gone []segment) {
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

// lost forgets a rotated file that somebody removed.
func (ch *chain) lost(gone segment) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rotated = slices.DeleteFunc(ch.rotated, func(r rotatedFile) bool { return r.stamp == gone.stamp && r.compression == gone.compression })
}

// forget forgets a rotated file that was removed.
func (ch *chain) forget(s stamp) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.rotated = slices.DeleteFunc(ch.rotated, func(r rotatedFile) bool { return r.stamp == s })
}

// at returns the segment that holds position p or else the first one after it; the newest file if there is none.
func (ch *chain) at(p int64) segment {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, r := range ch.rotated {
		if r.end > p {
			return ch.segment(r)
		}
	}
	return ch.newestSegment()
}

// before returns the segment that holds the byte before position p or else the last one before it, if there is one.
func (ch *chain) before(p int64) (segment, bool) {
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

// end returns the position after the last byte.
func (ch *chain) end() int64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.current.end
}

// first returns the position of the first byte that this capture wrote, or will write.
func (ch *chain) first() int64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return min(ch.began, ch.current.end)
}
