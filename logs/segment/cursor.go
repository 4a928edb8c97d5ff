package segment

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Cursor is a place in a log from which a reader continues. It stays valid for successors, and
// when the file is rotated and compressed. A rotated file is identified by its stamp. The current
// file, which has none yet, is identified by its inode and the stamp of the file before it.
type Cursor struct {
	rotated bool
	stamp   Stamp  // of the file, or of the one rotated before the current file
	inode   uint64 // of the current file; 0: there is none yet
	Offset  int64  // in the file, unpacked
}

// String returns the cursor in the form that ParseCursor reads.
func (c Cursor) String() string {
	b := make([]byte, 0, 40)
	kind := byte('n')
	if c.rotated {
		kind = 'r'
	}
	b = strconv.AppendInt(append(b, kind), int64(c.stamp), 36)
	if !c.rotated {
		b = strconv.AppendUint(append(b, '.'), c.inode, 36)
	}
	return string(strconv.AppendInt(append(b, '.'), c.Offset, 36))
}

// ParseCursor reads the result of String.
func ParseCursor(text string) (c Cursor, err error) {
	fields := strings.Split(text, ".")
	want := 3
	if c.rotated = strings.HasPrefix(text, "r"); c.rotated {
		want = 2
	}
	if !c.rotated && !strings.HasPrefix(text, "n") || len(fields) != want {
		return Cursor{}, fmt.Errorf("read cursor: not a cursor of superd: %q", text)
	}
	number := func(text string) int64 {
		n, nerr := strconv.ParseInt(text, 36, 64)
		if nerr == nil && n < 0 {
			nerr = errors.New("negative")
		}
		err = errors.Join(err, nerr)
		return n
	}
	c.stamp, c.Offset = Stamp(number(fields[0][1:])), number(fields[len(fields)-1])
	if !c.rotated {
		var ierr error
		c.inode, ierr = strconv.ParseUint(fields[1], 36, 64)
		err = errors.Join(err, ierr)
	}
	if err != nil {
		return Cursor{}, fmt.Errorf("read cursor: not a cursor of superd: %q", text)
	}
	return c, nil
}

// Cursor returns the cursor of a position.
func (segs *Log) Cursor(p int64) Cursor {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.end > p {
			return Cursor{rotated: true, stamp: r.stamp, Offset: max(p-r.start, 0)}
		}
	}
	return segs.newestCursor(p)
}

// newestCursor is cursor for the current file. The caller holds mu.
func (segs *Log) newestCursor(p int64) Cursor {
	c := Cursor{inode: segs.current.inode, Offset: max(p-segs.current.start, 0)}
	switch n := len(segs.rotated); {
	case n > 0:
		c.stamp = segs.rotated[n-1].stamp
	case !segs.listed: // the file's future stamp will be greater than the present time
		c.stamp = Stamp(time.Now().UnixMicro())
	}
	return c
}

// SegmentCursor returns the cursor of the start of a segment, and its position by now.
func (segs *Log) SegmentCursor(s Segment) (c Cursor, start int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.start == s.Start && r.end > s.Start {
			return Cursor{rotated: true, stamp: r.stamp}, s.Start
		}
	}
	if s.Start == segs.current.start {
		return segs.newestCursor(s.Start), s.Start
	}
	// removed or truncated by another process: the next one follows
	return segs.newestCursor(segs.current.start), math.MaxInt64
}

// Locate returns the position of a cursor. If that is gone, exact is false, and p is the position
// of the next output that exists. It blocks on the file system.
func (segs *Log) Locate(c Cursor) (p int64, exact bool) {
	seg := segs.segmentOf(c)
	size := seg.End - seg.Start
	switch {
	case c.rotated:
		exact = seg.Stamp == c.stamp && c.Offset <= size
	case c.inode == 0: // there was no file yet
		exact = c.Offset == 0
	case seg.Compression != "": // its inode is no longer known
		exact = c.Offset <= size
	default:
		info, err := seg.stat(seg.Suffix())
		exact = err == nil && info.inode == c.inode && c.Offset <= info.size
	}
	if exact {
		return seg.Start + c.Offset, true
	}
	return seg.Start, false
}

// segmentOf returns the segment of a cursor if it exists, else the one after it.
func (segs *Log) segmentOf(c Cursor) Segment {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.stamp > c.stamp || c.rotated && r.stamp == c.stamp {
			return segs.segment(r)
		}
	}
	return segs.newestSegment()
}
