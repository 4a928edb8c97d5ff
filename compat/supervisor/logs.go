package supervisor

import (
	"context"
	"errors"
	"io"
	"os"

	"superd/control"
)

// Errors of reading logs, by which callers know them.
var errNoLog = errors.New("no log file")

// A Stream is a stream of a process.
type Stream int

// The streams.
const (
	Stdout Stream = iota
	Stderr
)

// maxRead bounds how much of a log one answer has, in bytes.
const maxRead = 4 << 20

// An OpenFunc opens a log file for reading. The user of the program may write its directory.
type OpenFunc func(path string) (*os.File, error)

// logFile returns the path of the log file of a stream.
func (p *Process) logFile(of Stream) string {
	if of == Stderr {
		return p.ErrorFile
	}
	return p.LogFile
}

// HasLog reports whether a stream has a log file.
func (p *Process) HasLog(of Stream) bool { return p.logFile(of) != "" }

// openLog opens the log file of the process that spec names.
func (s *Supervisor) openLog(ctx context.Context, open OpenFunc, spec string, of Stream) (*os.File, error) {
	p, err := s.Process(ctx, spec)
	if err != nil {
		return nil, err
	}
	path := p.logFile(of)
	if path == "" {
		return nil, errNoLog
	}
	file, err := open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoLog
	}
	if err != nil {
		return nil, fault(Failed, err.Error())
	}
	return file, nil
}

// ReadLog returns at most length bytes of a log file from offset. A negative offset is from the
// end.
func (s *Supervisor) ReadLog(ctx context.Context, open OpenFunc, spec string, of Stream, offset, length int) (string, error) {
	file, err := s.openLog(ctx, open, spec, of)
	if errors.Is(err, errNoLog) {
		return "", fault(NoFile, spec)
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fault(Failed, err.Error())
	}
	from := int64(offset)
	if from < 0 {
		from = max(size+from, 0)
	}
	text, err := readAt(file, from, length)
	if err != nil {
		return "", fault(Failed, err.Error())
	}
	return text, nil
}

// TailLog returns up to length bytes from offset of a log file, the size of the file, and whether
// bytes before the text were left out.
func (s *Supervisor) TailLog(
	ctx context.Context, open OpenFunc, spec string, of Stream, offset, length int,
) (text string, size int, left bool, err error) {
	file, err := s.openLog(ctx, open, spec, of)
	if errors.Is(err, errNoLog) {
		return "", 0, false, nil
	}
	if err != nil {
		return "", 0, false, err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", 0, false, fault(Failed, err.Error())
	}
	from := int64(max(offset, 0))
	length = min(max(length, 0), maxRead)
	if end > from+int64(length) {
		left, from = true, end-int64(length)
	}
	from = max(min(from, end), 0)
	if text, err = readAt(file, from, length); err != nil {
		return "", 0, false, fault(Failed, err.Error())
	}
	return text, int(end), left, nil
}

func readAt(file *os.File, from int64, length int) (string, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, from, int64(min(length, maxRead))))
	return string(text), err
}

// tailBytes is how much of the log a follower gets at first.
const tailBytes = 1024

// Tail returns the last bytes of the output of a process.
func (s *Supervisor) Tail(ctx context.Context, p *Process, of Stream, bytes int) (string, error) {
	var end []byte
	q := control.LogQuery{Names: []string{p.instance}, Lines: min(bytes, maxLines), Raw: true}
	err := s.api.Logs(ctx, q, func(b *control.LogBlock) error {
		end = append(end, p.text(b, of)...)
		end = end[max(len(end)-bytes, 0):]
		return nil
	}, func() error { return nil })
	if err != nil {
		return "", asFault(err)
	}
	return string(end), nil
}

// maxLines bounds the lines that are read to find the last bytes.
const maxLines = 10_000

// text returns the text of a block that is of the stream.
func (p *Process) text(b *control.LogBlock, of Stream) []byte {
	fromStderr := b.Stream != nil && *b.Stream == "stderr"
	if b.Length == nil || p.ErrorFile != "" && fromStderr != (of == Stderr) {
		return nil
	}
	if b.Partial {
		return b.Text
	}
	return append(b.Text[:len(b.Text):len(b.Text)], '\n')
}

// Follow writes the end of the output of a process, and then what comes, until ctx is done. It
// calls flush when no more has come yet.
func (s *Supervisor) Follow(ctx context.Context, p *Process, of Stream, w io.Writer, flush func() error) error {
	begun := false
	var end []byte // of what there was at the request
	q := control.LogQuery{Names: []string{p.instance}, Lines: tailBytes, Raw: true, Follow: true}
	return s.api.Logs(ctx, q, func(b *control.LogBlock) error {
		text := p.text(b, of)
		if begun {
			_, err := w.Write(text)
			return err
		}
		end = append(end, text...)
		end = end[max(len(end)-tailBytes, 0):]
		return nil
	}, func() error {
		if !begun {
			begun = true
			if _, err := w.Write(end); err != nil {
				return err
			}
		}
		return flush()
	})
}
