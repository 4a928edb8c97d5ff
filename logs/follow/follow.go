package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/pipe"
	"superd/logs/segment"
)

// Lines writes the last lines of a log to w, byte for byte and across rotated files. With follow it
// then writes what is appended. lines -1 is all that exists; a last line without a newline counts.
// Without follow it ends with what the files contain at the call. With follow it ends when the
// writer is closed, or with the error of ctx.
//
// It reads files, with one buffer, so w may be slow. If files were removed before they were shown,
// a line reports how much is missing.
func Lines(ctx context.Context, l Log, lines int, follow bool, w io.Writer) error {
	return show(ctx, l, w, follow, func(f *follower) error {
		return f.seekLastLines(ctx, lines, f.segments.End())
	})
}

func show(ctx context.Context, l Log, w io.Writer, follow bool, seek func(*follower) error) error {
	wake := make(chan struct{}, 1)
	defer l.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()

	f := &follower{ctx: ctx, log: l, readers: l.Readers(), w: w, pools: true, lineEnded: true}
	defer f.putBuffer()
	defer f.closeFile()
	err := f.run(ctx, follow, wake, seek)
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("show output of %s: %w", l.Name(), err)
	}
	return err
}

// noEnd is a position that no output reaches. It is not math.MaxInt64, as positions may be
// negative.
const noEnd = math.MaxInt64 / 2

// A follower reads the segments of a log, one after the other.
type follower struct {
	ctx       context.Context
	log       Log
	readers   *Readers
	w         io.Writer
	lines     LineWriter  // is w, and told where a run has ended; nil: w is not
	pools     bool        // buffer is one of the readers'; else the follower owns it
	pooled    *pipe.Chunk // the array of buffer, from the readers; nil while it waits
	buffer    []byte
	lineEnded bool             // the last bytes written end in a newline
	listing   *segment.Listing // shared by many followers that begin at once; nil: none

	segments   *segment.Log
	position   int64               // of the next byte to show
	truncation *segment.Truncation // the newest one of segments that was handled

	file        *os.File           // the file that is read; nil: none is open
	fileSystem  fslimit.FileSystem // of file
	fileSegment segment.Segment    // segment of file, as it was when file was opened
	// appended counts bytes of file that were shown and have no position: another process appended
	// them after the rotation.
	appended int64
	modified time.Time // when file was last written to, as of its opening
}

// currentSegments returns the segments that are written to, and whether they are final.
func (f *follower) currentSegments() (segs *segment.Log, released bool) {
	if segs, released = f.log.Segments(); segs == nil {
		if segs = f.segments; segs == nil {
			segs = f.log.Unwritten()
		}
	}
	return segs, released
}

func (f *follower) run(ctx context.Context, follow bool, wake <-chan struct{}, seek func(*follower) error) error {
	segs, _ := f.currentSegments()
	if err := f.setSegments(segs); err != nil {
		return err
	}
	f.takeBuffer()
	if err := seek(f); err != nil {
		return err
	}
	return f.resume(ctx, follow, wake)
}

// resume shows the log from the position on.
func (f *follower) resume(ctx context.Context, follow bool, wake <-chan struct{}) error {
	if !follow {
		_, err := f.catchUp(f.segments.End(), false)
		return err
	}
	for {
		final, err := f.catchUp(noEnd, true)
		if final || err != nil {
			return err
		}
		var poll <-chan time.Time
		if f.direct() {
			poll = time.After(directPoll)
		}
		f.putBuffer()
		select {
		case <-wake:
		case <-poll:
		case <-ctx.Done():
		}
	}
}

// catchUp shows what there is by now before end. With follow it continues where the path of the log
// has changed. final reports that there will be no more.
func (f *follower) catchUp(end int64, follow bool) (final bool, err error) {
	for more := true; more && f.position < end; {
		if more, final, err = f.step(end, follow); err != nil {
			return false, err
		}
	}
	return final, nil
}

// step is catchUp for one buffer. more reports that another step may show something at once.
func (f *follower) step(end int64, follow bool) (more, final bool, err error) {
	if err := f.ctx.Err(); err != nil {
		return false, false, err
	}
	f.takeBuffer()
	// before showNext, which then reads all that was written until here
	newest, released := f.currentSegments()
	if newest.OutputEnd().Format == frame.Direct {
		if err := f.read(func() error { newest.Refresh(); return nil }); err != nil {
			return false, false, err
		}
	}
	more, err = f.showNext(end)
	switch {
	case more || err != nil:
	case follow && newest != f.segments: // the path has changed
		if err := f.setSegments(newest); err != nil {
			return false, false, err
		}
		f.position = newest.First()
		more = true
	default:
		final = released
	}
	return more, final, err
}

// direct reports whether a program writes into the file itself, and so notifies nobody.
func (f *follower) direct() bool { return f.segments.OutputEnd().Format == frame.Direct }

// takeBuffer gets a buffer. A thousand followers of quiet programs share a few.
func (f *follower) takeBuffer() {
	if f.buffer == nil {
		f.pooled = f.readers.Buffers.Get()
		f.buffer = f.pooled[:]
	}
}

// putBuffer returns the buffer.
func (f *follower) putBuffer() {
	if f.pooled != nil {
		f.readers.Buffers.Put(f.pooled)
		f.pooled, f.buffer = nil, nil
	}
}

// setSegments changes to other segments, unless that fails.
func (f *follower) setSegments(segs *segment.Log) error {
	f.closeFile()
	before := f.segments
	f.segments = segs
	f.truncation = segs.LastTruncation()
	err := f.read(func() error {
		segs.Refresh()
		return segs.List(f.listing)
	})
	if err != nil && before != nil {
		f.segments = before
	}
	return err
}

// read calls do, which may block on the file system, in a slot.
func (f *follower) read(do func() error) error {
	var slot *fslimit.Slot
	if f.file != nil {
		slot = f.readers.Limiter.Acquire(f.fileSystem, f.ctx.Done())
	} else if slot = f.segments.AcquireSlot(f.readers.Limiter, f.ctx.Done()); slot != nil {
		f.fileSystem = slot.FileSystem
	}
	if slot == nil {
		return f.ctx.Err()
	}
	defer slot.Release()
	return do()
}

func (f *follower) readAt(b []byte, offset int64) (n int, err error) {
	err = f.read(func() (err error) {
		n, err = f.file.ReadAt(b, offset)
		return err
	})
	return n, err
}

// seekLastLines sets the position to the start of the last lines before end; -1 is all. It reads
// backwards, a buffer at a time.
func (f *follower) seekLastLines(ctx context.Context, lines int, end int64) error {
	defer f.closeFile()
	f.position = end
	if lines < 0 {
		f.position = f.segments.At(math.MinInt64).Start
	}
	if lines <= 0 {
		return nil
	}
	p := end - 1 // the last byte belongs to the last line, newline or not
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		seg, ok := f.segments.Before(p)
		if !ok {
			f.position = f.segments.At(math.MinInt64).Start
			return nil
		}
		if f.file == nil || f.fileSegment.Start != seg.Start {
			f.closeFile()
			ok, err := f.openSegment(seg)
			if errors.As(err, new(segment.UnpackError)) {
				lineAfter := f.position < end // a line after seg
				f.position = seg.Start        // reading from there reports it
				if lines == 1 && lineAfter {
					// it ends in a whole line, as files do unless a line is endless
					f.position = seg.End
				}
				return nil
			}
			if err != nil {
				return err
			}
			if !ok {
				if now, _ := f.segments.Before(p); now.Name == seg.Name {
					return nil // removed by another process: output continues after it
				}
				continue // rotated just now
			}
		}
		p = min(p, seg.End)
		from := max(p-int64(len(f.buffer)), seg.Start)
		block := f.buffer[:p-from]
		if n, err := f.readAt(block, from-seg.Start); n < len(block) {
			if errors.Is(err, io.EOF) {
				return nil // truncated by another process
			}
			return err
		}
		if have := bytes.Count(block, newline); have < lines {
			lines -= have
			p, f.position = from, from
			continue
		}
		for ; lines > 0; lines-- {
			block = block[:bytes.LastIndexByte(block, '\n')]
		}
		f.position = from + int64(len(block)) + 1
		// ignore what is missing before them
		f.position = max(f.position, f.segments.At(f.position).Start)
		return nil
	}
}

// showNext shows the next bytes before end, at most a buffer. It reports whether more may follow at
// once.
func (f *follower) showNext(end int64) (more bool, err error) {
	if err := f.retractTorn(); err != nil {
		return false, err
	}
	seg := f.segments.At(f.position)
	if f.lines != nil {
		// after seg: if that has output of a later run, the end of this one is known
		if ended := f.segments.OutputEnd().Ended; ended > f.position {
			end = min(end, ended)
		} else if ended == f.position {
			if err := f.endLine(); err != nil {
				return false, err
			}
		}
	}
	if f.file != nil && f.fileSegment.Start != seg.Start {
		// The log continues in another file, so the open one is complete, even if it was removed.
		// If it was truncated, its other bytes are gone.
		if f.fileSegment.Identity != seg.Identity {
			show, n := f.show, min(seg.Start, end)-f.position
			if n <= 0 {
				show, n = f.showAppended, int64(len(f.buffer))
			}
			got, err := show(min(int64(len(f.buffer)), n))
			if got > 0 || err != nil {
				return true, err
			}
		}
		f.closeFile()
		return true, nil
	}
	if f.position < seg.Start {
		return true, f.skipTo(seg.Start, nil)
	}
	if f.position >= seg.End {
		return false, nil
	}
	if f.file == nil {
		ok, err := f.openSegment(seg)
		if errors.As(err, new(segment.UnpackError)) {
			return true, f.skipTo(seg.End, err)
		}
		if !ok || err != nil {
			return f.segments.At(f.position).Start != seg.Start, err
		}
	}
	n, err := f.show(min(int64(len(f.buffer)), seg.End-f.position, end-f.position))
	if n > 0 || err != nil {
		return true, err
	}
	if seg.Rotated() { // truncated
		return true, f.skipTo(seg.End, nil)
	}
	return false, nil // truncated; the writer will detect that and begin another segment
}

// endLine shows a last line without an end.
func (f *follower) endLine() error {
	f.lineEnded = true
	return f.lines.EndLine()
}

// openSegment opens the file of seg. It reports false if that file is gone.
func (f *follower) openSegment(seg segment.Segment) (ok bool, err error) {
	err = f.read(func() (err error) {
		ok, err = f.openFile(seg)
		return err
	})
	return ok, err
}

func (f *follower) openFile(seg segment.Segment) (bool, error) {
	file, err := seg.Open(f.log.MinFree())
	// in an UnpackError, the directory for unpacking may be what is missing
	for errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(segment.UnpackError)) {
		if !seg.Rotated() {
			return false, nil
		}
		now := f.segments.At(seg.Start)
		if now.Stamp != seg.Stamp || now.Compression == seg.Compression {
			f.segments.ForgetRemoved(seg)
			return false, nil
		}
		seg = now // compressed just now
		file, err = seg.Open(f.log.MinFree())
	}
	if err != nil {
		return false, err
	}
	info, err := segment.StatFD(int(file.Fd()))
	if err != nil || !seg.Rotated() && info.Identity != seg.Identity {
		file.Close()
		return false, err
	}
	seg.Identity = info.Identity
	f.file, f.fileSegment, f.modified = file, seg, info.Changed
	return true, nil
}

func (f *follower) closeFile() {
	if f.file != nil {
		f.file.Close()
		f.file, f.appended = nil, 0
	}
}

// show shows the next n bytes of the open file, or as many as it has.
func (f *follower) show(n int64) (int, error) {
	got, err := f.showAt(f.position-f.fileSegment.Start, n)
	f.position += int64(got)
	return got, err
}

// showAppended is show for the bytes of the open file after all that have a position.
func (f *follower) showAppended(n int64) (int, error) {
	got, err := f.showAt(f.position-f.fileSegment.Start+f.appended, n)
	f.appended += int64(got)
	return got, err
}

func (f *follower) showAt(offset, n int64) (int, error) {
	got, err := f.readAt(f.buffer[:n], offset)
	if got == 0 {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return 0, err
	}
	f.lineEnded = f.buffer[got-1] == '\n'
	_, err = f.w.Write(f.buffer[:got])
	return got, err
}

// A missingWriter is a writer of output that has writeMissing called where output is missing. Other
// writers get a line instead.
type missingWriter interface {
	writeMissing(bytes int64, cause error) // cause nil: its file is gone
}

// skipTo reports the bytes up to position to as missing, for cause; nil: their file is gone.
func (f *follower) skipTo(to int64, cause error) error {
	missing := to - f.position
	f.position = to
	if w, ok := f.w.(missingWriter); ok {
		w.writeMissing(missing, cause)
		return nil
	}
	text := "superd: " + missingText(missing, cause) + "\n"
	if !f.lineEnded {
		text = "\n" + text
	}
	f.lineEnded = true
	_, err := f.w.Write([]byte(text))
	return err
}

// A retractor is a writer of output that can remove its last bytes.
type retractor interface {
	retract(bytes int64)
}

// retractTorn sets the position back to where a torn record was cut off, if a part of that was
// shown.
func (f *follower) retractTorn() error {
	last := f.segments.LastTruncation()
	if last == f.truncation {
		return nil
	}
	f.truncation = last
	torn := f.position - last.At
	if torn <= 0 {
		return nil
	}
	f.position = last.At
	if w, ok := f.w.(retractor); ok {
		w.retract(torn)
		return nil
	}
	if f.lineEnded {
		return nil
	}
	f.lineEnded = true
	_, err := f.w.Write(newline)
	return err
}

// missingText returns the text that reports how many bytes are missing, and why.
func missingText(bytes int64, cause error) string {
	if cause != nil {
		return fmt.Sprintf("%d bytes can't be shown: %v", bytes, cause)
	}
	return fmt.Sprintf("%d bytes were removed by rotation before they could be shown", bytes)
}

// directPoll is how often a follower checks whether a program has written into its file itself.
const directPoll = 200 * time.Millisecond

var newline = []byte{'\n'}
