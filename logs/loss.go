package logs

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A loss is output that was dropped since the last time that some got into the file. It begins at the beginning of a line, as far
// as superd knows, and goes to the end of one.
type loss struct {
	bytes, lines int64
	cause        error
	inLine       int // bytes of a line that goes on; 0: the last one was dropped in whole
}

// errStalled is why output is dropped when nothing else is known.
var errStalled = errors.New("the log did not take it")

// Drops are how much output was dropped rather than have the program wait, in all, and how much of that the log has a record of.
type Drops struct{ Bytes, Lines, ToldBytes, ToldLines int64 }

type drops struct {
	mu sync.Mutex
	Drops
	saving bool // who saves them has been told, and has not saved them yet
}

// Dropped returns how much output was dropped rather than have the program wait. From any goroutine.
func (c *Capture) Dropped() (bytes, lines int64) {
	d := c.Drops()
	return d.Bytes, d.Lines
}

// Drops returns what was dropped, in all, for [Capture.RestoreDrops] of the next superd. From any goroutine.
func (c *Capture) Drops() Drops {
	d := c.drops.Load()
	if d == nil {
		return Drops{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Drops
}

// addDrops adds to what was dropped, and has it saved.
func (c *Capture) addDrops(by Drops) {
	d := c.drops.Load()
	if d == nil {
		d = &drops{}
		if !c.drops.CompareAndSwap(nil, d) {
			d = c.drops.Load()
		}
	}
	d.mu.Lock()
	d.Bytes, d.Lines, d.ToldBytes, d.ToldLines = d.Bytes+by.Bytes, d.Lines+by.Lines, d.ToldBytes+by.ToldBytes, d.ToldLines+by.ToldLines
	tell := !d.saving && c.store.tellDrops != nil
	d.saving = d.saving || tell
	d.mu.Unlock()
	if tell {
		c.store.tellDrops(c)
	}
}

// DropsSaved tells that was is saved. It reports whether there is more to save by now.
func (c *Capture) DropsSaved(was Drops) (more bool) {
	d := c.drops.Load()
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saving = d.Drops != was
	return d.saving
}

// RestoreDrops tells what an earlier superd has dropped, before the loop runs. What the log has no record of yet gets one.
func (c *Capture) RestoreDrops(was Drops) {
	if was == (Drops{}) {
		return
	}
	c.drops.Store(&drops{Drops: was})
	if was.Bytes > was.ToldBytes {
		l := &c.streams[0].meet().loss
		l.bytes, l.lines, l.cause = was.Bytes-was.ToldBytes, was.Lines-was.ToldLines, errStalled
		c.owing = true
	}
}

// lose notes that p is dropped.
func (c *stream) lose(p []byte) {
	if len(p) == 0 {
		return
	}
	lines := int64(bytes.Count(p, newline))
	l := &c.meet().loss
	l.bytes += int64(len(p))
	l.lines += lines
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		l.inLine = len(p) - end - 1
	} else {
		l.inLine += len(p)
	}
	c.noteLost()
	c.addDrops(Drops{Bytes: int64(len(p)), Lines: lines})
}

// loseFirst notes that p is dropped, which came before what was dropped last, if anything was.
func (c *stream) loseFirst(p []byte) {
	last, after := c.loss.bytes > 0, c.loss.inLine
	if c.lose(p); len(p) > 0 && last {
		c.loss.inLine = after
		c.noteLost()
	}
}

// noteLost notes what the next byte in the pipe belongs to, after what was dropped.
func (c *stream) noteLost() {
	if c.loss.inLine > 0 {
		c.setLine(lostLine) // for the next superd, too
	} else {
		c.setLine(atBeginning)
	}
}

// endLostLine notes that the line that was dropped last is complete, without a newline.
func (c *stream) endLostLine() {
	if c.loss.inLine > 0 {
		c.loss.inLine = 0
		c.setLine(atBeginning)
		c.loss.lines++
		c.addDrops(Drops{Lines: 1})
	}
}

// gap returns the record of the loss.
func (c *stream) gap(o *setting, run string) []byte {
	if c.loss.bytes == 0 {
		return nil
	}
	text := append(c.loss.text(), '\n')
	if o.Format == Raw {
		return append([]byte("superd: "), text...)
	}
	var r recorder
	r.at(o, c.name, run, gapStream, c.store.now())
	record, _ := r.append(make([]byte, 0, recordBytes/2), text, awaited)
	return record
}

// text tells how much was lost, and why.
func (l *loss) text() []byte {
	were := "were"
	if l.bytes == 1 {
		were = "was"
	}
	text := fmt.Sprintf("%s in %s %s dropped: %v", counted(l.bytes, "byte"), counted(l.lines, "line"), were, l.cause)
	return bytes.ReplaceAll([]byte(text), newline, []byte{' '})
}

// counted returns "1 line", "2 lines".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tell tells of a loss that the log has a record of.
func (c *stream) tell(l loss, run string) {
	if l.bytes > 0 && c.store.tellLoss != nil {
		c.store.tellLoss(Loss{c.setting().Program, c.name, run, string(l.text())})
	}
}

// do runs op, which uses the file. If the program is not to wait for it, op has a goroutine and a slot of its own; when it
// stalls, what is in the pipe is dropped until it comes back. flight, at the beginning of the pipe, is what op writes: then it is taken out
// of the pipe, which overtaken tells.
func (c *stream) do(flight int, op func() error) (overtaken bool, err error) {
	if !c.file.Drop {
		return false, op()
	}
	done := make(chan error, 1)
	f, waits := c.file, c.outlet == nil // for a file system
	before := f.setting                 // op may change what c and f are set to
	go func() {
		var slot *slot
		if waits {
			if slot = f.enter(&c.store.slots, c.quit); slot == nil {
				done <- errStalled
				return
			}
		}
		err := op()
		slot.release()
		done <- err
	}()
	stalled := time.NewTimer(c.store.stall)
	defer stalled.Stop()
	select {
	case err := <-done:
		return false, err
	case <-c.quit: // what is in the pipe is for the next superd
		return false, <-done
	case <-stalled.C:
	}
	c.discard(flight, false)
	c.meet().loss.cause = errStalled
	c.fail(errStalled)
	c.logOf(before).Warn("the log stalls, output is dropped meanwhile")
	c.dropUntil(true, func() (over bool) {
		select {
		case err = <-done:
			return true
		case <-c.news:
			return false
		case <-c.quit:
			err = <-done
			return true
		}
	})
	c.log().Info("the log does not stall any more", "dropped_bytes", c.loss.bytes, "dropped_lines", c.loss.lines)
	return true, err
}

// dropFor drops what comes in a while. It reports false when closing.
func (c *stream) dropFor(while time.Duration, cause error) (open bool) {
	c.meet().loss.cause = cause
	timer := time.NewTimer(while)
	defer timer.Stop()
	c.dropUntil(false, func() (over bool) {
		select {
		case <-timer.C:
			open = true
			return true
		case <-c.news:
			open = c.otherWaits()
			return open
		case <-c.quit:
			return true
		}
	})
	return open
}

// dropUntil drops what is in the pipe, and in those that share the fate of this one, whenever wait, which waits for news, says that it is
// not over.
func (c *stream) dropUntil(stalled bool, wait func() (over bool)) {
	for over := false; !over; over = wait() {
		c.hear()
		for moved, held := true, true; moved && held; { // what one of them has dropped may be what the other has to wait for
			moved, held = false, false
			for _, s := range c.inOrder() {
				if s != c {
					if !stalled && c.mayOvertake(s) {
						c.listen(s)
						continue
					}
					s.meet().loss.cause = c.loss.cause
				}
				some, empty := s.dropAll()
				if empty {
					c.listen(s)
				}
				moved, held = moved || some, held || !empty
			}
		}
	}
}

// dropAll drops what is in the pipe. It reports whether it dropped something or passed a mark, and whether it has found the pipe empty: else the
// other stream has to come to a mark first.
func (c *stream) dropAll() (some, empty bool) {
	for {
		limit, end := c.aim()
		if limit == 0 {
			return some, false
		}
		n := c.discard(int(min(limit, turnBytes)), true)
		if int64(n) == limit && end == ended {
			c.endLostLine()
		}
		passed := c.reached(n == 0)
		some = some || n > 0 || passed
		if n == 0 {
			return some, true
		}
	}
}

// discard takes at most n bytes out of the pipe, lost or not, and returns how many.
func (c *stream) discard(n int, lost bool) (taken int) {
	buffer := c.store.buffers.Get().(*[chunkBytes]byte)
	defer c.store.buffers.Put(buffer)
	for taken < n {
		got, err := readPipe(c.pipe(), buffer[:min(n-taken, len(buffer))])
		if got == 0 || err != nil {
			break
		}
		if lost {
			c.lose(buffer[:got])
		}
		c.total += int64(got)
		taken += got
	}
	return taken
}

// skipLostLine drops the rest of a line of which the beginning was dropped, from text, which is in the pipe. A line longer than any that
// is worth the name is not waited for.
func (c *stream) skipLostLine(text []byte, end ending) {
	n := bytes.IndexByte(text, '\n') + 1
	if n == 0 {
		n = len(text)
	}
	c.discard(n, true)
	switch {
	case n == len(text) && end == ended:
		c.endLostLine()
	case c.loss.inLine >= maxOverrun:
		c.endLostLine()
		c.setLine(unknownLine)
	}
}
