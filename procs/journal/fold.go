package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A fold is what a journal says: where the last record of each key is.
type fold struct {
	header  header // zero: none was found
	last    map[string]span
	damaged int // lines that are no record, or not only one
	size    int64
}

// A span is a record's line in the file, with its newline.
type span struct {
	at   int64
	size int
}

// foldOf reads a journal. The error is one of reading, or a *VersionError; damage is none.
func foldOf(r io.Reader) (*fold, error) {
	f := &fold{last: map[string]span{}}
	lines := lineReader{from: bufio.NewReaderSize(r, 64<<10)}
	for {
		line, size, err := lines.next()
		if err != nil {
			if size > 0 { // torn
				f.size += size
				f.damaged++
			}
			if err == io.EOF {
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

// add counts the record that ends where the file has been read to.
func (f *fold) add(text []byte) (known bool, err error) {
	if h, ok := parseHeader(text); ok {
		if h.Format > format {
			return true, &VersionError{Format: h.Format, Writer: h.Writer}
		}
		f.header = h
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

// copyTo copies the last records, as they are and in their order, to w, and shows each to see, whose line
// it is until see returns.
func (f *fold) copyTo(w io.Writer, from io.ReaderAt, see func(line []byte)) error {
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
		see(line)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// A lineReader gives the lines of a file, whatever their length.
type lineReader struct {
	from *bufio.Reader
	long []byte // a line that outgrew the reader's buffer
}

// next returns a line without its newline, valid until the next call, and the bytes it takes in the file with it. Of a
// line that is longer than any record it gives the end. At io.EOF size is that of an unfinished line.
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
		if err != bufio.ErrBufferFull {
			return nil, size, err
		}
		if len(l.long) > 2*maxRecordBytes {
			l.long = append(l.long[:0], l.long[len(l.long)-maxRecordBytes:]...)
		}
	}
}
