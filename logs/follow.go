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

// Follow writes the last lines of the output to w, then, with follow, what is appended, byte for byte and across rotated
// files. lines -1 is all that is kept; a last line without a newline counts. Without follow it ends with what is in the
// files at the call; with follow, when the capture is closed or ctx ends, whose error it then returns. It runs off the
// loop.
//
// It reads files, with one buffer, so it may be as slow as it likes. Where that was too slow and files were removed before
// they were shown, a line says how much is missing.
func (c *Capture) Follow(ctx context.Context, lines int, follow bool, w io.Writer) error {
	return c.show(ctx, Stdout, w, follow, func(f *follower) error { return f.back(ctx, lines, f.chain.end()) })
}

// FollowFromStart writes to w what this capture has brought into the log of a stream since it was made, then what is appended, as
// [Capture.Follow] does.
func (c *Capture) FollowFromStart(ctx context.Context, which Stream, w io.Writer) error {
	return c.show(ctx, which, w, true, func(f *follower) error {
		f.position = f.chain.first()
		return nil
	})
}

func (c *Capture) show(ctx context.Context, which Stream, w io.Writer, follow bool, place func(*follower) error) error {
	wake := make(chan struct{}, 1)
	defer c.Notify(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()

	f := &follower{ctx: ctx, readers: &c.store.readers, capture: c, which: which, w: w, buffers: &c.store.buffers, lineEnded: true}
	defer f.idle()
	defer f.leave()
	err := f.run(ctx, follow, wake, place)
	if err != nil && err != ctx.Err() {
		return fmt.Errorf("show output of %s: %w", c.name, err)
	}
	return err
}

// chain returns the chain of the log file, and whether nothing will be added to it any more.
func (c *Capture) chain() (ch *chain, released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.streams[0].file.chain, c.released
}

// chainOf returns the chain of a stream's own log file, nil while nothing was written there, and whether nothing will be added to it any more.
func (c *Capture) chainOf(which Stream) (ch *chain, released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.streams[0].file
	if which == Stdout {
		return &first.chain, c.released
	}
	for _, s := range c.streams[1:] {
		if s.file != first {
			return &s.file.chain, c.released
		}
	}
	return nil, c.released || c.options.ofStderr() == nil
}

// forever is a position that no output reaches; far from the greatest number, as positions may be negative.
const forever = math.MaxInt64 / 2

// A follower reads along a chain.
type follower struct {
	ctx       context.Context
	readers   *slots
	capture   *Capture
	which     Stream
	w         io.Writer
	buffers   *sync.Pool        // of *[chunkBytes]byte; nil: the buffer is its own
	pooled    *[chunkBytes]byte // of these; nil while it waits
	buffer    []byte
	lineEnded bool     // what was written last
	listing   *listing // of who begins to follow many; nil: none

	chain    *chain
	position int64 // of the next byte to show
	cut      *cut  // the chain's newest one that it knows of

	open    *os.File  // nil, or
	at      place     // where it is open
	held    segment   // the segment it belongs to, as it was when it was opened
	beyond  int64     // bytes of it that were shown and have no position: somebody has appended them after it was moved
	written time.Time // when that was written to last, as of then
}

// newest returns the chain that is written to, and whether nothing will be added to it any more.
func (f *follower) newest() (ch *chain, released bool) {
	if ch, released = f.capture.chainOf(f.which); ch == nil {
		if ch = f.chain; ch == nil {
			o := f.capture.setting()
			ch = newChain(o.StderrPath, o.Format)
		}
	}
	return ch, released
}

// run shows the log from where place sets the position.
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
	end := f.chain.end()
	if follow {
		end = forever
	}
	for f.position < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.busy()
		newest, released := f.newest() // before the step: it sees all that was written before this
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
		case newest != f.chain: // the path has changed
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

// busy gets the buffer. A thousand programs that are shown, and are quiet, share a few.
func (f *follower) busy() {
	if f.buffer == nil {
		f.pooled = f.buffers.Get().(*[chunkBytes]byte)
		f.buffer = f.pooled[:]
	}
}

// idle gives the buffer back.
func (f *follower) idle() {
	if f.pooled != nil {
		f.buffers.Put(f.pooled)
		f.pooled, f.buffer = nil, nil
	}
}

// begin turns to a chain, unless that fails.
func (f *follower) begin(ch *chain) error {
	f.leave()
	before := f.chain
	f.chain = ch
	f.cut = ch.lastCut()
	err := f.read(func() error {
		ch.refresh()
		return ch.list(f.listing)
	})
	if err != nil && before != nil {
		f.chain = before
	}
	return err
}

// read does what may wait for the file system.
func (f *follower) read(do func() error) error {
	var slot *slot
	if f.open != nil {
		slot = f.readers.acquire(f.at, f.ctx.Done())
	} else if slot = f.readers.enter(f.chain, f.ctx.Done()); slot != nil {
		f.at = slot.place
	}
	if slot == nil {
		return f.ctx.Err()
	}
	defer slot.release()
	return do()
}

// readAt reads from the open file.
func (f *follower) readAt(b []byte, offset int64) (n int, err error) {
	err = f.read(func() (err error) {
		n, err = f.open.ReadAt(b, offset)
		return err
	})
	return n, err
}

// back sets the position to where the last lines before end begin; -1 is all there is. It reads backwards, a buffer at a
// time.
func (f *follower) back(ctx context.Context, lines int, end int64) error {
	defer f.leave()
	f.position = end
	if lines < 0 {
		f.position = f.chain.at(math.MinInt64).start
	}
	if lines <= 0 {
		return nil
	}
	p := end - 1 // the last byte belongs to the last line, newline or not
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		seg, ok := f.chain.before(p)
		if !ok {
			f.position = f.chain.at(math.MinInt64).start
			return nil
		}
		if f.open == nil || f.held.start != seg.start {
			f.leave()
			ok, err := f.enter(seg)
			if errors.As(err, new(unpackError)) {
				begun := f.position < end // a line, after it
				f.position = seg.start    // who reads on from there is told
				if lines == 1 && begun {
					f.position = seg.end // it ends in a whole line: files do, but for endless ones
				}
				return nil
			}
			if err != nil {
				return err
			}
			if !ok {
				if again, _ := f.chain.before(p); again.name == seg.name {
					return nil // somebody removed it: what is kept begins after it
				}
				continue // it was rotated just now
			}
		}
		p = min(p, seg.end)
		from := max(p-int64(len(f.buffer)), seg.start)
		block := f.buffer[:p-from]
		if n, err := f.readAt(block, from-seg.start); n < len(block) {
			if errors.Is(err, io.EOF) {
				return nil // somebody truncated it
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
		f.position = max(f.position, f.chain.at(f.position).start) // what is missing before them doesn't matter
		return nil
	}
}

// step shows the next bytes before end, at most a buffer. It reports whether there may be more at once.
func (f *follower) step(end int64) (more bool, err error) {
	if err := f.takeBack(); err != nil {
		return false, err
	}
	seg := f.chain.at(f.position)
	if f.open != nil && f.held.start != seg.start {
		// The chain has moved on, so the file held is complete, even if it has no name by now. If it was truncated,
		// its other bytes are gone.
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
			return f.chain.at(f.position).start != seg.start, err
		}
	}
	n, err := f.show(min(int64(len(f.buffer)), seg.end-f.position, end-f.position))
	if n > 0 || err != nil {
		return true, err
	}
	if seg.rotated() { // truncated
		return true, f.skip(seg.end, nil)
	}
	return false, nil // truncated; the capture will notice and say how it goes on
}

// enter opens the file of seg. It reports false when that file isn't there any more.
func (f *follower) enter(seg segment) (ok bool, err error) {
	err = f.read(func() (err error) {
		ok, err = f.openFile(seg)
		return err
	})
	return ok, err
}

func (f *follower) openFile(seg segment) (bool, error) {
	open, err := seg.open(f.capture.setting().MinFree)
	for errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(unpackError)) { // where it is unpacked to may be missing
		if !seg.rotated() {
			return false, nil
		}
		again := f.chain.at(seg.start)
		if again.stamp != seg.stamp || again.compression == seg.compression {
			f.chain.lost(seg)
			return false, nil
		}
		seg = again // it was compressed just now
		open, err = seg.open(f.capture.setting().MinFree)
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

// showBeyond is show for what the open file has behind all that has a position.
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

// A gapTaker is a writer of output that is told where some is missing, rather than shown a line that says so.
type gapTaker interface {
	gap(bytes int64, cause error) // nil: its file is gone
}

// skip says that the bytes up to position to are missing: since their file is gone, or for a cause.
func (f *follower) skip(to int64, cause error) error {
	missing := to - f.position
	f.position = to
	if w, ok := f.w.(gapTaker); ok {
		w.gap(missing, cause)
		return nil
	}
	text := "superd: " + gapText(missing, cause) + "\n"
	if !f.lineEnded {
		text = "\n" + text
	}
	f.lineEnded = true
	_, err := f.w.Write([]byte(text))
	return err
}

// A retractor is a writer of output that takes back what it was given last.
type retractor interface {
	retract(bytes int64)
}

// takeBack goes back to where a torn record was taken away of which a part has been shown.
func (f *follower) takeBack() error {
	last := f.chain.lastCut()
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

// gapText tells that so many bytes are missing, and why.
func gapText(bytes int64, cause error) string {
	if cause != nil {
		return fmt.Sprintf("%d bytes can't be shown: %v", bytes, cause)
	}
	return fmt.Sprintf("%d bytes were rotated away before they could be shown", bytes)
}
