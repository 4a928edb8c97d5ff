package logs

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
	stamp   stamp  // of the file, or of the one rotated before the current file
	inode   uint64 // of the current file; 0: there is none yet
	offset  int64  // in the file, unpacked
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
	return string(strconv.AppendInt(append(b, '.'), c.offset, 36))
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
	c.stamp, c.offset = stamp(number(fields[0][1:])), number(fields[len(fields)-1])
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

// cursor returns the cursor of a position.
func (segs *segments) cursor(p int64) Cursor {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.end > p {
			return Cursor{rotated: true, stamp: r.stamp, offset: max(p-r.start, 0)}
		}
	}
	return segs.newestCursor(p)
}

// newestCursor is cursor for the current file. The caller holds mu.
func (segs *segments) newestCursor(p int64) Cursor {
	c := Cursor{inode: segs.current.inode, offset: max(p-segs.current.start, 0)}
	switch n := len(segs.rotated); {
	case n > 0:
		c.stamp = segs.rotated[n-1].stamp
	case !segs.listed: // the file's future stamp will be greater than the present time
		c.stamp = stamp(time.Now().UnixMicro())
	}
	return c
}

// cursor returns the cursor of a position.
func (segs *segments) segmentCursor(s segment) (c Cursor, start int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.start == s.start && r.end > s.start {
			return Cursor{rotated: true, stamp: r.stamp}, s.start
		}
	}
	if s.start == segs.current.start {
		return segs.newestCursor(s.start), s.start
	}
	// removed or truncated by another process: the next one follows
	return segs.newestCursor(segs.current.start), math.MaxInt64
}

// locate returns the position of a cursor. If that is gone, exact is false, and p is the position
// of the next output that exists. It blocks on the file system.
func (segs *segments) locate(c Cursor) (p int64, exact bool) {
	seg := segs.segmentOf(c)
	size := seg.end - seg.start
	switch {
	case c.rotated:
		exact = seg.stamp == c.stamp && c.offset <= size
	case c.inode == 0: // there was no file yet
		exact = c.offset == 0
	case seg.compression != "": // its inode is no longer known
		exact = c.offset <= size
	default:
		info, err := seg.stat(seg.suffix())
		exact = err == nil && info.inode == c.inode && c.offset <= info.size
	}
	if exact {
		return seg.start + c.offset, true
	}
	return seg.start, false
}

// segmentOf returns the segment of a cursor if it exists, else the one after it.
func (segs *segments) segmentOf(c Cursor) segment {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for _, r := range segs.rotated {
		if r.stamp > c.stamp || c.rotated && r.stamp == c.stamp {
			return segs.segment(r)
		}
	}
	return segs.newestSegment()
}

// segmentSince returns the first segment that may hold output of time t or later.
func (segs *segments) segmentSince(t time.Time) segment {
	limit := stamp(t.UnixMicro())
	for p := int64(math.MinInt64); ; {
		seg := segs.segmentAt(p)
		if !seg.rotated() || seg.stamp >= limit {
			return seg
		}
		p = seg.end
	}
}
