package logs

import (
	"io"
	"slices"
)

// tailBytes is how much of the end of a run's output is shown for a failure. recordTailBytes is how
// much of the end of a log of records is read for it.
const (
	tailBytes       = 1024
	recordTailBytes = 16 << 10
)

// BeginRun begins a run: output after what is in the FIFO now belongs to it. id names the run in
// records. With saveStart, the run's start is passed to the function given to
// [Store.BeforeFirstOutput].
func (c *Collector) BeginRun(id string, saveStart bool) {
	c.addBarrier(runStartBarrier, func() {
		if saveStart {
			c.nameRun(id, Stdout, Stderr)
		} else {
			c.nameRun(id)
		}
		c.mu.Lock()
		c.awaitsDirectOpen = [streams]bool{true, true}
		c.mu.Unlock()
		for _, f := range c.files() {
			f.segments.beginRun()
		}
		c.mu.Lock()
		if o := c.outlet; o != nil {
			o.beforeRun = len(o.recent)
		}
		c.mu.Unlock()
		segs, _ := c.segments()
		c.silent.Store(segs.outputEnd().format == Raw)
	})
}

// ResumeRun names a run that began before this collector. unsaved are the streams whose logs have
// no output of the run yet and whose start must be saved, as with saveStart of BeginRun. Safe for
// concurrent use.
func (c *Collector) ResumeRun(id string, unsaved ...Stream) {
	c.resumed.Store(true)
	c.nameRun(id, unsaved...)
}

func (c *Collector) nameRun(id string, unsaved ...Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runID = id
	for which := range c.startUnsaved {
		c.startUnsaved[which].Store(c.store.beforeFirstOutput != nil && slices.Contains(unsaved, Stream(which)))
	}
}

// EndRun ends a run when its main process has exited: a last line without a newline is complete.
// Later output begins a new line for [LastLines]; nothing is added to the file.
//
// It reports whether all output until now is in the files. If not, [Collector.Drained] reports when
// it is.
func (c *Collector) EndRun() (drained bool) {
	reached := func() {
		for _, f := range c.files() {
			f.segments.endRun()
		}
		c.notifyWatchers() // a line without an end is complete
	}
	if c.queueBarrier(barrier{kind: runEndBarrier, reached: reached}) {
		return false
	}
	reached()
	return true
}

// Tail calls f with the last bytes of the run's output, at most 1 KiB. It does so when everything
// that is in the FIFOs now is in the files, or when the scope is closed. For a run without output
// it does not call f if the next run has begun by then. cut reports that there was more before.
//
// The bytes are read from the file: that of standard error if the run has written to one. A device
// has none. f must not block. It runs on any goroutine, and at once if there is no output.
func (c *Collector) Tail(f func(end []byte, cut bool)) {
	read := func() {
		if c.setting().Sink != "" {
			end, cut := c.recentRun()
			f(end, cut)
			return
		}
		var outputs []runOutput
		for _, file := range c.files() {
			from, to := file.segments.lastRun() // now, as the next run may begin any time
			if from != to || file.segments.outputEnd().format == Direct {
				outputs = append(outputs, runOutput{&file.segments, from, to})
			}
		}
		if len(outputs) == 0 {
			f(nil, false)
			return
		}
		c.store.collectors.Go(func() {
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
	switch _, released := c.segments(); {
	case released:
		go f(nil, false)
	case !c.queueBarrier(barrier{kind: runBarrier, reached: read}):
		read()
	}
}

// A runOutput is where the output of a run is.
type runOutput struct {
	segments *segments
	from, to int64
}

func (c *Collector) readTail(o runOutput) (end []byte, cut bool) {
	defer c.store.readers.acquireFor(o.segments, nil).release()
	if o.segments.outputEnd().format == Direct {
		o.segments.refresh()
		o.from, o.to = o.segments.lastRun()
	}
	return o.segments.tail(o.from, o.to)
}

func (segs *segments) beginRun() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.run = segs.current.end
}

func (segs *segments) endRun() {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.ended = segs.current.end
}

// lastRun returns the positions between which the output of the newest run is. Output from before
// this collector wrote does not belong to a run that it began.
func (segs *segments) lastRun() (from, to int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return segs.newestRun()
}

// newestRun is lastRun for callers that hold mu.
func (segs *segments) newestRun() (from, to int64) {
	to = segs.current.end
	if segs.run == unknown {
		return unknown, to
	}
	return min(max(segs.run, segs.began), to), to
}

// tail reads the end of the output between two positions; of records, their lines.
func (segs *segments) tail(from, to int64) (end []byte, cut bool) {
	if from == to {
		return nil, false
	}
	size, format := tailBytes, segs.outputEnd().format
	if format.records() {
		size = recordTailBytes
	}
	end = segs.readBack(to, make([]byte, size))
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

// lastLine returns the newest complete line of the newest run, at most maxLineBytes of it. That is
// its start, if it is in the last len(buffer) bytes of the output. It reads into buffer, and blocks
// on the file system.
func (segs *segments) lastLine(buffer []byte) string {
	segs.refresh()
	at := segs.outputEnd()
	for n := min(maxLineBytes+1, len(buffer)); ; n = len(buffer) {
		text := segs.readBack(at.end, buffer[:n])
		if runBytes := at.end - at.from; at.from != unknown && runBytes <= int64(len(text)) {
			// a line of the run can't begin further back
			text, n = text[int64(len(text))-runBytes:], len(buffer)
		}
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

// An outputEnd identifies the end of a log's output. As long as it is the same, so is the newest
// line.
type outputEnd struct {
	segments   *segments
	format     Format
	from       int64 // where the output of the newest run begins, see [segments.lastRun]
	end, ended int64
	mayBeStale bool // the file was not read yet, or has other writers
}

func (segs *segments) outputEnd() outputEnd {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	from, end := segs.newestRun()
	format := segs.options.Format
	unread := segs.current.identity == (identity{}) && !segs.absent
	return outputEnd{segs, format, from, end, segs.ended, unread || format == Direct}
}

// readBack reads the bytes before a position into buffer; fewer if they are gone or can't be read.
func (segs *segments) readBack(position int64, buffer []byte) []byte {
	begin := len(buffer)
	for begin > 0 {
		seg, ok := segs.segmentBefore(position)
		if !ok || seg.end < position {
			break
		}
		n := min(int64(begin), position-seg.start)
		got, ok := seg.read(buffer[begin-int(n):begin], position-n-seg.start)
		if now, _ := segs.segmentBefore(position); !ok && now.name != seg.name {
			continue // rotated just now
		}
		if !ok {
			break
		}
		begin -= got
		position -= int64(got)
	}
	return buffer[begin:]
}

// maxReadBack is how many bytes of a compressed file are unpacked at most to read its end, which
// takes a second or two. A program may have made a small file that unpacks to 1 TiB.
const maxReadBack = 1 << 30

// read fills p from an offset of the file. It reports false if the file is gone or can't be read
// that far.
func (s segment) read(p []byte, offset int64) (n int, ok bool) {
	file, err := s.openPacked()
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if s.compression != "" {
		if offset > maxReadBack {
			return 0, false
		}
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
