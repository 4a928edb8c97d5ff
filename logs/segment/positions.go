package segment

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"superd/logs/frame"
)

// recordFound records the current file as found before the collector has opened it.
func (segs *Log) recordFound(newest Info) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if segs.current.Identity == (Identity{}) && newest.regular {
		segs.current.Identity, segs.current.end = newest.Identity, segs.current.start+newest.cappedSize()
		segs.current.uncharged = max(newest.cappedSize()-newest.charged, 0)
	}
}

// recordOpened records that the collector writes at the end of the file that info describes.
func (segs *Log) recordOpened(info Info) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	cur := &segs.current
	size := info.cappedSize()
	if known := cur.Identity != (Identity{}); known && (cur.Identity != info.Identity || size < cur.end-cur.start) {
		cur.start = cur.end // another file, or a truncated one
	}
	cur.Identity = info.Identity
	cur.end = cur.start + size
	cur.uncharged = max(size-info.charged, 0)
	segs.began = min(segs.began, cur.end)
}

// recordAppended records that n bytes were appended to the current file. It ignores them with
// Direct, as then the program writes to the file, too; refresh reads its size instead.
func (segs *Log) recordAppended(n int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if segs.options.Format != frame.Direct {
		segs.current.end += n
	}
}

// recordTruncation records that the current file was truncated to size bytes: a torn record was
// removed and will be written again.
func (segs *Log) recordTruncation(size int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	end := segs.current.start + size
	segs.current.end = end
	segs.began, segs.run, segs.ended = min(segs.began, end), min(segs.run, end), min(segs.ended, end)
	segs.truncation = &Truncation{end}
}

// A Truncation is the position at which the current file was truncated.
type Truncation struct{ At int64 }

// LastTruncation returns the last one, nil if there was none.
func (segs *Log) LastTruncation() *Truncation {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.truncation
}

// newestStamp returns the stamp of the newest rotated file, 0 if there is none.
func (segs *Log) newestStamp() Stamp {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	if len(segs.rotated) == 0 {
		return 0
	}
	return segs.rotated[len(segs.rotated)-1].stamp
}

// recordRotated records that the current file was given the name of stamp s, and that the next file
// does not exist yet.
func (segs *Log) recordRotated(s Stamp) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	cur := segs.current
	segs.rotated = append(segs.rotated, rotatedFile{stamp: s, start: cur.start, end: cur.end, size: cur.onDisk()})
	segs.current = newestFile{start: cur.end, end: cur.end}
}

// pruned forgets the oldest rotated files, and returns them oldest first. Of the newest ones it
// retains at most keep, with at most bytes on the disk in all.
func (segs *Log) pruned(keep int, bytes int64) (removed []Segment) {
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

// ForgetRemoved forgets a rotated file that was removed by another process.
func (segs *Log) ForgetRemoved(removed Segment) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.rotated = slices.DeleteFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == removed.Stamp && r.compression == removed.Compression })
}

func (segs *Log) forget(s Stamp) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.rotated = slices.DeleteFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == s })
}

func (segs *Log) find(s Stamp) (rotatedFile, bool) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	i := slices.IndexFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == s })
	if i < 0 {
		return rotatedFile{}, false
	}
	return segs.rotated[i], true
}

// replace updates compression and size of a rotated file. Its positions stay, as they are those of
// segs.
func (segs *Log) replace(by rotatedFile) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for i := range segs.rotated {
		if r := &segs.rotated[i]; r.stamp == by.stamp {
			r.compression, r.size = by.compression, by.size
		}
	}
}

// files returns the rotated files, oldest first, and how many bytes the current file has on the
// disk.
func (segs *Log) files() (rotated []rotatedFile, current int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return slices.Clone(segs.rotated), segs.current.onDisk()
}

// At returns the segment that has position p, else the first one after it, else the current
// file.
func (segs *Log) At(p int64) Segment {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.end > p {
			return segs.segment(r)
		}
	}
	return segs.newestSegment()
}

// Before returns the segment that has the byte before position p, else the last one before
// it, if there is one.
func (segs *Log) Before(p int64) (Segment, bool) {
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
	return Segment{}, false
}

// Since returns the first segment that may hold output of time t or later.
func (segs *Log) Since(t time.Time) Segment {
	limit := Stamp(t.UnixMicro())
	for p := int64(math.MinInt64); ; {
		seg := segs.At(p)
		if !seg.Rotated() || seg.Stamp >= limit {
			return seg
		}
		p = seg.End
	}
}

// End returns the position after the last byte.
func (segs *Log) End() int64 {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.current.end
}

// First returns the position of the first byte that this collector wrote or will write.
func (segs *Log) First() int64 {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return min(segs.began, segs.current.end)
}

// BeginRun records that the output of a run begins at the end.
func (segs *Log) BeginRun() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.run = segs.current.end
}

// EndRun records that the output of the newest run ends here.
func (segs *Log) EndRun() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.ended = segs.current.end
}

// LastRun returns the positions between which the output of the newest run is. Output from before
// this collector wrote does not belong to a run that it began.
func (segs *Log) LastRun() (from, to int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.newestRun()
}

// newestRun is LastRun for callers that hold mu.
func (segs *Log) newestRun() (from, to int64) {
	to = segs.current.end
	if segs.run == Unknown {
		return Unknown, to
	}
	return min(max(segs.run, segs.began), to), to
}

// An OutputEnd identifies the end of a log's output. As long as it is the same, so is the newest
// line.
type OutputEnd struct {
	segments   *Log
	Format     frame.Format
	from       int64 // where the output of the newest run begins, see [Log.LastRun]
	end, Ended int64
	MayBeStale bool // the file was not read yet, or has other writers
}

// OutputEnd returns the end of the output.
func (segs *Log) OutputEnd() OutputEnd {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	from, end := segs.newestRun()
	format := segs.options.Format
	unread := segs.current.Identity == (Identity{}) && !segs.absent
	return OutputEnd{segs, format, from, end, segs.ended, unread || format == frame.Direct}
}

func (segs *Log) segment(r rotatedFile) Segment {
	return Segment{
		location: location{segs.path, segs.options}, Name: segs.path + r.Suffix(),
		Stamp: r.stamp, Compression: r.compression, Start: r.start, End: r.end,
	}
}

// newestSegment returns the current file's segment. The caller holds mu.
func (segs *Log) newestSegment() Segment {
	return Segment{location: location{segs.path, segs.options}, Name: segs.path, Start: segs.current.start, End: segs.current.end, Identity: segs.current.Identity}
}

// Refresh updates the size of the current file if superd is not its writer. It may block on the
// file system.
func (segs *Log) Refresh() {
	if !segs.OutputEnd().MayBeStale {
		return
	}
	if segs.OutputEnd().Format == frame.Direct {
		// After an error the recorded size stays
		_ = segs.recordStat(func() (Info, error) { return segs.location().stat("") })
		return
	}
	alone := segs.alone() // before: another one may create the file and go
	switch info, err := segs.location().stat(""); {
	case err == nil:
		segs.recordFound(info)
	case errors.Is(err, fs.ErrNotExist) && alone:
		segs.recordAbsent()
	}
}

// RecordStat records the size of the current file, which fd has open and to which others write.
func (segs *Log) RecordStat(fd int) error {
	return segs.recordStat(func() (Info, error) { return StatFD(fd) })
}

// recordAbsent records that the current file does not exist. Only the writer of this Log creates
// it.
func (segs *Log) recordAbsent() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.absent = true
}

// recordStat records the size of the current file, to which others write, as stat reports it. It
// holds disk during stat: with concurrent calls, a smaller size that is recorded later would count
// as a truncation.
func (segs *Log) recordStat(stat func() (Info, error)) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	info, err := stat()
	if err == nil {
		segs.recordOpened(info)
	}
	return err
}
