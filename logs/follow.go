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
// newline counts. Without follow it ends with what the files hold at the call. With follow it ends
// when the collector is closed, or with the error of ctx. It must not run on the loop.
//
// It reads files, with one buffer, so w may be slow. If files were removed before they were shown,
// a line says how much is missing.
func (c *Collector) Follow(ctx context.Context, lines int, follow bool, w io.Writer) error {
	return c.show(ctx, Stdout, w, follow, func(f *follower) error { return f.back(ctx, lines, f.segments.end()) })
}

// FollowFromStart is Follow for all that this collector has written to the log of a stream since it
// was made.
func (c *Collector) FollowFromStart(ctx context.Context, which Stream, w io.Writer) error {
	return c.show(ctx, which, w, true, func(f *follower) error {
		f.position = f.segments.first()
		return nil
	})
}

func (c *Collector) show(ctx context.Context, which Stream, w io.Writer, follow bool, place func(*follower) error) error {
	wake := make(chan struct{}, 1)
	defer c.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()

	f := &follower{ctx: ctx, readers: &c.store.readers, collector: c, which: which, w: w, buffers: &c.store.buffers, lineEnded: true}
	defer f.idle()
	defer f.leave()
	err := f.run(ctx, follow, wake, place)
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("show output of %s: %w", c.name, err)
	}
	return err
}

// segments returns the segments of the log file, and whether they are final.
func (c *Collector) segments() (ch *segments, released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.streams[0].file.segments, c.released
}

// segmentsOf returns the segments of a stream's own log file, nil while nothing was written there,
// and whether they are final.
func (c *Collector) segmentsOf(which Stream) (ch *segments, released bool) {
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
	return nil, c.released || c.options.ofStderr() == nil
}

// forever is a position that no output reaches. It is not math.MaxInt64, as positions may be
// negative.
const forever = math.MaxInt64 / 2

// A follower reads along the segments of a log.
type follower struct {
	ctx       context.Context
	readers   *slots
	collector *Collector
	which     Stream
	w         io.Writer
	buffers   *sync.Pool        // of *[chunkBytes]byte; nil: the follower owns buffer
	pooled    *[chunkBytes]byte // buffer from buffers; nil while it waits
	buffer    []byte
	lineEnded bool     // the last bytes written end in a newline
	listing   *listing // shared by many followers that begin at once; nil: none

	segments *segments
	position int64 // of the next byte to show
	cut      *cut  // the newest cut of segments that was handled

	open *os.File // nil, or the file that is read
	at   place    // place of open
	held segment  // segment of open, as it was when it was opened
	// beyond counts bytes of open that were shown and have no position: another process appended
	// them after the rotation.
	beyond  int64
	written time.Time // when open was last written to, as of its opening
}

// newest returns the segments that are written to, and whether they are final.
func (f *follower) newest() (ch *segments, released bool) {
	if ch, released = f.collector.segmentsOf(f.which); ch == nil {
		if ch = f.segments; ch == nil {
			o := f.collector.setting()
			ch = newChain(o.StderrPath, o.Options)
		}
	}
	return ch, released
}

func (f *follower) run(ctx context.Context, follow bool, wake <-chan struct{}, place func(*follower) error) error {
	ch, _ := f.newest()
	if err := f.begin(ch); err != nil {
		return err
	}
	f.busy()
	if err := place(f); err != nil {
		return err
	}
	return f.goOn(ctx, follow, wake)
}

// goOn shows the log from the position.
func (f *follower) goOn(ctx context.Context, follow bool, wake <-chan struct{}) error {
	end := f.segments.end()
	if follow {
		end = forever
	}
	for f.position < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.busy()
		// before the step, which so sees all that was written earlier
		newest, released := f.newest()
		direct := newest.newest().format == Direct
		if direct {
			if err := f.read(func() error { newest.refresh(); return nil }); err != nil {
				return err
			}
		}
		more, err := f.step(end)
		switch {
		case err != nil:
			return err
		case more:
		case !follow:
			return nil
		case newest != f.segments: // the path has changed
			if err := f.begin(newest); err != nil {
				return err
			}
			f.position = newest.first()
		case released:
			return nil
		default:
			var look <-chan time.Time
			if direct {
				look = time.After(directLook)
			}
			f.idle()
			select {
			case <-wake:
			case <-look:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// busy gets a buffer. A thousand followers of quiet programs share a few.
func (f *follower) busy() {
	if f.buffer == nil {
		f.pooled = f.buffers.Get().(*[chunkBytes]byte)
		f.buffer = f.pooled[:]
	}
}

// idle returns the buffer.
func (f *follower) idle() {
	if f.pooled != nil {
		f.buffers.Put(f.pooled)
		f.pooled, f.buffer = nil, nil
	}
}

// begin changes to other segments, unless that fails.
func (f *follower) begin(ch *segments) error {
	f.leave()
	before := f.segments
	f.segments = ch
	f.cut = ch.lastCut()
	err := f.read(func() error {
		ch.refresh()
		return ch.list(f.listing)
	})
	if err != nil && before != nil {
		f.segments = before
	}
	return err
}

// read calls do, which may wait for the file system, in a slot.
func (f *follower) read(do func() error) error {
	var slot *slot
	if f.open != nil {
		slot = f.readers.acquire(f.at, f.ctx.Done())
	} else if slot = f.readers.enter(f.segments, f.ctx.Done()); slot != nil {
		f.at = slot.place
	}
	if slot == nil {
		return f.ctx.Err()
	}
	defer slot.release()
	return do()
}

func (f *follower) readAt(b []byte, offset int64) (n int, err error) {
	err = f.read(func() (err error) {
		n, err = f.open.ReadAt(b, offset)
		return err
	})
	return n, err
}

// back sets the position to where the last lines before end begin; -1 is all. It reads backwards, a
// buffer at a time.
func (f *follower) back(ctx context.Context, lines int, end int64) error {
	defer f.leave()
	f.position = end
	if lines < 0 {
		f.position = f.segments.at(math.MinInt64).start
	}
	if lines <= 0 {
		return nil
	}
	p := end - 1 // the last byte belongs to the last line, newline or not
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		seg, ok := f.segments.before(p)
		if !ok {
			f.position = f.segments.at(math.MinInt64).start
			return nil
		}
		if f.open == nil || f.held.start != seg.start {
			f.leave()
			ok, err := f.enter(seg)
			if errors.As(err, new(unpackError)) {
				begun := f.position < end // a line after seg
				f.position = seg.start    // reading on from there reports it
				if lines == 1 && begun {
					// it ends in a whole line, as files do unless a line is endless
					f.position = seg.end
				}
				return nil
			}
			if err != nil {
				return err
			}
			if !ok {
				if again, _ := f.segments.before(p); again.name == seg.name {
					return nil // removed by another process: what is left begins after it
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
		f.position = max(f.position, f.segments.at(f.position).start)
		return nil
	}
}

// step shows the next bytes before end, at most a buffer. It reports whether there may be more at
// once.
func (f *follower) step(end int64) (more bool, err error) {
	if err := f.takeBack(); err != nil {
		return false, err
	}
	seg := f.segments.at(f.position)
	if f.open != nil && f.held.start != seg.start {
		// The log has moved on, so the open file is complete, even if it was removed. If it was
		// truncated, its other bytes are gone.
		if f.held.identity != seg.identity {
			show, n := f.show, min(seg.start, end)-f.position
			if n <= 0 {
				show, n = f.showBeyond, int64(len(f.buffer))
			}
			got, err := show(min(int64(len(f.buffer)), n))
			if got > 0 || err != nil {
				return true, err
			}
		}
		f.leave()
		return true, nil
	}
	if f.position < seg.start {
		return true, f.skip(seg.start, nil)
	}
	if f.position >= seg.end {
		return false, nil
	}
	if f.open == nil {
		ok, err := f.enter(seg)
		if errors.As(err, new(unpackError)) {
			return true, f.skip(seg.end, err)
		}
		if !ok || err != nil {
			return f.segments.at(f.position).start != seg.start, err
		}
	}
	n, err := f.show(min(int64(len(f.buffer)), seg.end-f.position, end-f.position))
	if n > 0 || err != nil {
		return true, err
	}
	if seg.rotated() { // truncated
		return true, f.skip(seg.end, nil)
	}
	return false, nil // truncated; the collector will notice and begin another segment
}

// enter opens the file of seg. It reports false if that file is gone.
func (f *follower) enter(seg segment) (ok bool, err error) {
	err = f.read(func() (err error) {
		ok, err = f.openFile(seg)
		return err
	})
	return ok, err
}

func (f *follower) openFile(seg segment) (bool, error) {
	open, err := seg.open(f.collector.setting().MinFree)
	// in an unpackError it is the directory for unpacking that may be missing
	for errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(unpackError)) {
		if !seg.rotated() {
			return false, nil
		}
		again := f.segments.at(seg.start)
		if again.stamp != seg.stamp || again.compression == seg.compression {
			f.segments.lost(seg)
			return false, nil
		}
		seg = again // compressed just now
		open, err = seg.open(f.collector.setting().MinFree)
	}
	if err != nil {
		return false, err
	}
	info, err := statFD(int(open.Fd()))
	if err != nil || !seg.rotated() && info.identity != seg.identity {
		open.Close()
		return false, err
	}
	seg.identity = info.identity
	f.open, f.held, f.written = open, seg, info.changed
	return true, nil
}

func (f *follower) leave() {
	if f.open != nil {
		f.open.Close()
		f.open, f.beyond = nil, 0
	}
}

// show shows the next n bytes of the open file, or as many as it has.
func (f *follower) show(n int64) (int, error) {
	got, err := f.showAt(f.position-f.held.start, n)
	f.position += int64(got)
	return got, err
}

// showBeyond is show for the bytes of the open file after all that have a position.
func (f *follower) showBeyond(n int64) (int, error) {
	got, err := f.showAt(f.position-f.held.start+f.beyond, n)
	f.beyond += int64(got)
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

// A dropTaker is a writer of output whose dropRecord is called if output is missing. Other writers
// get a line instead.
type dropTaker interface {
	dropRecord(bytes int64, cause error) // cause nil: its file is gone
}

// skip reports the bytes up to position to as missing, for cause; nil: their file is gone.
func (f *follower) skip(to int64, cause error) error {
	missing := to - f.position
	f.position = to
	if w, ok := f.w.(dropTaker); ok {
		w.dropRecord(missing, cause)
		return nil
	}
	text := "superd: " + dropRecordText(missing, cause) + "\n"
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

// takeBack returns to where a torn record was cut off of which a part was shown.
func (f *follower) takeBack() error {
	last := f.segments.lastCut()
	if last == f.cut {
		return nil
	}
	f.cut = last
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

// dropRecordText returns how many bytes are missing, and why.
func dropRecordText(bytes int64, cause error) string {
	if cause != nil {
		return fmt.Sprintf("%d bytes can't be shown: %v", bytes, cause)
	}
	return fmt.Sprintf("%d bytes were removed by rotation before they could be shown", bytes)
}
