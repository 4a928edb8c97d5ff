package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// An index is the contents of a journal: the position of the last record of each key.
type index struct {
	header  header // zero: none was found
	last    map[string]span
	damaged int // lines that are not exactly one valid record
	size    int64
	end     int64 // least size written according to the end record; -1: none
}

// missing returns how many bytes are missing at the end; -1 if unknown.
func (f *index) missing() int64 {
	if f.end < 0 {
		return -1
	}
	return max(f.end-f.size, 0)
}

// A span is the line of a record in the file, with its newline.
type span struct {
	at   int64
	size int
}

// readIndex reads a journal with records of at most longest bytes. The error is a read error or a
// *VersionError; damage is not an error.
func readIndex(r io.Reader, longest int) (*index, error) {
	f := &index{last: map[string]span{}, end: -1}
	lines := lineReader{from: bufio.NewReaderSize(r, 64<<10), longest: longest}
	for {
		line, size, err := lines.next()
		if err != nil {
			if size > 0 && (f.end < 0 || f.size < f.end) {
				// superd was killed while it wrote a line after the end; nothing depended on it.
				f.damaged++
			}
			f.size += size
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return f, err
		}
		f.size += size
		text, damaged := body(line)
		if text != nil {
			known, err := f.add(text)
			if err != nil {
				return f, err
			}
			damaged = damaged || !known
		}
		if damaged {
			f.damaged++
		}
	}
}

// add records the position of the record that was just read.
func (f *index) add(text []byte) (known bool, err error) {
	if h, ok := parseHeader(text); ok {
		if h.Format > format {
			return true, &VersionError{Format: h.Format, Writer: h.Writer}
		}
		f.header = h
		return true, nil
	}
	if end, ok := parseEnd(text); ok {
		f.end = end
		return true, nil
	}
	key, value, ok := parseRecord(text)
	switch {
	case !ok:
		return false, nil
	case value == nil:
		delete(f.last, key)
	default:
		size := sumBytes + len(text) + 1
		f.last[key] = span{f.size - int64(size), size}
	}
	return true, nil
}

// copyTo copies the last records, unchanged and in order, to w. It passes each to visit, which
// must not retain the slice.
func (f *index) copyTo(w io.Writer, from io.ReaderAt, visit func(line []byte)) error {
	keys := slices.SortedFunc(maps.Keys(f.last), func(a, b string) int { return cmp.Compare(f.last[a].at, f.last[b].at) })
	r := bufio.NewReaderSize(io.NewSectionReader(from, 0, f.size), 64<<10)
	var line []byte
	var at int64
	for _, key := range keys {
		s := f.last[key]
		if _, err := r.Discard(int(s.at - at)); err != nil {
			return fmt.Errorf("read again: %w", err)
		}
		line = slices.Grow(line[:0], s.size)[:s.size]
		if _, err := io.ReadFull(r, line); err != nil {
			return fmt.Errorf("read again: %w", err)
		}
		at = s.at + int64(s.size)
		visit(line)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// A lineReader reads lines of any length.
type lineReader struct {
	from    *bufio.Reader
	longest int    // maximum length of a record
	long    []byte // line that exceeds the reader's buffer
}

// next returns a line without its newline, valid until the next call, and its size in the file with
// the newline. Of a line longer than any record it returns the end. At io.EOF size is that of an
// incomplete line.
func (l *lineReader) next() (line []byte, size int64, err error) {
	l.long = l.long[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		size += int64(len(part))
		if err == nil && len(l.long) == 0 {
			return part[:len(part)-1], size, nil
		}
		l.long = append(l.long, part...)
		if err == nil {
			return bytes.TrimSuffix(l.long, []byte("\n")), size, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, size, err
		}
		if len(l.long) > 2*l.longest {
			l.long = append(l.long[:0], l.long[len(l.long)-l.longest:]...)
		}
	}
}
