package logs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"superd/internal/failpoint"
	"superd/internal/passwd"
)

// A file is a log file that is rotated. It belongs to the draining goroutine; followers use only
// its segments. It has no other writer, so the offset of the next byte, which splice(2) needs, is
// known.
type file struct {
	*setting // replaced, never modified
	now      func() time.Time
	archive  *archive // gets each rotation; may be nil
	segments segments

	fd         int        // -1: closed; the next write opens it
	fileSystem fileSystem // of the path when it was opened; a mount may have changed that since
	identity   identity   // of the open file
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

// init makes f, which is zero, a file with the complete options o.
func (f *file) init(o *setting, now func() time.Time, archive *archive) {
	f.setting, f.now, f.archive, f.fd = o, now, archive, -1
	f.segments.init(o.Path, o.Options)
}

// acquireSlot waits for a slot in the file system of the file. It returns nil if stop was closed
// first.
func (f *file) acquireSlot(s *slots, stop <-chan struct{}) *slot {
	if f.fd >= 0 || f.special {
		return s.acquire(f.fileSystem, stop)
	}
	in := s.acquireFor(&f.segments, stop)
	if in != nil {
		f.fileSystem = in.fileSystem
	}
	return in
}

// checkUnchanged closes the file if its path names another one now, or none. It reports whether the
// file is unchanged.
func (f *file) checkUnchanged() (same bool) {
	f.checkPath, f.checked = false, f.now().UnixNano()
	stat := f.location().stat
	if f.guarded { // then one call suffices
		stat = f.location().statGuarded
	}
	info, err := stat("")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.identity != f.identity {
		f.close()
	}
	return f.fd >= 0 && err == nil && info.size == f.size && f.regular
}

// checkInterval is how long a check of a path is valid. A check takes as long as moving a line.
const checkInterval = 100 * time.Millisecond

// requestCheck requests a check of the path before the next byte, unless the last one is younger
// than checkInterval.
func (f *file) requestCheck() {
	if since := f.now().UnixNano() - f.checked; since < 0 || since >= int64(checkInterval) {
		f.checkPath = true
	}
}

// take moves at most limit bytes from the pipe to the end of the file, and returns how many. It
// rotates the file if necessary. 0 without an error means that the pipe is empty. After an error
// the next take opens the file anew.
func (f *file) take(pipe int, limit int64, peek *peekBuffer) (moved int64, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for {
		if n := f.room(); n > 0 { // whatever is in the pipe
			if err := f.verify(); err != nil {
				return 0, err
			}
			if n = f.room(); n > 0 {
				return f.move(pipe, min(n, limit), peek)
			}
		}
		n := min(peek.bytes(pipe), limit)
		if n == 0 {
			return 0, nil
		}
		if err := f.ready(); err != nil {
			return 0, err
		}
		if n, err = f.fit(pipe, n, peek); err != nil {
			return 0, err
		}
		if n > 0 {
			return f.move(pipe, n, peek)
		}
		f.rotate()
	}
}

// room returns how many bytes fit into the file whatever they are; 0: unknown, or expensive to find
// out.
func (f *file) room() int64 {
	switch {
	case f.fd < 0 || !f.splices || f.MinFree > 0 || f.outdated():
		return 0
	case f.MaxSize == 0:
		return math.MaxInt64
	}
	// the line end is searched in the last chunk
	return max(f.MaxSize-(f.size-f.base)-chunkBytes, 0)
}

// fit returns how many of the next n bytes in the pipe fit into the file; 0 means that it must be
// rotated first. It peeks at them only near the limit.
func (f *file) fit(pipe int, n int64, peek *peekBuffer) (int64, error) {
	if f.outdated() {
		var err error
		if n, err = f.toLineEnd(pipe, n, peek); n == 0 || err != nil {
			return n, err
		}
	}
	size := f.size - f.base
	room := f.MaxSize - size
	if !f.regular || f.MaxSize == 0 || n <= room {
		return n, nil
	}
	if room > chunkBytes {
		return room - chunkBytes, nil // the line end is searched in the last chunk
	}
	next, err := peek.next(pipe, n)
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
func (f *file) outdated() bool {
	return f.MaxAge > 0 && f.regular && f.size > f.base && f.now().UnixNano()-f.created >= int64(f.MaxAge)
}

// toLineEnd returns how many of the next n bytes in the pipe go into the file until it ends in a
// whole line.
func (f *file) toLineEnd(pipe int, n int64, peek *peekBuffer) (int64, error) {
	if ended, err := endsLine(f.fd, f.size); ended || err != nil {
		return 0, nil // unreadable: a cut line is better than endless growth
	}
	next, err := peek.next(pipe, n)
	if end := bytes.IndexByte(next, '\n'); end >= 0 {
		return int64(end) + 1, err
	}
	return int64(len(next)), err
}

// move moves n bytes or, without an error, fewer, from the pipe to the end of the file.
func (f *file) move(pipe int, n int64, peek *peekBuffer) (moved int64, err error) {
	f.splices = f.splices && !peek.refused.splice.Load()
	splices := f.splices && peek.buffered() == 0 // bytes read ahead come first
	if splices {
		failpoint.Here("splice.before")
		moved, err = splicePipe(pipe, f.fd, f.size, n)
		failpoint.Here("splice.after")
		f.splices = !peek.refused.isSplice(err) && !errors.Is(err, syscall.EINVAL)
	}
	if !splices || !f.splices {
		moved, err = f.copy(pipe, n, peek)
	}
	if err != nil {
		err = &os.PathError{Op: "write", Path: f.Path, Err: err}
	}
	if f.regular {
		f.size += moved
		f.segments.recordAppended(moved)
	}
	return moved, err
}

// copy is move for a file that splice(2) can't write to. Bytes leave the pipe when they are in the
// file, so a crash in between repeats a chunk at most. Without tee(2) they leave it before they are
// written.
func (f *file) copy(pipe int, n int64, peek *peekBuffer) (moved int64, err error) {
	next, err := peek.next(pipe, n)
	if err != nil {
		return 0, err
	}
	var written int
	if f.regular {
		written, err = writeAt(f.fd, next, f.size)
	} else {
		written, err = writeSpecial(f.fd, next)
	}
	for taken := len(peek.drain.ahead.take(written)); taken < written; {
		got, rerr := readPipe(pipe, next[taken:written])
		if got == 0 || rerr != nil {
			return int64(written), errors.Join(err, rerr)
		}
		taken += got
	}
	return int64(written), err
}

// verify closes the file if it was removed or its path names another one. Otherwise it makes sure
// that the next byte goes to the end of the file, even if others have changed it.
func (f *file) verify() error {
	if same := f.fd >= 0 && f.checkPath && f.checkUnchanged(); f.fd >= 0 && !same {
		info, err := statFD(f.fd)
		if err != nil {
			return err
		}
		switch {
		case !info.named:
			f.close()
		case f.regular && info.size != f.size:
			if err := f.begin(info); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready makes sure that the file is open and that the next byte goes to its end.
func (f *file) ready() error {
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
func (f *file) enoughFree() error {
	free, err := freeBytes(f.fd)
	if err == nil && free < f.MinFree {
		err = fmt.Errorf("%s: only %d bytes are free on its file system, min_free is %d", f.Path, free, f.MinFree)
	}
	return err
}

// openEnd opens the file at its end. It makes the file and its directory if necessary.
func (f *file) openEnd() error {
	flags := 0
	if f.Format == Direct { // output of processes started before the change to Direct
		flags = appending
	}
	opened, err := f.location().openLog(flags)
	if err != nil {
		return err
	}
	info := opened.info
	if info.regular {
		if !f.segments.claimWriting() {
			closeFD(opened.fd)
			return fmt.Errorf("write %s: an earlier write to it hangs", f.Path)
		}
		if err := f.setOwnership(opened); err != nil {
			f.rotationError = err // a file with a wrong owner is better than lost output
		}
	}
	f.fd, f.splices, f.special, f.guarded = opened.fd, info.regular, !info.regular, opened.guarded
	if f.special { // its reader may stall, which must not block other logs of its file system
		f.fileSystem = fileSystem{directory: f.Path}
	}
	f.checkPath, f.checked = false, f.now().UnixNano()
	if !f.wasOpen {
		f.wasOpen = true
		f.archive.enqueue(compressionJob{&f.segments, f.Compression})
	}
	return f.begin(info)
}

// setOwnership sets the owners and mode of an open log file by the options. It is an error to
// change those of a file that another user may have put there: it may be one of root's files.
func (o *setting) setOwnership(f logFile) error {
	info := f.info
	uid, gid := info.uid, info.gid
	if o.Owner != "" {
		user, err := passwd.System().User(o.Owner)
		if err != nil {
			return fmt.Errorf("own %s: %w", o.Path, err)
		}
		uid = user.UID
	}
	if o.Group != "" {
		var err error
		if gid, err = passwd.System().Group(o.Group); err != nil {
			return fmt.Errorf("own %s: %w", o.Path, err)
		}
	}
	mode := cmp.Or(o.Mode, info.mode)
	if f.exposed != "" && (uid != info.uid || gid != info.gid || mode != info.mode) {
		return fmt.Errorf("own %s: it existed before, and %s: remove it, and superd creates it", o.Path, f.exposed)
	}
	if uid != info.uid || gid != info.gid {
		if err := changeOwner(f.fd, uid, gid); err != nil {
			return &os.PathError{Op: "own", Path: o.Path, Err: err}
		}
	}
	if mode != info.mode {
		if err := changeMode(f.fd, mode); err != nil {
			return &os.PathError{Op: "change mode of", Path: o.Path, Err: err}
		}
	}
	return nil
}

// begin continues at the end of the open file, which info describes.
func (f *file) begin(info fileInfo) error {
	f.identity, f.regular, f.size, f.base, f.created = info.identity, info.regular, 0, 0, f.now().UnixNano()
	if info.regular {
		f.size = info.size
	}
	if f.MaxAge > 0 && f.size > 0 {
		f.created = creationTime(f.fd, f.created)
	}
	if f.Format == Direct {
		if err := f.segments.recordStat(func() (fileInfo, error) { return statFD(f.fd) }); err != nil {
			return err
		}
	} else {
		f.segments.recordOpened(info)
	}
	if f.Format.records() && f.size > 0 {
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
func (f *file) rotate() {
	f.segments.disk.Lock()
	defer f.segments.disk.Unlock()
	failpoint.Here("rotate.before-rename")
	f.rotationError = f.rename()
	failpoint.Here("rotate.after-rename")
	if f.rotationError != nil {
		f.base, f.created = f.size, f.now().UnixNano()
		return
	}
	f.close()
	bytes := int64(math.MaxInt64)
	if f.MaxTotal > 0 {
		bytes = f.MaxTotal - f.MaxSize // the next file may become as large
	}
	var errs []error
	for _, old := range f.segments.pruned(f.Keep, bytes) {
		f.segments.each(func(segs *segments) { segs.forget(old.stamp) })
		errs = append(errs, old.remove(old.suffix()))
	}
	f.rotationError = errors.Join(errs...)
	f.archive.enqueue(compressionJob{&f.segments, f.Compression})
}

// rename gives the file a name that is newer than those of the rotated files, and unused.
func (f *file) rename() error {
	if err := f.segments.listLocked(nil); err != nil {
		return fmt.Errorf("list rotated files: %w", err)
	}
	for s := nextStamp(f.now(), f.segments.newestStamp()); ; s++ {
		err := f.location().rename(s.name(""))
		switch {
		case errors.Is(err, fs.ErrExist):
		case errors.Is(err, fs.ErrNotExist):
			// removed by another process; the next file is created as usual
			return nil
		case err != nil:
			return err
		default:
			f.segments.recordRotated(s)
			return nil
		}
	}
}

func (f *file) location() location { return location{f.Path, f.Options} }

// close closes the file. It ignores the error, as the kernel has the last write already.
func (f *file) close() {
	closeFD(f.fd)
	f.fd = -1
}
