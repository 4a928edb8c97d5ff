package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"time"
)

// Follow writes the last lines of the output to w, byte for byte and across rotated files. With
// follow it then writes what is appended. lines -1 is all that exists; a last line without a
// newline counts. Without follow it ends with what the files contain at the call. With follow it
// ends when the collector is closed, or with the error of ctx. It must not run on the loop.
//
// It reads files, with one buffer, so w may be slow. If files were removed before they were shown,
// a line reports how much is missing.
func (c *Collector) Follow(ctx context.Context, lines int, follow bool, w io.Writer) error {
	return c.show(ctx, Stdout, w, follow, func(f *follower) error { return f.seekLastLines(ctx, lines, f.segments.end()) })
}

// FollowFromStart is Follow for all that this collector has ever written to the log of a stream.
func (c *Collector) FollowFromStart(ctx context.Context, which Stream, w io.Writer) error {
	return c.show(ctx, which, w, true, func(f *follower) error {
		f.position = f.segments.first()
		return nil
	})
}

func (c *Collector) show(ctx context.Context, which Stream, w io.Writer, follow bool, seek func(*follower) error) error {
	wake := make(chan struct{}, 1)
	defer c.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()

	f := &follower{ctx: ctx, readers: &c.store.readers, collector: c, which: which, w: w, buffers: &c.store.buffers, lineEnded: true}
	defer f.putBuffer()
	defer f.closeFile()
	err := f.run(ctx, follow, wake, seek)
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("show output of %s: %w", c.name, err)
	}
	return err
}

// segments returns the segments of the log file, and whether they are final.
func (c *Collector) segments() (segs *segments, released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.streams[0].file.segments, c.released
}

// segmentsOf returns the segments of a stream's own log file, nil while nothing was written there,
// and whether they are final.
func (c *Collector) segmentsOf(which Stream) (segs *segments, released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.streams[0].file
	if which == Stdout {
		return &first.segments, c.released
	}
	for _, s := range c.streams[1:] {
		if s.file != first {
			return &s.file.segments, c.released
		}
	}
	return nil, c.released || c.options.stderrSetting() == nil
}

// noEnd is a position that no output reaches. It is not math.MaxInt64, as positions may be
// negative.
const noEnd = math.MaxInt64 / 2

// A follower reads the segments of a log, one after the other.
type follower struct {
	ctx       context.Context
	readers   *slots
	collector *Collector
	which     Stream
	w         io.Writer
	buffers   *sync.Pool        // of *[chunkBytes]byte; nil: the follower owns buffer
	pooled    *[chunkBytes]byte // the array of buffer, from buffers; nil while it waits
	buffer    []byte
	lineEnded bool     // the last bytes written end in a newline
	listing   *listing // shared by many followers that begin at once; nil: none

	segments   *segments
	position   int64       // of the next byte to show
	truncation *truncation // the newest one of segments that was handled

	file        *os.File   // the file that is read; nil: none is open
	fileSystem  fileSystem // of file
	fileSegment segment    // segment of file, as it was when file was opened
	// appended counts bytes of file that were shown and have no position: another process appended
	// them after the rotation.
	appended int64
	modified time.Time // when file was last written to, as of its opening
}

// currentSegments returns the segments that are written to, and whether they are final.
func (f *follower) currentSegments() (segs *segments, released bool) {
	if segs, released = f.collector.segmentsOf(f.which); segs == nil {
		if segs = f.segments; segs == nil {
			o := f.collector.setting()
			segs = newSegments(o.StderrPath, o.Options)
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
	end := f.segments.end()
	if follow {
		end = noEnd
	}
	for f.position < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.takeBuffer()
		// before the step, which then reads all that was written until here
		newest, released := f.currentSegments()
		direct := newest.outputEnd().format == Direct
		if direct {
			if err := f.read(func() error { newest.refresh(); return nil }); err != nil {
				return err
			}
		}
		more, err := f.showNext(end)
		switch {
		case err != nil:
			return err
		case more:
		case !follow:
			return nil
		case newest != f.segments: // the path has changed
			if err := f.setSegments(newest); err != nil {
				return err
			}
			f.position = newest.first()
		case released:
			return nil
		default:
			var poll <-chan time.Time
			if direct {
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
	return nil
}

// takeBuffer gets a buffer. A thousand followers of quiet programs share a few.
func (f *follower) takeBuffer() {
	if f.buffer == nil {
		f.pooled = f.buffers.Get().(*[chunkBytes]byte)
		f.buffer = f.pooled[:]
	}
}

// putBuffer returns the buffer.
func (f *follower) putBuffer() {
	if f.pooled != nil {
		f.buffers.Put(f.pooled)
		f.pooled, f.buffer = nil, nil
	}
}

// setSegments changes to other segments, unless that fails.
func (f *follower) setSegments(segs *segments) error {
	f.closeFile()
	before := f.segments
	f.segments = segs
	f.truncation = segs.lastTruncation()
	err := f.read(func() error {
		segs.refresh()
		return segs.list(f.listing)
	})
	if err != nil && before != nil {
		f.segments = before
	}
	return err
}

// read calls do, which may block on the file system, in a slot.
func (f *follower) read(do func() error) error {
	var slot *slot
	if f.file != nil {
		slot = f.readers.acquire(f.fileSystem, f.ctx.Done())
	} else if slot = f.readers.acquireFor(f.segments, f.ctx.Done()); slot != nil {
		f.fileSystem = slot.fileSystem
	}
	if slot == nil {
		return f.ctx.Err()
	}
	defer slot.release()
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
		f.position = f.segments.segmentAt(math.MinInt64).start
	}
	if lines <= 0 {
		return nil
	}
	p := end - 1 // the last byte belongs to the last line, newline or not
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		seg, ok := f.segments.segmentBefore(p)
		if !ok {
			f.position = f.segments.segmentAt(math.MinInt64).start
			return nil
		}
		if f.file == nil || f.fileSegment.start != seg.start {
			f.closeFile()
			ok, err := f.openSegment(seg)
			if errors.As(err, new(unpackError)) {
				lineAfter := f.position < end // a line after seg
				f.position = seg.start        // reading from there reports it
				if lines == 1 && lineAfter {
					// it ends in a whole line, as files do unless a line is endless
					f.position = seg.end
				}
				return nil
			}
			if err != nil {
				return err
			}
			if !ok {
				if now, _ := f.segments.segmentBefore(p); now.name == seg.name {
					return nil // removed by another process: output continues after it
				}
				continue // rotated just now
			}
		}
		p = min(p, seg.end)
		from := max(p-int64(len(f.buffer)), seg.start)
		block := f.buffer[:p-from]
		if n, err := f.readAt(block, from-seg.start); n < len(block) {
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
		f.position = max(f.position, f.segments.segmentAt(f.position).start)
		return nil
	}
}

// showNext shows the next bytes before end, at most a buffer. It reports whether more may follow at
// once.
func (f *follower) showNext(end int64) (more bool, err error) {
	if err := f.retractTorn(); err != nil {
		return false, err
	}
	seg := f.segments.segmentAt(f.position)
	if f.file != nil && f.fileSegment.start != seg.start {
		// The log continues in another file, so the open one is complete, even if it was removed.
		// If it was truncated, its other bytes are gone.
		if f.fileSegment.identity != seg.identity {
			show, n := f.show, min(seg.start, end)-f.position
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
	if f.position < seg.start {
		return true, f.skipTo(seg.start, nil)
	}
	if f.position >= seg.end {
		return false, nil
	}
	if f.file == nil {
		ok, err := f.openSegment(seg)
		if errors.As(err, new(unpackError)) {
			return true, f.skipTo(seg.end, err)
		}
		if !ok || err != nil {
			return f.segments.segmentAt(f.position).start != seg.start, err
		}
	}
	n, err := f.show(min(int64(len(f.buffer)), seg.end-f.position, end-f.position))
	if n > 0 || err != nil {
		return true, err
	}
	if seg.rotated() { // truncated
		return true, f.skipTo(seg.end, nil)
	}
	return false, nil // truncated; the collector will detect that and begin another segment
}

// openSegment opens the file of seg. It reports false if that file is gone.
func (f *follower) openSegment(seg segment) (ok bool, err error) {
	err = f.read(func() (err error) {
		ok, err = f.openFile(seg)
		return err
	})
	return ok, err
}

func (f *follower) openFile(seg segment) (bool, error) {
	file, err := seg.open(f.collector.setting().MinFree)
	// in an unpackError, the directory for unpacking may be what is missing
	for errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(unpackError)) {
		if !seg.rotated() {
			return false, nil
		}
		now := f.segments.segmentAt(seg.start)
		if now.stamp != seg.stamp || now.compression == seg.compression {
			f.segments.forgetRemoved(seg)
			return false, nil
		}
		seg = now // compressed just now
		file, err = seg.open(f.collector.setting().MinFree)
	}
	if err != nil {
		return false, err
	}
	info, err := statFD(int(file.Fd()))
	if err != nil || !seg.rotated() && info.identity != seg.identity {
		file.Close()
		return false, err
	}
	seg.identity = info.identity
	f.file, f.fileSegment, f.modified = file, seg, info.changed
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
	got, err := f.showAt(f.position-f.fileSegment.start, n)
	f.position += int64(got)
	return got, err
}

// showAppended is show for the bytes of the open file after all that have a position.
func (f *follower) showAppended(n int64) (int, error) {
	got, err := f.showAt(f.position-f.fileSegment.start+f.appended, n)
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
	last := f.segments.lastTruncation()
	if last == f.truncation {
		return nil
	}
	f.truncation = last
	torn := f.position - last.at
	if torn <= 0 {
		return nil
	}
	f.position = last.at
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
