package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A file is a log file that is rotated. It belongs to the goroutine that drains; followers only see its chain.
type file struct {
	path      string
	directory string
	maxSize   int64
	keep      int
	now       func() time.Time
	chain     *chain

	open     *os.File // nil: opened when next needed
	identity identity // of the open file
	regular  bool     // otherwise a device or FIFO, which is only written to
	size     int64    // where the next byte goes
	line     int64    // where the last line begins
	floor    int64    // the size from which the limit counts: raised when a rotation fails
	trouble  error    // why the last rotation failed; output goes on into the same file
}

func newFile(o Options, now func() time.Time) *file {
	return &file{
		path:      o.Path,
		directory: filepath.Dir(o.Path),
		maxSize:   o.MaxSize,
		keep:      o.Keep,
		now:       now,
		chain:     newChain(o.Path),
	}
}

// place returns where the file is, as far as it is known without asking.
func (f *file) place() place {
	if f.open == nil {
		return place{directory: f.directory}
	}
	return place{device: f.identity.device}
}

// check lets go of the file if path names another one by now, or none, or if it was truncated.
func (f *file) check() {
	if f.open == nil {
		return
	}
	info, err := statPath(f.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (info.identity != f.identity || f.regular && info.size < f.size) {
		f.close()
	}
}

// append writes p at the end, rotating where that is due, and returns how much of p is written. After an error the file
// is opened anew by the next append.
func (f *file) append(p []byte) (written int, err error) {
	for written < len(p) && err == nil {
		if f.open == nil {
			if err = f.openEnd(); err != nil {
				break
			}
		}
		next := p[written:]
		if f.regular {
			n := split(f.size-f.floor, f.line-f.floor, f.maxSize, next)
			if n == 0 {
				f.rotate()
				continue
			}
			next = next[:n]
		}
		var n int
		if n, err = f.open.Write(next); err != nil {
			f.close()
		}
		f.wrote(next[:n])
		written += n
	}
	return written, err
}

// wrote takes note of what is at the end now.
func (f *file) wrote(p []byte) {
	if !f.regular {
		return
	}
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		f.line = f.size + int64(end) + 1
	}
	f.size += int64(len(p))
	f.chain.grown(int64(len(p)))
}

// openEnd opens the file, makes it and its directory if need be, and goes to its end.
func (f *file) openEnd() (err error) {
	// O_NONBLOCK: a FIFO without a reader is an error instead of waiting for one. O_APPEND would be in the way of
	// splice(2).
	const flags = os.O_WRONLY | os.O_CREATE | syscall.O_NONBLOCK
	open, err := os.OpenFile(f.path, flags, 0o640)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(f.directory, 0o750); err != nil {
			return err
		}
		open, err = os.OpenFile(f.path, flags, 0o640)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			open.Close()
		}
	}()
	info, err := statFile(open)
	if err != nil {
		return err
	}
	f.size, f.line, f.floor = 0, 0, 0
	if info.regular {
		if f.size, err = open.Seek(info.size, io.SeekStart); err != nil {
			return err
		}
		f.line = lineStart(f.path, info.size)
	}
	f.open, f.identity, f.regular = open, info.identity, info.regular
	f.chain.opened(info)
	return nil
}

// lineStart returns where the last line of a file of size bytes begins. Of a long line, and where the file cannot be
// read, it says 0, the beginning of the file: the limit is kept, perhaps by cutting that line.
func lineStart(path string, size int64) int64 {
	if size == 0 {
		return 0
	}
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	tail := make([]byte, min(size, chunkBytes))
	n, _ := f.ReadAt(tail, size-int64(len(tail)))
	if end := bytes.LastIndexByte(tail[:n], '\n'); end >= 0 {
		return size - int64(len(tail)) + int64(end) + 1
	}
	return 0
}

// rotate gives the file its rotated name and removes the oldest ones. Where that fails, output goes on into the same
// file until as much again was written: a full file is better than a program that waits for ever.
func (f *file) rotate() {
	f.chain.disk.Lock()
	defer f.chain.disk.Unlock()
	if f.trouble = f.rename(); f.trouble != nil {
		f.floor, f.line = f.size, f.size
		return
	}
	f.close()
	var errs []error
	for _, old := range f.chain.pruned(f.keep) {
		if err := os.Remove(old.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	f.trouble = errors.Join(errs...)
}

// rename gives the file a name that is newer than those of the files rotated before, and that nothing has yet.
func (f *file) rename() error {
	if err := f.chain.listLocked(); err != nil {
		return fmt.Errorf("list rotated files: %w", err)
	}
	for s := nextStamp(f.now(), f.chain.newestStamp()); ; s++ {
		err := renameNew(f.path, s.name(f.path))
		switch {
		case errors.Is(err, fs.ErrExist):
		case errors.Is(err, fs.ErrNotExist): // somebody was faster: the next file is made all the same
			return nil
		case err != nil:
			return err
		default:
			f.chain.rotatedTo(s)
			return nil
		}
	}
}

// close lets go of the file. Its error would be one of writing, which nothing could be done about: what was written
// last is in the hands of the kernel.
func (f *file) close() {
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
}
