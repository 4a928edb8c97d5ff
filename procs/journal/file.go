package journal

import (
	"bufio"
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

	"superd/crashpoint"
)

// The names of the file in the runtime directory, and of the one that is to take its place.
const (
	fileName = "journal"
	newName  = "journal.new"
)

// minLimitBytes is the size below which a journal is not compacted; by excessBytes it may outgrow its limit at most while there is more to write.
const (
	minLimitBytes = 256 << 10
	excessBytes   = 4 << 20
)

// A file is the journal on disk, open for appending. It is used by one goroutine at a time.
type file struct {
	path   string
	log    *slog.Logger
	header []byte

	f       *os.File // nil after close
	size    int64
	limit   int64  // the size above which it is to be compacted when nothing else is to be written
	leading []byte // the header where it is still to be written, else nil
}

// openFile returns the journal in dir, written anew, and what was in it.
func openFile(dir, boot string, log *slog.Logger) (*file, *State, error) {
	j := &file{path: filepath.Join(dir, fileName), log: log}
	old, err := openJournal(j.path)
	if err != nil {
		return nil, nil, err
	}
	var folded *fold
	if old != nil {
		if folded, err = read(old); err != nil {
			old.Close()
			return nil, nil, err
		}
	}
	state := newState(folded, boot)
	self := Writer{Pid: os.Getpid()}
	if info, ok := debug.ReadBuildInfo(); ok {
		self.Version = info.Main.Version
	}
	if j.header, err = appendHeader(nil, header{"journal", format, boot, self}); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", j.path, err)
	}
	j.f = old
	err = j.renew(folded, state.see)
	if err == nil {
		return j, state, nil
	}
	if old == nil {
		return nil, nil, fmt.Errorf("write %s: %w", j.path, err)
	}
	log.Warn("journal not written anew: the old file is written on", "error", err)
	j.size, j.limit = folded.size, 2*max(minLimitBytes, folded.size)
	j.leading = j.header
	if err := folded.copyTo(io.Discard, old, state.see); err != nil {
		old.Close()
		return nil, nil, fmt.Errorf("read %s: %w", j.path, err)
	}
	return j, state, nil
}

// openJournal opens the file at path, nil if there is none.
func openJournal(path string) (*os.File, error) {
	// Without waiting, should somebody have put a FIFO there.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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

func read(f *os.File) (*fold, error) {
	folded, err := foldOf(io.NewSectionReader(f, 0, 1<<62))
	if newer, ok := errors.AsType[*VersionError](err); ok {
		newer.Path = f.Name()
		return nil, newer
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return folded, nil
}

// renew writes what folded says of the open file, if there is one, into a new one, which takes its place. After an error
// all is as it was.
func (j *file) renew(folded *fold, see func(line []byte)) error {
	path := filepath.Join(filepath.Dir(j.path), newName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size, err := j.writeTo(f, folded, see)
	if err == nil {
		crashpoint.Here("journal.before-rename")
		err = os.Rename(path, j.path)
	}
	if err != nil {
		f.Close()
		os.Remove(path)
		return err
	}
	crashpoint.Here("journal.after-rename")
	j.close()
	j.f, j.size, j.leading = f, size, nil
	j.limit = max(minLimitBytes, 4*size)
	return nil
}

// writeTo writes header and records into f.
func (j *file) writeTo(f *os.File, folded *fold, see func(line []byte)) (size int64, err error) {
	w := bufio.NewWriterSize(f, writeBytes)
	w.Write(j.header) // an error stays with w
	if folded != nil {
		if err := folded.copyTo(w, j.f, see); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekCurrent)
}

// outgrown reports whether the file is to be compacted when there is nothing else to do.
func (j *file) outgrown() bool { return j.f != nil && j.size > j.limit }

// overgrown reports whether that must not wait: the file has become too large, or the room for it and another one might soon be gone.
func (j *file) overgrown() bool {
	return j.outgrown() && (j.size > j.limit+min(j.limit, excessBytes) || roomBeside(j.f) < 4*j.size)
}

// compact makes the file as small as what it says. When that fails, it grows on.
func (j *file) compact() {
	folded, err := read(j.f)
	if err == nil {
		err = j.renew(folded, func([]byte) {})
	}
	if err != nil {
		j.log.Warn("journal not compacted: it grows on", "error", err)
		j.limit = 2 * j.size
	}
}

// write appends whole lines. After an error none of them counts: what there is of them is cut off, or else ends in the
// next write and so has a wrong checksum.
func (j *file) write(lines []byte) error {
	if j.f == nil {
		return errClosed
	}
	if len(j.leading) > 0 {
		lines = slices.Concat(j.leading, lines)
	}
	crashpoint.Here("journal.before-write")
	n, err := j.f.Write(lines)
	crashpoint.Here("journal.after-write")
	if err == nil {
		j.size += int64(n)
		j.leading = nil
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
