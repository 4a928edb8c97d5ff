package eventlog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// Names of the two files in the runtime directory.
const (
	currentName = "events.jsonl"
	oldName     = "events.old.jsonl"
)

// Approximate size of a write, and the largest buffers that are reused.
const (
	writeBytes  = 8 << 10
	reuseBytes  = 2 * writeBytes // so that a burst reuses its buffer, too
	reuseEvents = 32             // of some 280 bytes; there are two such buffers
)

// files are the two files of a log. The writer's goroutine owns them; readers open them with open.
type files struct {
	current, old string
	maxSize      int64
	log          *slog.Logger

	names sync.Mutex // held while files are opened, renamed or found to be replaced
	// Guarded by names: incremented when another file gets the current name
	generation uint64

	file       *os.File // nil before the first write and after an open failed
	size       int64
	incomplete bool // its last line has no line end
	dropped    int  // events not written since the last successful write
	totals     Totals
	buffer     bytes.Buffer
}

func newFiles(dir string, maxSize int64, log *slog.Logger) files {
	return files{current: filepath.Join(dir, currentName), old: filepath.Join(dir, oldName), maxSize: maxSize, log: log}
}

func removeFiles(dir string) error {
	var errs []error
	for _, name := range []string{currentName, oldName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// resume reads the totals, and returns the greatest number in the files, 0 if there is none. It
// adds one if the newest file ends in an incomplete line.
func (f *files) resume() (cursor uint64) {
	opened, _, err := f.open()
	if err != nil {
		f.log.Warn("earlier events not read", "error", err)
	}
	skipped := 0
	for _, file := range opened {
		lines := newLines(file)
		for {
			line, err := lines.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					f.log.Warn("earlier events not read completely", "error", err)
				}
				break
			}
			if n, ok := number(line); ok {
				cursor = max(cursor, n)
				f.totals.add(line)
			} else if totals, ok := decodeTotals(line); ok {
				f.totals = totals
			} else {
				skipped++
			}
		}
		if rest := lines.rest(); len(rest) > 0 && file == opened[len(opened)-1] {
			if n, ok := number(rest); ok { // only the line end is missing
				cursor = max(cursor, n)
				f.totals.add(rest)
			} else {
				cursor++
				skipped++
			}
		}
		file.Close()
	}
	if skipped > 0 {
		f.log.Warn("damaged lines of the event log skipped", "lines", skipped, "path", f.current)
	}
	return cursor
}

// open opens the existing files, the older one first, and returns their generation.
func (f *files) open() (opened []*os.File, generation uint64, err error) {
	f.names.Lock()
	defer f.names.Unlock()
	for _, path := range []string{f.old, f.current} {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, other := range opened {
				other.Close()
			}
			return nil, f.generation, err
		}
		opened = append(opened, file)
	}
	return opened, f.generation, nil
}

// isCurrent reports whether the current file still has that generation.
func (f *files) isCurrent(generation uint64) bool {
	f.names.Lock()
	defer f.names.Unlock()
	return f.generation == generation
}

// write appends the events, in pieces. The events of a failed piece are dropped.
func (f *files) write(events []Event) {
	f.buffer.Reset()
	inPiece := 0
	for i := range events {
		if err := Encode(&f.buffer, &events[i]); err != nil {
			f.report(1, err)
			continue
		}
		inPiece++
		if f.buffer.Len() >= writeBytes || i == len(events)-1 {
			written, err := f.appendLines(f.buffer.Bytes())
			f.report(inPiece-written, err)
			f.buffer.Reset()
			inPiece = 0
		}
	}
	if f.buffer.Cap() > reuseBytes {
		f.buffer = bytes.Buffer{}
	}
}

// report logs when events begin to be dropped, and when they are written again.
func (f *files) report(dropped int, err error) {
	switch {
	case err != nil:
		if f.dropped == 0 {
			f.log.Warn("events not recorded", "error", err)
		}
		f.dropped += dropped
	case f.dropped > 0:
		f.log.Info("events recorded again", "lost", f.dropped)
		f.dropped = 0
	}
}

// appendLines appends whole lines and returns how many were written completely.
func (f *files) appendLines(p []byte) (written int, err error) {
	if err := f.prepare(int64(len(p))); err != nil {
		return 0, err
	}
	if f.incomplete {
		if _, err := f.file.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		f.size, f.incomplete = f.size+1, false
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	f.incomplete = n > 0 && p[n-1] != '\n'
	for line := range bytes.Lines(p[:n]) {
		if bytes.HasSuffix(line, []byte{'\n'}) {
			f.totals.add(line)
			written++
		}
	}
	return written, err
}

// prepare opens or replaces the current file, so that n bytes can be appended to it.
func (f *files) prepare(n int64) error {
	if f.file != nil && f.replaced() {
		f.close()
	}
	if f.file == nil {
		if err := f.openCurrent(); err != nil {
			return err
		}
	}
	if f.size == 0 || f.size+n <= f.maxSize {
		return nil
	}
	f.names.Lock()
	err := os.Rename(f.current, f.old)
	if err == nil {
		f.generation++
	}
	f.names.Unlock()
	if err != nil {
		return err
	}
	f.close()
	return f.openCurrent()
}

// replaced reports whether the current file was removed, replaced or truncated by another process.
func (f *files) replaced() bool {
	named, err := os.Stat(f.current)
	if err != nil {
		return true
	}
	opened, err := f.file.Stat()
	return err != nil || !os.SameFile(named, opened) || opened.Size() < f.size
}

// openCurrent opens the current file, creates it if necessary, and checks how it ends.
func (f *files) openCurrent() error {
	f.names.Lock()
	defer f.names.Unlock()
	file, err := os.OpenFile(f.current, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	f.generation++
	f.file, f.size, f.incomplete = file, info.Size(), false
	switch {
	case f.size == 0 && f.totals != (Totals{}):
		n, err := file.Write(f.totals.encode())
		f.size, f.incomplete = int64(n), err != nil && n > 0
		return err
	case f.size > 0:
		last := make([]byte, 1)
		_, err := file.ReadAt(last, f.size-1)
		f.incomplete = err != nil || last[0] != '\n'
	}
	return nil
}

func (f *files) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}
