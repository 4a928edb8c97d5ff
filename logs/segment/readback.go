package segment

import (
	"io"

	"superd/logs/frame"
)

// Tail reads the end of the output between two positions; of records, their lines.
func (segs *Log) Tail(from, to int64) (end []byte, cut bool) {
	if from == to {
		return nil, false
	}
	size, format := TailBytes, segs.OutputEnd().Format
	if format.Records() {
		size = recordTailBytes
	}
	end = segs.readBack(to, make([]byte, size))
	if from != Unknown && to-from < int64(len(end)) {
		end = end[int64(len(end))-(to-from):]
	}
	cut = len(end) == size && to-int64(len(end)) > from
	if format.Records() {
		end = frame.Lines(format, end, cut)
		cut = cut || len(end) > TailBytes
		end = end[max(0, len(end)-TailBytes):]
	}
	return end, cut
}

// LastLine returns the newest complete line of the newest run, at most MaxShown of it. That is
// its start, if it is in the last len(buffer) bytes of the output. It reads into buffer, and blocks
// on the file system.
func (segs *Log) LastLine(buffer []byte) string {
	segs.Refresh()
	at := segs.OutputEnd()
	for n := min(frame.MaxShown+1, len(buffer)); ; n = len(buffer) {
		text := segs.readBack(at.end, buffer[:n])
		if runBytes := at.end - at.from; at.from != Unknown && runBytes <= int64(len(text)) {
			// a line of the run can't begin further back
			text, n = text[int64(len(text))-runBytes:], len(buffer)
		}
		ended := -1
		if begin := at.end - int64(len(text)); at.Ended >= begin {
			ended = int(at.Ended - begin)
		}
		line, start := frame.NewestLine(text, ended)
		if start <= 0 && len(text) == n && n < len(buffer) {
			continue // it begins further back
		}
		line = frame.Line(at.Format, line)
		return string(line[:min(len(line), frame.MaxShown)])
	}
}

// readBack reads the bytes before a position into buffer; fewer if they are gone or can't be read.
func (segs *Log) readBack(position int64, buffer []byte) []byte {
	begin := len(buffer)
	for begin > 0 {
		seg, ok := segs.Before(position)
		if !ok || seg.End < position {
			break
		}
		n := min(int64(begin), position-seg.Start)
		got, ok := seg.read(buffer[begin-int(n):begin], position-n-seg.Start)
		if now, _ := segs.Before(position); !ok && now.Name != seg.Name {
			continue // rotated just now
		}
		if !ok {
			break
		}
		begin -= got
		position -= int64(got)
	}
	return buffer[begin:]
}

// maxReadBack is how many bytes of a compressed file are unpacked at most to read its end, which
// takes a second or two. A program may have made a small file that unpacks to 1 TiB.
const maxReadBack = 1 << 30

// read fills p from an offset of the file. It reports false if the file is gone or can't be read
// that far.
func (s Segment) read(p []byte, offset int64) (n int, ok bool) {
	file, err := s.openPacked()
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if s.Compression != "" {
		if offset > maxReadBack {
			return 0, false
		}
		packed, err := s.Compression.reader(file)
		if err != nil {
			return 0, false
		}
		defer packed.Close()
		if _, err := io.CopyN(io.Discard, packed, offset); err != nil {
			return 0, false
		}
		n, err = io.ReadFull(packed, p)
		return n, err == nil
	}
	info, err := StatFD(int(file.Fd()))
	if err != nil || !info.regular || !s.Rotated() && info.Identity != s.Identity {
		return 0, false
	}
	n, err = readAt(int(file.Fd()), p, offset)
	return n, err == nil && n == len(p)
}

// TailBytes is how much of the end of a run's output is shown for a failure. recordTailBytes is how
// much of the end of a log of records is read for it.
const (
	TailBytes       = 1024
	recordTailBytes = 16 << 10
)
