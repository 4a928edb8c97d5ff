package logs

import (
	"sync"
	"time"
)

// LastLines returns the newest complete line of each capture's log, in their order, without its newline and as it was
// written: at most 1024 bytes, its beginning, or the beginning of what the last 64 KiB have of it. A line without a newline
// counts once EndRun was called and it is in the file. It is "" where there is none, and for a capture that is nil.
//
// It reads files, a few at a time in each file system, as far as they have grown since it last did. When no answer has come
// for patience, since a file system stalls, the lines still missing are those of the time before. From any goroutine but
// the loop's.
func LastLines(captures []*Capture, patience time.Duration) []string {
	found := make([]string, len(captures))
	wanted := map[place][]int{} // which captures are to be read
	for i, c := range captures {
		if c == nil {
			continue
		}
		if c.setting().Sink != "" {
			found[i] = c.recentLine()
			continue
		}
		ch, _ := c.chain()
		var fresh bool
		if found[i], fresh = c.store.lines.get(c, ch.newest()); !fresh {
			p := c.store.readers.placeOf(ch.wayTo())
			wanted[p] = append(wanted[p], i)
		}
	}
	if len(wanted) == 0 {
		return found
	}

	type answer struct {
		i    int
		line string
	}
	missing := 0
	for _, these := range wanted {
		missing += len(these)
	}
	answers := make(chan answer, missing)
	quit := make(chan struct{}) // closed when nobody waits any more
	defer close(quit)
	for _, these := range wanted {
		next := make(chan int, len(these))
		for _, i := range these {
			next <- i
		}
		close(next)
		for range min(readersPerPlace, len(these)) {
			go func() {
				for i := range next {
					c := captures[i]
					ch, _ := c.chain()
					slot := c.store.readers.enter(ch, quit)
					if slot == nil {
						return
					}
					line := c.readLastLine(ch)
					slot.release()
					answers <- answer{i, line}
				}
			}()
		}
	}
	stalled := time.NewTimer(patience)
	defer stalled.Stop()
	for ; missing > 0; missing-- {
		select {
		case a := <-answers:
			found[a.i] = a.line
			stalled.Reset(patience)
		case <-stalled.C:
			return found
		}
	}
	return found
}

// readLastLine reads the newest complete line from the file of a chain.
func (c *Capture) readLastLine(ch *chain) string {
	buffer := c.store.buffers.Get().(*[chunkBytes]byte)
	defer c.store.buffers.Put(buffer)
	at := ch.newest()
	line := ch.lastLine(buffer[:])
	c.store.lines.put(c, at, line)
	return line
}

// cacheBytes bounds what a lineCache holds: some thousand lines.
const cacheBytes = 256 << 10

// A lineCache knows the newest lines of some captures.
type lineCache struct {
	mu    sync.Mutex
	lines map[*Capture]cachedLine
	bytes int
}

// A cachedLine is a line, and the end of the output for which it is the newest one.
type cachedLine struct {
	at   outputEnd
	line string
}

// entryBytes is what an entry takes beside its line, about.
const entryBytes = 128

// get returns the line that was put last, if it still is here, and whether it is the newest one for at.
func (l *lineCache) get(c *Capture, at outputEnd) (line string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.lines[c]
	return known.line, ok && known.at == at && !at.unseen
}

func (l *lineCache) put(c *Capture, at outputEnd, line string) {
	l.forget(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += entryBytes + len(line); l.bytes > cacheBytes {
		clear(l.lines)
		l.bytes = entryBytes + len(line)
	}
	l.lines[c] = cachedLine{at, line}
}

func (l *lineCache) forget(c *Capture) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.lines[c]; ok {
		l.bytes -= entryBytes + len(known.line)
		delete(l.lines, c)
	}
}
