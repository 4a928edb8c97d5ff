package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"superd/internal/failpoint"
)

// Names of the file in the runtime directory, and of its replacement while that is written.
const (
	fileName = "journal"
	newName  = "journal.new"
)

// A journal smaller than minLimitBytes is not compacted; it may exceed its limit by at most
// excessBytes while there is more to write.
const (
	minLimitBytes = 256 << 10
	excessBytes   = 4 << 20
)

// A file is the journal on disk, open for appending. Only one goroutine at a time uses it.
type file struct {
	path   string
	log    *slog.Logger
	header []byte

	f             *os.File // nil after close
	size          int64
	endAt         int64  // offset of the end record
	limit         int64  // size above which it is compacted when idle
	pendingHeader []byte // header if it is not yet written, else nil
}

// openFile returns the journal in dir, newly written, and its previous contents.
func openFile(dir, boot string, log *slog.Logger) (*file, *State, error) {
	j := &file{path: filepath.Join(dir, fileName), log: log}
	old, err := openJournal(j.path)
	if err != nil {
		return nil, nil, err
	}
	var contents *index
	if old != nil {
		if contents, err = read(old); err != nil {
			old.Close()
			return nil, nil, err
		}
	}
	state := newState(contents, boot)
	self := Writer{Pid: os.Getpid()}
	if info, ok := debug.ReadBuildInfo(); ok {
		self.Version = info.Main.Version
	}
	if j.header, err = appendHeader(nil, header{"journal", format, boot, self}); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", j.path, err)
	}
	j.f = old
	err = j.renew(contents, state.visit)
	if err == nil {
		return j, state, nil
	}
	if old == nil {
		return nil, nil, fmt.Errorf("write %s: %w", j.path, err)
	}
	log.Warn("journal not rewritten: the old file is continued", "error", err)
	j.size, j.limit = contents.size, 2*max(minLimitBytes, contents.size)
	j.pendingHeader = appendEnd(bytes.Clone(j.header), 0)
	if err := contents.copyTo(io.Discard, old, state.visit); err != nil {
		old.Close()
		return nil, nil, fmt.Errorf("read %s: %w", j.path, err)
	}
	return j, state, nil
}

// openJournal opens the file at path, and returns nil if there is none.
func openJournal(path string) (*os.File, error) {
	// O_NONBLOCK, in case path is a FIFO.
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	irregular := fmt.Errorf("open %s: it is not a regular file: remove it", path)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EISDIR) {
		return nil, irregular
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func read(f *os.File) (*index, error) {
	contents, err := readIndex(io.NewSectionReader(f, 0, 1<<62), maxRecordBytes)
	if newer, ok := errors.AsType[*VersionError](err); ok {
		newer.Path = f.Name()
		return nil, newer
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return contents, nil
}

// renew writes the records of folded, read from the open file if there is one, into a new file that
// replaces it. After an error nothing has changed.
func (j *file) renew(contents *index, visit func(line []byte)) error {
	path := filepath.Join(filepath.Dir(j.path), newName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size, err := j.writeTo(f, contents, visit)
	if err == nil {
		failpoint.Here("journal.before-rename")
		err = os.Rename(path, j.path)
	}
	if err != nil {
		f.Close()
		os.Remove(path)
		return err
	}
	failpoint.Here("journal.after-rename")
	j.close()
	j.f, j.size, j.endAt, j.pendingHeader = f, size, int64(len(j.header)), nil
	j.limit = max(minLimitBytes, 4*size)
	return nil
}

// writeTo writes header and records to f.
func (j *file) writeTo(f *os.File, contents *index, visit func(line []byte)) (size int64, err error) {
	w := bufio.NewWriterSize(f, writeBytes)
	w.Write(j.header) // w keeps the error
	w.Write(appendEnd(nil, 0))
	if contents != nil {
		if err := contents.copyTo(w, j.f, visit); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err == nil {
		_, err = f.WriteAt(appendEnd(nil, size), int64(len(j.header)))
	}
	return size, err
}

// tooLarge reports whether the file should be compacted when idle.
func (j *file) tooLarge() bool { return j.f != nil && j.size > j.limit }

// mustCompact reports whether compaction must not wait: the file is too large, or there may soon be
// no room for a second file.
func (j *file) mustCompact() bool {
	return j.tooLarge() && (j.size > j.limit+min(j.limit, excessBytes) || freeSpace(j.f) < 4*j.size)
}

// compact reduces the file to its current records. If that fails, the file continues to grow.
func (j *file) compact() {
	contents, err := read(j.f)
	if err == nil {
		err = j.renew(contents, func([]byte) {})
	}
	if err != nil {
		j.log.Warn("journal not compacted: it keeps growing", "error", err)
		j.limit = 2 * j.size
	}
}

// write appends whole lines. After an error none of them counts: a partial write is truncated, or
// else joined with the next write and has a wrong checksum.
func (j *file) write(lines []byte) error {
	if j.f == nil {
		return errClosed
	}
	if len(j.pendingHeader) > 0 {
		lines = slices.Concat(j.pendingHeader, lines)
	}
	failpoint.Here("journal.before-write")
	n, err := j.f.WriteAt(lines, j.size)
	failpoint.Here("journal.after-write")
	if err == nil {
		if len(j.pendingHeader) > 0 {
			j.endAt, j.pendingHeader = j.size+int64(len(j.header)), nil
		}
		j.size += int64(n)
		// If the end record can't be written, the old one stays. Then it is not noticed if what
		// follows it is missing.
		var line [64]byte
		_, _ = j.f.WriteAt(appendEnd(line[:0], j.size), j.endAt)
		return nil
	}
	if n > 0 && j.f.Truncate(j.size) != nil {
		j.size += int64(n)
	}
	return err
}

func (j *file) close() {
	if j.f != nil {
		j.f.Close()
		j.f = nil
	}
}
