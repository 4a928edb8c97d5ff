package follow

import (
	"sync"
	"time"

	"superd/logs/fslimit"
	"superd/logs/pipe"
	"superd/logs/segment"
)

// LastLines returns the newest complete line of each log's newest run, in their order. A line
// has no newline and is as it was written. It has at most 1024 bytes: its start, or the start of
// its part in the last 64 KiB. A line without a newline counts once its run has ended and it is in
// the file. A line is "" if there is none, and for a nil Log.
//
// It reads what the files have gained since the last call, a few files at a time in each file
// system. If a file system stalls and returns nothing within timeout, the missing lines are those
// of the call before. It must not run on the loop.
func LastLines(logs []Log, timeout time.Duration) []string {
	found := make([]string, len(logs))
	toRead := map[fslimit.FileSystem][]int{} // indexes of the logs to read
	for i, l := range logs {
		if l == nil {
			continue
		}
		if line, elsewhere := l.RecentLine(); elsewhere {
			found[i] = line
			continue
		}
		segs, _ := l.Segments()
		if segs == nil {
			continue
		}
		var fresh bool
		if found[i], fresh = l.Readers().lines.get(l, segs.OutputEnd()); !fresh {
			p := segs.FileSystem(l.Readers().Limiter)
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
		limiter := logs[indexes[0]].Readers().Limiter
		for range min(limiter.PerFileSystem(), len(indexes)) {
			go func() {
				for i := range next {
					l := logs[i]
					segs, _ := l.Segments()
					slot := segs.AcquireSlot(l.Readers().Limiter, stop)
					if slot == nil {
						return
					}
					line := readLastLine(l, segs)
					slot.Release()
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
func readLastLine(l Log, segs *segment.Log) string {
	r := l.Readers()
	buffer := r.Buffers.Get()
	defer r.Buffers.Put(buffer)
	at := segs.OutputEnd()
	line := segs.LastLine(buffer[:])
	r.lines.put(l, at, line)
	return line
}

// cacheBytes limits a lineCache: some thousand lines.
const cacheBytes = 256 << 10

// A lineCache stores the newest lines of some logs.
type lineCache struct {
	mu    sync.Mutex
	lines map[Log]cachedLine
	bytes int
}

// A cachedLine is a line, and the end of the output for which it is the newest one.
type cachedLine struct {
	at   segment.OutputEnd
	line string
}

// entryBytes is the approximate size of an entry without its line.
const entryBytes = 128

// get returns the line that was put last, if the cache still has it, and whether it is the newest
// one for at.
func (l *lineCache) get(of Log, at segment.OutputEnd) (line string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cached, ok := l.lines[of]
	return cached.line, ok && cached.at == at && !at.MayBeStale
}

func (l *lineCache) put(of Log, at segment.OutputEnd, line string) {
	l.forget(of)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += entryBytes + len(line); l.bytes > cacheBytes {
		clear(l.lines)
		l.bytes = entryBytes + len(line)
	}
	if l.lines == nil {
		l.lines = make(map[Log]cachedLine)
	}
	l.lines[of] = cachedLine{at, line}
}

func (l *lineCache) forget(of Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cached, ok := l.lines[of]; ok {
		l.bytes -= entryBytes + len(cached.line)
		delete(l.lines, of)
	}
}

// Readers is what all readers of a program's logs share. It limits how many read at a time, and
// caches newest lines.
type Readers struct {
	Limiter *fslimit.Limiter
	Buffers *pipe.Buffers
	lines   lineCache
}

// Forget forgets a log that is closed.
func (r *Readers) Forget(l Log) { r.lines.forget(l) }

// Cached returns of how many logs the newest line is cached.
func (r *Readers) Cached() int {
	r.lines.mu.Lock()
	defer r.lines.mu.Unlock()
	return len(r.lines.lines)
}
