package segment

import (
	"bytes"
	"os"

	"superd/internal/failpoint"
	"superd/logs/frame"
	"superd/logs/pipe"
)

// AppendAfter is append with a line before the records: dropRecord, which it sets to nil when that
// is written. With torn the file may end in a torn line, to which it first appends a newline.
func (f *File) AppendAfter(dropRecord *[]byte, records []byte, torn bool) (written int, err error) {
	if *dropRecord != nil || torn {
		line := *dropRecord
		if err := f.Ready(); err != nil {
			f.Close()
			return 0, err
		}
		inLine := f.midLine
		if f.Format == frame.Raw && f.regular && f.size > 0 {
			ended, err := endsLine(f.fd, f.size)
			inLine = err == nil && !ended
		}
		if inLine {
			line = append([]byte{'\n'}, line...)
		}
		if len(line) == 0 {
			return f.append(records)
		}
		if n, err := f.append(line); n < len(line) {
			return 0, err
		}
		*dropRecord = nil
	}
	return f.append(records)
}

// append writes records at the end of the file and rotates it if necessary. Except for the raw
// format they are whole lines. It returns how many bytes were written: whole records, even after an
// error. The next append then opens the file anew.
func (f *File) append(records []byte) (written int, err error) {
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for written < len(records) {
		if err := f.Ready(); err != nil {
			return written, err
		}
		rest := records[written:]
		n := 0
		if f.Format == frame.Raw {
			n = f.fitBytes(rest)
		} else {
			n = f.fitRecords(rest)
		}
		if n == 0 {
			f.rotate()
			continue
		}
		failpoint.Here("record.before-write")
		wrote, err := f.write(rest[:n])
		failpoint.Here("record.after-write")
		written += wrote
		if err != nil {
			return written, &os.PathError{Op: "write", Path: f.path, Err: err}
		}
	}
	return written, nil
}

// fitRecords returns how many bytes of records fit into the file, at the end of a record; 0 means
// that it must be rotated first. A record that is longer than the limit gets a file of its own.
func (f *File) fitRecords(records []byte) int {
	if f.outdated() {
		return 0
	}
	size := f.size - f.base
	room := f.MaxSize - size
	if !f.regular || f.MaxSize == 0 || int64(len(records)) <= room {
		return len(records)
	}
	if room > 0 {
		if n := bytes.LastIndexByte(records[:room], '\n') + 1; n > 0 {
			return n
		}
	}
	if size > 0 {
		return 0
	}
	return bytes.IndexByte(records, '\n') + 1
}

// fitBytes is fitRecords for bytes that need not be whole lines.
func (f *File) fitBytes(next []byte) int {
	size := f.size - f.base
	if !f.regular || !f.outdated() && (f.MaxSize == 0 || size+int64(len(next)) <= f.MaxSize) {
		return len(next)
	}
	ended := true
	if size > 0 {
		var err error
		if ended, err = endsLine(f.fd, f.size); err != nil {
			ended = true
		}
	}
	if f.outdated() {
		if ended {
			return 0
		}
		if end := bytes.IndexByte(next, '\n'); end >= 0 {
			next = next[:end+1]
		}
		if f.MaxSize == 0 {
			return len(next)
		}
	}
	return split(size, f.MaxSize, ended, next)
}

// write writes records. It removes a record of which only a part was written, so that the next one
// begins a line. It does not remove the rest of a line whose start is in the file.
func (f *File) write(records []byte) (written int, err error) {
	for written < len(records) && err == nil {
		var n int
		if f.regular {
			n, err = writeAt(f.fd, records[written:], f.size+int64(written))
		} else {
			n, err = pipe.WritePieces(f.fd, records[written:])
		}
		written += n
	}
	complete := bytes.LastIndexByte(records[:written], '\n') + 1
	if f.Format == frame.Raw && (err == nil || complete == 0 && f.midLine) {
		complete = written
	}
	if complete > 0 {
		f.midLine = records[complete-1] != '\n'
	}
	if f.regular {
		f.size += int64(complete)
		f.log.recordAppended(int64(complete))
		if written > complete {
			err = firstError(err, truncate(f.fd, f.size))
		}
	}
	return complete, err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
