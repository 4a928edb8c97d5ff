package logs

import (
	"bytes"
	"os"

	"superd/crashpoint"
)

// appendAfter writes records as append does, after a gap, a line that is to be written first and is set to nil then. Where a line may be torn, the file
// ends in a whole one first.
func (f *file) appendAfter(gap *[]byte, records []byte, torn bool) (written int, err error) {
	if *gap != nil || torn {
		line := *gap
		if err := f.ready(); err != nil {
			f.close()
			return 0, err
		}
		inLine := f.inLine
		if f.Format == Raw && f.regular && f.size > 0 {
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
		*gap = nil
	}
	return f.append(records)
}

// append writes records, whole lines but in the raw format, at the end of the file, rotating where that is due. It returns how many bytes of
// them are there: whole records, also after an error. The file is opened anew by the next one then.
func (f *file) append(records []byte) (written int, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for written < len(records) {
		if err := f.ready(); err != nil {
			return written, err
		}
		rest := records[written:]
		n := 0
		if f.Format == Raw {
			n = f.fitBytes(rest)
		} else {
			n = f.fitRecords(rest)
		}
		if n == 0 {
			f.rotate()
			continue
		}
		crashpoint.Here("record.before-write")
		wrote, err := f.write(rest[:n])
		crashpoint.Here("record.after-write")
		written += wrote
		if err != nil {
			return written, &os.PathError{Op: "write", Path: f.Path, Err: err}
		}
	}
	return written, nil
}

// fitRecords returns how many bytes of records go into the file, at a record's end; 0 means that it is to be rotated first.
// A record that is longer than the limit has a file of its own.
func (f *file) fitRecords(records []byte) int {
	if f.outdated() {
		return 0
	}
	size := f.size - f.floor
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

// fitBytes is fitRecords for what need not be whole lines.
func (f *file) fitBytes(next []byte) int {
	size := f.size - f.floor
	if !f.regular || !f.outdated() && (f.MaxSize == 0 || size+int64(len(next)) <= f.MaxSize) {
		return len(next)
	}
	ended := true
	if size > 0 {
		var err error
		if ended, err = endsLine(f.fd, f.size); err != nil {
			ended = true // as in fit
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

// write writes records. What it can't write in whole it takes back, so that the next one stands on a line of its own; but of a line of
// output of which the beginning is in the file.
func (f *file) write(records []byte) (written int, err error) {
	for written < len(records) && err == nil {
		var n int
		if f.regular {
			n, err = writeAt(f.fd, records[written:], f.size+int64(written))
		} else {
			n, err = write(f.fd, records[written:])
		}
		written += n
	}
	whole := bytes.LastIndexByte(records[:written], '\n') + 1
	if f.Format == Raw && (err == nil || whole == 0 && f.inLine) {
		whole = written
	}
	if whole > 0 {
		f.inLine = records[whole-1] != '\n'
	}
	if f.regular {
		f.size += int64(whole)
		f.chain.grown(int64(whole))
		if written > whole {
			err = firstError(err, truncate(f.fd, f.size))
		}
	}
	return whole, err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// mend sees to it that the file ends in a whole line. What an earlier superd was killed over is taken away, as it is in the
// pipe yet; what somebody else has left there, or was written in another format, gets a line end.
func (f *file) mend() error {
	end, err := readEnd(f.fd, f.size, recordBytes)
	if err != nil || len(end) == 0 || end[len(end)-1] == '\n' {
		return err
	}
	begin := bytes.LastIndexByte(end, '\n') + 1
	if !f.foreign && (begin > 0 || int64(len(end)) == f.size) && tornRecord(f.Format, end[:begin], end[begin:]) {
		whole := f.size - int64(len(end)-begin)
		if err := truncate(f.fd, whole); err != nil {
			return err
		}
		f.size = whole
		f.chain.cutOff(whole)
		return nil
	}
	n, err := writeAt(f.fd, newline, f.size)
	f.size += int64(n)
	f.chain.grown(int64(n))
	return err
}

// tornRecord reports whether a line without an end is a part of a record, and not of raw output of which nothing is in a pipe any more: if
// it says so itself, or may be one and stands behind one.
func tornRecord(format Format, before, line []byte) bool {
	may, sure := beginsRecord(format, line)
	if sure || !may {
		return sure
	}
	before = bytes.TrimSuffix(before, newline)
	_, sure = beginsRecord(format, before[bytes.LastIndexByte(before, '\n')+1:])
	return sure
}
