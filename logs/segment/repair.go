package segment

import (
	"bytes"

	"superd/logs/frame"
)

// repairEnd makes sure that the file ends in a whole line. It removes a record that a predecessor
// did not finish, as its output is still in the pipe. An unfinished line of another writer or
// format gets a newline.
func (f *File) repairEnd() error {
	end, err := readEnd(f.fd, f.size, frame.BufferBytes)
	if err != nil || len(end) == 0 || end[len(end)-1] == '\n' {
		return err
	}
	begin := bytes.LastIndexByte(end, '\n') + 1
	if !f.otherFormat && (begin > 0 || int64(len(end)) == f.size) && tornRecord(f.Format, end[:begin], end[begin:]) {
		size := f.size - int64(len(end)-begin)
		if err := truncate(f.fd, size); err != nil {
			return err
		}
		f.size = size
		f.log.recordTruncation(size)
		return nil
	}
	n, err := writeAt(f.fd, newline, f.size)
	f.size += int64(n)
	f.log.recordAppended(int64(n))
	return err
}

// tornRecord reports whether a line without an end is a part of a record, rather than raw output
// that is no longer in a pipe. It is one if it certainly begins a record, or if it may and follows
// a record.
func tornRecord(format frame.Format, before, line []byte) bool {
	may, sure := frame.Begins(format, line)
	if sure || !may {
		return sure
	}
	before = bytes.TrimSuffix(before, newline)
	_, sure = frame.Begins(format, before[bytes.LastIndexByte(before, '\n')+1:])
	return sure
}
