package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"superd/internal/failpoint"
	"superd/internal/syscalls"
	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/pipe"
)

// A File is a log file that is rotated. It belongs to the draining goroutine; followers use only
// its Log. It has no other writer, so the offset of the next byte, which splice(2) needs, is
// known.
type File struct {
	*Options // replaced, never modified
	path     string
	now      func() time.Time
	archive  *Archive // gets each rotation; may be nil
	log      Log

	fd int // -1: closed; the next write opens it
	// fileSystem is that of the path when it was opened; a mount may have changed that since.
	fileSystem fslimit.FileSystem
	identity   Identity // of the open file
	// created is when the open file was made, as far as that is known, in nanoseconds of Unix time.
	created       int64
	size          int64 // offset of the next byte
	base          int64 // size from which MaxSize counts: raised when a rotation fails
	rotationError error // of the last rotation; after it output continues in the same file
	checked       int64 // when the path was last checked, in nanoseconds of Unix time
	// special reports that the path was a FIFO or device when last opened. Such a log counts as a
	// file system of its own.
	special     bool
	wasOpen     bool // it was open before
	guarded     bool // no other user may replace it
	regular     bool // false: a device or FIFO, which is only written to
	splices     bool // splice(2) can write to it
	checkPath   bool // check before the next byte that the path names this file
	midLine     bool // what was appended last does not end a line
	otherFormat bool // its end may be in another format
}

// Init makes f, which is zero, the file at path with the options o. It adds its Log to those of
// the archive. archive may be nil.
func (f *File) Init(path string, o *Options, now func() time.Time, archive *Archive) {
	f.Options, f.path, f.now, f.archive, f.fd = o, path, now, archive, -1
	f.log.init(path, o)
	if archive != nil {
		archive.paths.add(&f.log)
	}
}

// SetOptions sets the options from the next byte on.
func (f *File) SetOptions(o *Options) {
	f.otherFormat = f.otherFormat || o.Format != f.Format
	f.Options = o
	f.log.setOptions(o)
}

// Path returns the path.
func (f *File) Path() string { return f.path }

// Log returns the files of the log.
func (f *File) Log() *Log { return &f.log }

// FileSystem returns the file system of the path when it was opened.
func (f *File) FileSystem() fslimit.FileSystem { return f.fileSystem }

// IsOpen reports whether the file is open.
func (f *File) IsOpen() bool { return f.fd >= 0 }

// WasOpen reports whether the file was ever open.
func (f *File) WasOpen() bool { return f.wasOpen }

// RotationError returns the error of the last rotation. After it output continues in the same file.
func (f *File) RotationError() error { return f.rotationError }

// CheckPath makes the next byte wait for a check that the path still names the file.
func (f *File) CheckPath() { f.checkPath = true }

// Release closes the file for good. Another log with its path may write from now on.
func (f *File) Release() {
	f.Close()
	if f.archive != nil {
		f.archive.paths.endWriting(&f.log)
	}
}

// AcquireSlot waits for a slot in the file system of the file. It returns nil if stop was closed
// first.
func (f *File) AcquireSlot(l *fslimit.Limiter, stop <-chan struct{}) *fslimit.Slot {
	if f.fd >= 0 || f.special {
		return l.Acquire(f.fileSystem, stop)
	}
	in := f.log.AcquireSlot(l, stop)
	if in != nil {
		f.fileSystem = in.FileSystem
	}
	return in
}

// checkUnchanged closes the file if its path names another one now, or none. It reports whether the
// File is unchanged.
func (f *File) checkUnchanged() (same bool) {
	f.checkPath, f.checked = false, f.now().UnixNano()
	stat := f.location().stat
	if f.guarded { // then one call suffices
		stat = f.location().statGuarded
	}
	info, err := stat("")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Identity != f.identity {
		f.Close()
	}
	return f.fd >= 0 && err == nil && info.size == f.size && f.regular
}

// CheckInterval is how long a check of a path is valid. A check takes as long as moving a line.
const CheckInterval = 100 * time.Millisecond

// RequestCheck requests a check of the path before the next byte, unless the last one is younger
// than CheckInterval.
func (f *File) RequestCheck() {
	if since := f.now().UnixNano() - f.checked; since < 0 || since >= int64(CheckInterval) {
		f.checkPath = true
	}
}

// Take moves at most limit bytes from the pipe to the end of the file, and returns how many. It
// rotates the file if necessary. 0 without an error means that the pipe is empty. After an error
// the next take opens the file anew.
func (f *File) Take(limit int64, peek *pipe.Peek) (moved int64, err error) {
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for {
		if n := f.room(); n > 0 { // whatever is in the pipe
			if err := f.verify(); err != nil {
				return 0, err
			}
			if n = f.room(); n > 0 {
				return f.move(min(n, limit), peek)
			}
		}
		n := min(peek.Bytes(), limit)
		if n == 0 {
			return 0, nil
		}
		if err := f.Ready(); err != nil {
			return 0, err
		}
		if n, err = f.fit(n, peek); err != nil {
			return 0, err
		}
		if n > 0 {
			return f.move(n, peek)
		}
		f.rotate()
	}
}

// room returns how many bytes fit into the file whatever they are; 0: unknown, or expensive to find
// out.
func (f *File) room() int64 {
	switch {
	case f.fd < 0 || !f.splices || f.MinFree > 0 || f.outdated():
		return 0
	case f.MaxSize == 0:
		return math.MaxInt64
	}
	// the line end is searched in the last chunk
	return max(f.MaxSize-(f.size-f.base)-pipe.ChunkBytes, 0)
}

// fit returns how many of the next n bytes in the pipe fit into the file; 0 means that it must be
// rotated first. It peeks at them only near the limit.
func (f *File) fit(n int64, peek *pipe.Peek) (int64, error) {
	if f.outdated() {
		var err error
		if n, err = f.toLineEnd(n, peek); n == 0 || err != nil {
			return n, err
		}
	}
	size := f.size - f.base
	room := f.MaxSize - size
	if !f.regular || f.MaxSize == 0 || n <= room {
		return n, nil
	}
	if room > pipe.ChunkBytes {
		return room - pipe.ChunkBytes, nil // the line end is searched in the last chunk
	}
	next, err := peek.Next(n)
	if err != nil || len(next) == 0 {
		return n, err
	}
	ended := true
	if size > 0 {
		if ended, err = endsLine(f.fd, f.size); err != nil {
			ended = true // unreadable: a cut line is better than endless growth
		}
	}
	return int64(split(size, f.MaxSize, ended, next)), nil
}

// outdated reports whether the file must be rotated for its age.
func (f *File) outdated() bool {
	return f.MaxAge > 0 && f.regular && f.size > f.base && f.now().UnixNano()-f.created >= int64(f.MaxAge)
}

// toLineEnd returns how many of the next n bytes in the pipe go into the file until it ends in a
// whole line.
func (f *File) toLineEnd(n int64, peek *pipe.Peek) (int64, error) {
	if ended, err := endsLine(f.fd, f.size); ended || err != nil {
		return 0, nil // unreadable: a cut line is better than endless growth
	}
	next, err := peek.Next(n)
	if end := bytes.IndexByte(next, '\n'); end >= 0 {
		return int64(end) + 1, err
	}
	return int64(len(next)), err
}

// move moves n bytes or, without an error, fewer, from the pipe to the end of the file.
func (f *File) move(n int64, peek *pipe.Peek) (moved int64, err error) {
	f.splices = f.splices && peek.MaySplice()
	splices := f.splices && peek.SplicesNext()
	if splices {
		failpoint.Here("splice.before")
		moved, f.splices, err = peek.Splice(f.fd, f.size, n)
		failpoint.Here("splice.after")
	}
	if !splices || !f.splices {
		moved, err = f.copy(n, peek)
	}
	if err != nil {
		err = &os.PathError{Op: "write", Path: f.path, Err: err}
	}
	if f.regular {
		f.size += moved
		f.log.recordAppended(moved)
	}
	return moved, err
}

// copy is move for a file that splice(2) can't write to. Bytes leave the pipe when they are in the
// file, so a crash in between repeats a chunk at most. Without tee(2) they leave it before they are
// written.
func (f *File) copy(n int64, peek *pipe.Peek) (moved int64, err error) {
	next, err := peek.Next(n)
	if err != nil {
		return 0, err
	}
	var written int
	if f.regular {
		written, err = writeAt(f.fd, next, f.size)
	} else {
		written, err = pipe.WritePieces(f.fd, next)
	}
	if _, terr := peek.Take(next[:written]); terr != nil {
		err = errors.Join(err, terr)
	}
	return int64(written), err
}

// verify closes the file if it was removed or its path names another one. Otherwise it makes sure
// that the next byte goes to the end of the file, even if others have changed it.
func (f *File) verify() error {
	if same := f.fd >= 0 && f.checkPath && f.checkUnchanged(); f.fd >= 0 && !same {
		info, err := StatFD(f.fd)
		if err != nil {
			return err
		}
		switch {
		case !info.named:
			f.Close()
		case f.regular && info.size != f.size:
			if err := f.begin(info); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ready makes sure that the file is open and that the next byte goes to its end.
func (f *File) Ready() error {
	if err := f.verify(); err != nil {
		return err
	}
	if f.fd < 0 {
		if err := f.openEnd(); err != nil {
			return err
		}
	}
	if f.MinFree > 0 && f.regular {
		return f.enoughFree()
	}
	return nil
}

// enoughFree returns an error if less than MinFree is free.
func (f *File) enoughFree() error {
	free, err := freeBytes(f.fd)
	if err == nil && free < f.MinFree {
		err = fmt.Errorf("%s: only %d bytes are free on its file system, min_free is %d", f.path, free, f.MinFree)
	}
	return err
}

// openEnd opens the file at its end. It makes the file and its directory if necessary.
func (f *File) openEnd() error {
	flags := 0
	if f.Format == frame.Direct { // output of processes started before the change to Direct
		flags = appending
	}
	opened, err := f.location().openLog(flags)
	if err != nil {
		return err
	}
	info := opened.info
	if info.regular {
		if !f.log.claimWriting() {
			syscalls.Close(opened.fd)
			return fmt.Errorf("write %s: an earlier write to it hangs", f.path)
		}
		if err := f.setOwnership(f.path, opened); err != nil {
			f.rotationError = err // a file with a wrong owner is better than lost output
		}
	}
	f.fd, f.splices, f.special, f.guarded = opened.fd, info.regular, !info.regular, opened.guarded
	if f.special { // its reader may stall, which must not block other logs of its file system
		f.fileSystem = fslimit.Alone(f.path)
	}
	f.checkPath, f.checked = false, f.now().UnixNano()
	if !f.wasOpen {
		f.wasOpen = true
		f.archive.enqueue(compressionJob{&f.log, f.Compression})
	}
	return f.begin(info)
}

// begin continues at the end of the open file, which info describes.
func (f *File) begin(info Info) error {
	f.identity, f.regular, f.size, f.base, f.created = info.Identity, info.regular, 0, 0, f.now().UnixNano()
	if info.regular {
		f.size = info.size
	}
	if f.MaxAge > 0 && f.size > 0 {
		f.created = creationTime(f.fd, f.created)
	}
	if f.Format == frame.Direct {
		if err := f.log.recordStat(func() (Info, error) { return StatFD(f.fd) }); err != nil {
			return err
		}
	} else {
		f.log.recordOpened(info)
	}
	if f.Format.Records() && f.size > 0 {
		if err := f.repairEnd(); err != nil {
			return err
		}
	}
	f.otherFormat = false
	return nil
}

// rotate renames the file and removes the oldest rotated ones. If that fails, output continues in
// the same file until MaxSize more bytes are written: a file that is too large is better than a
// program that waits forever.
func (f *File) rotate() {
	f.log.disk.Lock()
	defer f.log.disk.Unlock()
	failpoint.Here("rotate.before-rename")
	f.rotationError = f.rename()
	failpoint.Here("rotate.after-rename")
	if f.rotationError != nil {
		f.base, f.created = f.size, f.now().UnixNano()
		return
	}
	f.Close()
	bytes := int64(math.MaxInt64)
	if f.MaxTotal > 0 {
		bytes = f.MaxTotal - f.MaxSize // the next file may become as large
	}
	f.rotationError = f.prune(f.Keep, bytes)
	f.archive.enqueue(compressionJob{&f.log, f.Compression})
}

// Clear empties the file, and with rotated removes the rotated ones. Programs that have it open
// themselves write on, from its start. What is not a regular file keeps nothing to clear.
func (f *File) Clear(rotated bool) error {
	var errs []error
	if rotated {
		errs = append(errs, f.removeRotated())
	}
	if err := f.verify(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if f.fd < 0 {
		if _, err := f.location().stat(""); errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errs...)
		}
		if err := f.openEnd(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		defer f.Close() // until output comes
	}
	if !f.regular {
		return errors.Join(errs...)
	}
	err := truncate(f.fd, 0)
	if err == nil {
		f.midLine = false
		var info Info
		if info, err = StatFD(f.fd); err == nil {
			err = f.begin(info)
		}
	}
	if err != nil {
		err = &os.PathError{Op: "clear", Path: f.path, Err: err}
	}
	return errors.Join(append(errs, err)...)
}

// removeRotated removes all rotated files.
func (f *File) removeRotated() error {
	f.log.disk.Lock()
	defer f.log.disk.Unlock()
	if err := f.log.listLocked(nil); err != nil {
		return fmt.Errorf("list rotated files: %w", err)
	}
	return f.prune(0, 0)
}

// prune removes the oldest rotated files. Of the newest ones it retains at most keep, with at most
// bytes on the disk in all. The caller holds disk.
func (f *File) prune(keep int, bytes int64) error {
	var errs []error
	for _, old := range f.log.pruned(keep, bytes) {
		f.log.each(func(segs *Log) { segs.forget(old.Stamp) })
		errs = append(errs, old.remove(old.Suffix()))
	}
	return errors.Join(errs...)
}

// rename gives the file a name that is newer than those of the rotated files, and unused.
func (f *File) rename() error {
	if err := f.log.listLocked(nil); err != nil {
		return fmt.Errorf("list rotated files: %w", err)
	}
	for s := nextStamp(f.now(), f.log.newestStamp()); ; s++ {
		err := f.location().rename(s.Name(""))
		switch {
		case errors.Is(err, fs.ErrExist):
		case errors.Is(err, fs.ErrNotExist):
			// removed by another process; the next file is created as usual
			return nil
		case err != nil:
			return err
		default:
			f.log.recordRotated(s)
			return nil
		}
	}
}

func (f *File) location() location { return location{f.path, f.Options} }

// Close closes the file. It ignores the error, as the kernel has the last write already.
func (f *File) Close() {
	syscalls.Close(f.fd)
	f.fd = -1
}
