package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"superd/account"
	"superd/crashpoint"
)

// A file is a log file that is rotated. It belongs to the goroutine that drains; followers only see its chain. Nobody else
// writes to it, so the place of the next byte is known: splice(2) wants to be told.
type file struct {
	*setting // never changed, but replaced
	now      func() time.Time
	archive  *archive // told of each rotation; may be nil
	chain    chain

	fd       int      // -1: opened when next needed
	at       place    // where it is open: what is mounted there may have changed since
	identity identity // of the open file
	born     int64    // when the open file was made, as far as is known: nanoseconds of the Unix epoch
	size     int64    // where the next byte goes
	floor    int64    // the size from which the limit counts: raised when a rotation fails
	trouble  error    // why the last rotation failed; output goes on into the same file
	begun    bool     // it has been open
	regular  bool     // otherwise a device or FIFO, which is only written to
	splices  bool     // it takes bytes from a pipe itself
	unsure   bool     // its path may name another one by now, which is looked at before the next byte
	looked   int64    // when that was done last: nanoseconds of the Unix epoch
	inLine   bool     // what was appended last is not a whole line
	foreign  bool     // what is at its end was written in another format
}

// init makes f, the zero file, one as o has it, which is complete.
func (f *file) init(o *setting, now func() time.Time, archive *archive) {
	f.setting, f.now, f.archive, f.fd = o, now, archive, -1
	f.chain.init(o.Path, o.Format)
}

// enter waits for a slot in the place of the file. It is nil if quit was closed before there was one.
func (f *file) enter(s *slots, quit <-chan struct{}) *slot {
	if f.fd >= 0 {
		return s.acquire(f.at, quit)
	}
	in := s.enter(&f.chain, quit)
	if in != nil {
		f.at = in.place
	}
	return in
}

// check lets go of the file if path names another one by now, or none. It reports whether it has found the file as it was left.
func (f *file) check() (same bool) {
	f.unsure, f.looked = false, f.now().UnixNano()
	info, err := statPath(f.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.identity != f.identity {
		f.close()
	}
	return f.fd >= 0 && err == nil && info.size == f.size && f.regular
}

// lookEvery is how long a path is believed to name the same file, which takes as long to find out as to move a line.
const lookEvery = 100 * time.Millisecond

// doubt has it looked before the next byte whether the path still names the file, where that was not done a moment ago.
func (f *file) doubt() {
	if since := f.now().UnixNano() - f.looked; since < 0 || since >= int64(lookEvery) {
		f.unsure = true
	}
}

// take moves bytes from the pipe to the end of the file, at most the given number, rotating where that is due, and
// returns how many: 0 without an error when the pipe is empty. After an error the file is opened anew by the next take.
func (f *file) take(pipe int, most int64, look *glance) (moved int64, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for {
		if n := f.room(); n > 0 { // for whatever is there
			if err := f.verify(); err != nil {
				return 0, err
			}
			if n = f.room(); n > 0 {
				return f.move(pipe, min(n, most), look)
			}
		}
		n := min(pipeBytes(pipe), most)
		if n == 0 {
			return 0, nil
		}
		if err := f.ready(); err != nil {
			return 0, err
		}
		if n, err = f.fit(pipe, n, look); err != nil {
			return 0, err
		}
		if n > 0 {
			return f.move(pipe, n, look)
		}
		f.rotate()
	}
}

// room returns how many bytes go into the file, whatever they are; 0: that is not known, or takes more than to move them.
func (f *file) room() int64 {
	switch {
	case f.fd < 0 || !f.splices || f.MinFree > 0 || f.outdated():
		return 0
	case f.MaxSize == 0:
		return math.MaxInt64
	}
	return max(f.MaxSize-(f.size-f.floor)-chunkBytes, 0) // the line end is looked for in the last chunk
}

// fit returns how many of the next n bytes in the pipe go into the file; 0 means that it is to be rotated first. It looks
// at them only near the limit.
func (f *file) fit(pipe int, n int64, look *glance) (int64, error) {
	if f.outdated() {
		var err error
		if n, err = f.toLineEnd(pipe, n, look); n == 0 || err != nil {
			return n, err
		}
	}
	size := f.size - f.floor
	room := f.MaxSize - size
	if !f.regular || f.MaxSize == 0 || n <= room {
		return n, nil
	}
	if room > chunkBytes {
		return room - chunkBytes, nil // the line end is looked for in the last chunk
	}
	next, err := look.at(pipe, n)
	if err != nil || len(next) == 0 {
		return n, err
	}
	ended := true
	if size > 0 {
		if ended, err = endsLine(f.fd, f.size); err != nil {
			ended = true // it can't be read: better cut a line than grow for ever
		}
	}
	return int64(split(size, f.MaxSize, ended, next)), nil
}

// outdated reports whether the file is to be rotated for its age.
func (f *file) outdated() bool {
	return f.MaxAge > 0 && f.regular && f.size > f.floor && f.now().UnixNano()-f.born >= int64(f.MaxAge)
}

// toLineEnd returns how many of the next n bytes in the pipe are to go into the file before it ends in a whole line.
func (f *file) toLineEnd(pipe int, n int64, look *glance) (int64, error) {
	if ended, err := endsLine(f.fd, f.size); ended || err != nil {
		return 0, nil // where it can't be read, better cut a line than grow for ever
	}
	next, err := look.at(pipe, n)
	if end := bytes.IndexByte(next, '\n'); end >= 0 {
		return int64(end) + 1, err
	}
	return int64(len(next)), err
}

// move moves n bytes or, without an error, fewer, from the pipe to the end of the file.
func (f *file) move(pipe int, n int64, look *glance) (moved int64, err error) {
	if f.splices {
		crashpoint.Here("splice.before")
		moved, err = splicePipe(pipe, f.fd, f.size, n)
		crashpoint.Here("splice.after")
		f.splices = !errors.Is(err, syscall.EINVAL)
	}
	if !f.splices {
		moved, err = f.copy(pipe, n, look)
	}
	if err != nil {
		err = &os.PathError{Op: "write", Path: f.Path, Err: err}
	}
	if f.regular {
		f.size += moved
		f.chain.grown(moved)
	}
	return moved, err
}

// copy is move for a file that doesn't take bytes from a pipe itself. They are taken out of the pipe when they are in the
// file: who dies in between writes them once more, a chunk at most.
func (f *file) copy(pipe int, n int64, look *glance) (moved int64, err error) {
	next, err := look.at(pipe, n)
	if err != nil {
		return 0, err
	}
	var written int
	if f.regular {
		written, err = writeAt(f.fd, next, f.size)
	} else {
		written, err = write(f.fd, next)
	}
	for taken := 0; taken < written; {
		got, rerr := readPipe(pipe, next[taken:written])
		if got == 0 || rerr != nil {
			return int64(written), errors.Join(err, rerr)
		}
		taken += got
	}
	return int64(written), err
}

// verify lets go of the file if it has no name left or its path names another one, and else makes sure that the next byte goes to its end,
// whatever others did to it.
func (f *file) verify() error {
	if same := f.fd >= 0 && f.unsure && f.check(); f.fd >= 0 && !same {
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

// enoughFree tells when the file system is to count as full.
func (f *file) enoughFree() error {
	free, err := freeBytes(f.fd)
	if err == nil && free < f.MinFree {
		err = fmt.Errorf("%s: only %d bytes are free on its file system, min_free is %d", f.Path, free, f.MinFree)
	}
	return err
}

// openEnd opens the file, makes it and its directory if need be, and goes to its end.
func (f *file) openEnd() error {
	more := 0
	if f.Format == Direct { // output of who was started before that
		more = appending
	}
	fd, err := openLog(f.Path, more)
	if err != nil {
		return err
	}
	info, err := statFD(fd)
	if err == nil && !info.regular {
		err = setBlocking(fd)
	}
	if err != nil {
		closeFD(fd)
		return err
	}
	if info.regular {
		if !f.chain.claim() {
			closeFD(fd)
			return fmt.Errorf("write %s: a write that was begun for the program before hangs", f.Path)
		}
		if err := f.giveAway(fd, info); err != nil {
			f.trouble = err // better somebody else's than not written
		}
	}
	f.fd, f.splices = fd, info.regular
	f.unsure, f.looked = false, f.now().UnixNano()
	if !f.begun {
		f.begun = true
		f.archive.rotated(task{&f.chain, f.Compression})
	}
	return f.begin(info)
}

// giveAway gives an open log file the owners and the mode that the options have for it.
func (o *setting) giveAway(fd int, info fileInfo) error {
	uid, gid := info.uid, info.gid
	if o.Owner != "" {
		user, err := account.System().User(o.Owner)
		if err != nil {
			return fmt.Errorf("own %s: %w", o.Path, err)
		}
		uid = user.UID
	}
	if o.Group != "" {
		var err error
		if gid, err = account.System().Group(o.Group); err != nil {
			return fmt.Errorf("own %s: %w", o.Path, err)
		}
	}
	if uid != info.uid || gid != info.gid {
		if err := changeOwner(fd, uid, gid); err != nil {
			return &os.PathError{Op: "own", Path: o.Path, Err: err}
		}
	}
	if o.Mode != 0 && o.Mode != info.mode {
		if err := changeMode(fd, o.Mode); err != nil {
			return &os.PathError{Op: "change mode of", Path: o.Path, Err: err}
		}
	}
	return nil
}

// begin has the next byte go to the end of the open file, as info has it.
func (f *file) begin(info fileInfo) error {
	f.identity, f.regular, f.size, f.floor, f.born = info.identity, info.regular, 0, 0, f.now().UnixNano()
	if info.regular {
		f.size = info.size
	}
	if f.MaxAge > 0 && f.size > 0 {
		f.born = bornAt(f.fd, f.born)
	}
	if f.Format == Direct {
		if err := f.chain.look(func() (fileInfo, error) { return statFD(f.fd) }); err != nil {
			return err
		}
	} else {
		f.chain.opened(info)
	}
	if f.Format.records() && f.size > 0 {
		if err := f.mend(); err != nil {
			return err
		}
	}
	f.foreign = false
	return nil
}

// rotate gives the file its rotated name and removes the oldest ones. Where that fails, output goes on into the same
// file until as much again was written: a full file is better than a program that waits for ever.
func (f *file) rotate() {
	f.chain.disk.Lock()
	defer f.chain.disk.Unlock()
	crashpoint.Here("rotate.before-rename")
	f.trouble = f.rename()
	crashpoint.Here("rotate.after-rename")
	if f.trouble != nil {
		f.floor, f.born = f.size, f.now().UnixNano()
		return
	}
	f.close()
	bytes := int64(math.MaxInt64)
	if f.MaxTotal > 0 {
		bytes = f.MaxTotal - f.MaxSize // the next file may become as large
	}
	var errs []error
	for _, old := range f.chain.pruned(f.Keep, bytes) {
		f.chain.each(func(ch *chain) { ch.forget(old.stamp) })
		errs = append(errs, removeFile(old.name))
	}
	f.trouble = errors.Join(errs...)
	f.archive.rotated(task{&f.chain, f.Compression})
}

// rename gives the file a name that is newer than those of the files rotated before, and that nothing has yet.
func (f *file) rename() error {
	if err := f.chain.listLocked(nil); err != nil {
		return fmt.Errorf("list rotated files: %w", err)
	}
	for s := nextStamp(f.now(), f.chain.newestStamp()); ; s++ {
		err := renameNew(f.Path, s.name(f.Path))
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
	closeFD(f.fd)
	f.fd = -1
}
