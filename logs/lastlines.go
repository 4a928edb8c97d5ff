package logs

import (
	"sync"
	"time"
)

// LastLines returns the newest complete line of each collector's newest run, in their order. A line
// has no newline and is as it was written. It has at most 1024 bytes: its start, or the start of
// its part in the last 64 KiB. A line without a newline counts once EndRun was called and it is in
// the file. A line is "" if there is none, and for a nil collector.
//
// It reads what the files have gained since the last call, a few files at a time in each file
// system. If a file system stalls and returns nothing within timeout, the missing lines are those
// of the call before. It must not run on the loop.
func LastLines(collectors []*Collector, timeout time.Duration) []string {
	found := make([]string, len(collectors))
	toRead := map[fileSystem][]int{} // indexes of the collectors to read
	for i, c := range collectors {
		if c == nil {
			continue
		}
		if c.setting().Sink != "" {
			found[i] = c.recentLine()
			continue
		}
		segs, _ := c.segments()
		var fresh bool
		if found[i], fresh = c.store.lines.get(c, segs.outputEnd()); !fresh {
			p := c.store.readers.fileSystemOf(segs.pathResolver())
			toRead[p] = append(toRead[p], i)
		}
	}
	if len(toRead) == 0 {
		return found
	}

	type answer struct {
		i    int
		line string
	}
	missing := 0
	for _, indexes := range toRead {
		missing += len(indexes)
	}
	answers := make(chan answer, missing)
	stop := make(chan struct{}) // closed when LastLines returns
	defer close(stop)
	for _, indexes := range toRead {
		next := make(chan int, len(indexes))
		for _, i := range indexes {
			next <- i
		}
		close(next)
		for range min(readersPerFileSystem, len(indexes)) {
			go func() {
				for i := range next {
					c := collectors[i]
					segs, _ := c.segments()
					slot := c.store.readers.acquireFor(segs, stop)
					if slot == nil {
						return
					}
					line := c.readLastLine(segs)
					slot.release()
					answers <- answer{i, line}
				}
			}()
		}
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for ; missing > 0; missing-- {
		select {
		case a := <-answers:
			found[a.i] = a.line
			timer.Reset(timeout)
		case <-timer.C:
			return found
		}
	}
	return found
}

// readLastLine reads the newest complete line of segs from its files.
func (c *Collector) readLastLine(segs *segments) string {
	buffer := c.store.buffers.Get().(*[chunkBytes]byte)
	defer c.store.buffers.Put(buffer)
	at := segs.outputEnd()
	line := segs.lastLine(buffer[:])
	c.store.lines.put(c, at, line)
	return line
}

// cacheBytes limits a lineCache: some thousand lines.
const cacheBytes = 256 << 10

// A lineCache stores the newest lines of some collectors.
type lineCache struct {
	mu    sync.Mutex
	lines map[*Collector]cachedLine
	bytes int
}

// A cachedLine is a line, and the end of the output for which it is the newest one.
type cachedLine struct {
	at   outputEnd
	line string
}

// entryBytes is the approximate size of an entry without its line.
const entryBytes = 128

// get returns the line that was put last, if the cache still has it, and whether it is the newest
// one for at.
func (l *lineCache) get(c *Collector, at outputEnd) (line string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cached, ok := l.lines[c]
	return cached.line, ok && cached.at == at && !at.mayBeStale
}

func (l *lineCache) put(c *Collector, at outputEnd, line string) {
	l.forget(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += entryBytes + len(line); l.bytes > cacheBytes {
		clear(l.lines)
		l.bytes = entryBytes + len(line)
	}
	l.lines[c] = cachedLine{at, line}
}

func (l *lineCache) forget(c *Collector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cached, ok := l.lines[c]; ok {
		l.bytes -= entryBytes + len(cached.line)
		delete(l.lines, c)
	}
}
