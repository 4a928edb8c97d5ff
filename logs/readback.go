package logs

import (
	"io"
	"slices"
)

// tailBytes is how much of the end of a run's output is shown for telling why it failed; recordTailBytes is where that is looked
// for among records.
const (
	tailBytes       = 1024
	recordTailBytes = 16 << 10
)

// BeginRun tells that a run of the program begins: what comes once the FIFO has been emptied of what is in it now is its
// output. id names the run in records. With placed, where it begins is told by what was given to [Store.TellPlaces].
func (c *Capture) BeginRun(id string, placed bool) {
	c.mark(runBegins, func() {
		if placed {
			c.nameRun(id, Stdout, Stderr)
		} else {
			c.nameRun(id)
		}
		c.mu.Lock()
		c.newRun = [streams]bool{true, true}
		c.mu.Unlock()
		for _, f := range c.files() {
			f.chain.beginRun()
		}
		c.mu.Lock()
		if o := c.outlet; o != nil {
			o.before = len(o.recent)
		}
		c.mu.Unlock()
		ch, _ := c.chain()
		c.silent.Store(ch.newest().format == Raw)
	})
}

// ResumeRun names a run that began before this capture. unplaced are the streams of one to be placed, as for BeginRun, of which no place is known:
// nothing of it is in their logs yet. From any goroutine.
func (c *Capture) ResumeRun(id string, unplaced ...Stream) {
	c.resumed.Store(true)
	c.nameRun(id, unplaced...)
}

func (c *Capture) nameRun(id string, unplaced ...Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runID = id
	for which := range c.unplaced {
		c.unplaced[which].Store(c.store.tellPlace != nil && slices.Contains(unplaced, Stream(which)))
	}
}

// EndRun tells that the program's main process has ended: a last line without a newline is as complete as it gets. What
// comes later begins a line of its own for [LastLines]; in the file, nothing is added.
//
// It reports whether all that was written until now is in the files; else [Capture.Drained] tells when.
func (c *Capture) EndRun() (drained bool) {
	reached := func() {
		for _, f := range c.files() {
			f.chain.endRun()
		}
		c.announce() // a line without an end is complete
	}
	if c.markLater(runEnds, reached) {
		return false
	}
	reached()
	return true
}

// Tail has f called with the last bytes of the run's output, at most 1 KiB, once everything that is in the FIFOs now is in
// the files, and when the scope is closed, but not if there are none and the next run has begun by then; cut tells that there was more before them. They are read from the file, that of standard error
// if the run has written into one: of a device there are none. f must not block; it runs on any goroutine, and at once where there are none.
func (c *Capture) Tail(f func(end []byte, cut bool)) {
	read := func() {
		if c.setting().Sink != "" {
			end, cut := c.recentRun()
			f(end, cut)
			return
		}
		var outputs []runOutput
		for _, file := range c.files() {
			from, to := file.chain.lastRun() // now: a next run may begin any time
			if from != to || file.chain.newest().format == Direct {
				outputs = append(outputs, runOutput{&file.chain, from, to})
			}
		}
		if len(outputs) == 0 {
			f(nil, false)
			return
		}
		c.store.captures.Go(func() {
			var end []byte
			var cut bool
			for _, o := range slices.Backward(outputs) {
				if end, cut = c.readTail(o); len(end) > 0 {
					break
				}
			}
			f(end, cut)
		})
	}
	switch _, released := c.chain(); {
	case released:
		go f(nil, false)
	case !c.markLater(ofRun, read):
		read()
	}
}

// A runOutput is where the output of a run lies.
type runOutput struct {
	chain    *chain
	from, to int64
}

func (c *Capture) readTail(o runOutput) (end []byte, cut bool) {
	defer c.store.readers.enter(o.chain, nil).release()
	if o.chain.newest().format == Direct {
		o.chain.refresh()
		o.from, o.to = o.chain.lastRun()
	}
	return o.chain.tail(o.from, o.to)
}

func (ch *chain) beginRun() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.run = ch.current.end
}

func (ch *chain) endRun() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.ended = ch.current.end
}

// lastRun returns where the output of the newest run lies. What was there before this capture wrote anything doesn't
// belong to a run that began in its time.
func (ch *chain) lastRun() (from, to int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	to = ch.current.end
	if ch.run == unknown {
		return unknown, to
	}
	return min(max(ch.run, ch.began), to), to
}

// tail reads the end of what lies between two positions: of records, the lines.
func (ch *chain) tail(from, to int64) (end []byte, cut bool) {
	if from == to {
		return nil, false
	}
	size, format := tailBytes, ch.newest().format
	if format.records() {
		size = recordTailBytes
	}
	end = ch.readBack(to, make([]byte, size))
	if from != unknown && to-from < int64(len(end)) {
		end = end[int64(len(end))-(to-from):]
	}
	cut = len(end) == size && to-int64(len(end)) > from
	if format.records() {
		end = linesIn(format, end, cut)
		cut = cut || len(end) > tailBytes
		end = end[max(0, len(end)-tailBytes):]
	}
	return end, cut
}

// lastLine returns the newest complete line, at most maxLineBytes of it: its beginning if that lies in the last
// len(buffer) bytes of the output, which it uses meanwhile. It blocks on the file system.
func (ch *chain) lastLine(buffer []byte) string {
	ch.refresh()
	at := ch.newest()
	for n := min(maxLineBytes+1, len(buffer)); ; n = len(buffer) {
		text := ch.readBack(at.end, buffer[:n])
		ended := -1
		if begin := at.end - int64(len(text)); at.ended >= begin {
			ended = int(at.ended - begin)
		}
		line, start := newestLine(text, ended)
		if start <= 0 && len(text) == n && n < len(buffer) {
			continue // it begins further back
		}
		line = lineIn(at.format, line)
		return string(line[:min(len(line), maxLineBytes)])
	}
}

// An outputEnd is what the newest line depends on.
type outputEnd struct {
	chain      *chain
	format     Format
	end, ended int64
	unseen     bool // nobody has looked at the file yet, or not for long
}

func (ch *chain) newest() outputEnd {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return outputEnd{ch, ch.format, ch.current.end, ch.ended, ch.current.identity == (identity{}) || ch.format == Direct}
}

// readBack reads what lies before a position, as much as goes into buffer, and less where it is gone or can't be read.
func (ch *chain) readBack(position int64, buffer []byte) []byte {
	begin := len(buffer)
	for begin > 0 {
		seg, ok := ch.before(position)
		if !ok || seg.end < position {
			break
		}
		n := min(int64(begin), position-seg.start)
		got, ok := seg.read(buffer[begin-int(n):begin], position-n-seg.start)
		if again, _ := ch.before(position); !ok && again.name != seg.name {
			continue // it was rotated just now
		}
		if !ok {
			break
		}
		begin -= got
		position -= int64(got)
	}
	return buffer[begin:]
}

// read fills p from an offset of the file. It reports false when the file isn't there any more or can't be read so far.
func (s segment) read(p []byte, offset int64) (n int, ok bool) {
	file, err := s.openPacked()
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if s.compression != "" {
		packed, err := s.compression.reader(file)
		if err != nil {
			return 0, false
		}
		defer packed.Close()
		if _, err := io.CopyN(io.Discard, packed, offset); err != nil {
			return 0, false
		}
		n, err = io.ReadFull(packed, p)
		return n, err == nil
	}
	info, err := statFD(int(file.Fd()))
	if err != nil || !info.regular || !s.rotated() && info.identity != s.identity {
		return 0, false
	}
	n, err = readAt(int(file.Fd()), p, offset)
	return n, err == nil && n == len(p)
}
