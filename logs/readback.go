package logs

// tailBytes is how much of the end of a run's output is read for telling why it failed.
const tailBytes = 1024

// BeginRun tells that a run of the program begins: what comes once the FIFO has been emptied of what is in it now is its
// output.
func (c *Capture) BeginRun() {
	c.mark(func() {
		ch, _ := c.chain()
		ch.beginRun()
	})
}

// EndRun tells that the program's main process has ended: a last line without a newline is as complete as it gets. What
// comes later begins a line of its own for [LastLines]; in the file, nothing is added.
func (c *Capture) EndRun() {
	c.mark(func() {
		ch, _ := c.chain()
		ch.endRun()
	})
}

// Tail has f called with the last bytes of the run's output, at most 1 KiB, once everything that is in the FIFO now is in
// the file, and when the scope is closed; cut tells that there was more before them. They are read from the file: of a
// device there are none. f must not block; it runs on any goroutine but the loop's.
func (c *Capture) Tail(f func(end []byte, cut bool)) {
	if c.markLater(func() { c.readTail(f) }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		go f(nil, false)
		return
	}
	ch := c.file.chain
	from, to := ch.lastRun() // now: a next run may begin any time
	c.store.captures.Go(func() {
		place := ch.place()
		if !c.store.readers.acquire(place, c.quit) {
			f(nil, false)
			return
		}
		end, cut := ch.tail(from, to)
		c.store.readers.release(place)
		f(end, cut)
	})
}

// readTail calls f with the end of the run's output, on the draining goroutine.
func (c *Capture) readTail(f func(end []byte, cut bool)) {
	ch, _ := c.chain()
	f(ch.tail(ch.lastRun()))
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

// tail reads the end of what lies between two positions.
func (ch *chain) tail(from, to int64) (end []byte, cut bool) {
	if from == to {
		return nil, false
	}
	end = ch.readBack(to, make([]byte, tailBytes))
	if from != unknown && to-from < int64(len(end)) {
		end = end[int64(len(end))-(to-from):]
	}
	return end, len(end) == tailBytes && to-int64(len(end)) > from
}

// lastLine returns the newest complete line, at most maxLineBytes of it: its beginning if that lies in the last
// len(buffer) bytes of the output, which it uses meanwhile. It blocks on the file system.
func (ch *chain) lastLine(buffer []byte) string {
	if at := ch.newest(); at.unseen {
		if info, err := statPath(ch.path); err == nil {
			ch.seen(info)
		}
	}
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
		return string(line[:min(len(line), maxLineBytes)])
	}
}

// An outputEnd is what the newest line depends on.
type outputEnd struct {
	chain      *chain
	end, ended int64
	unseen     bool // nobody has looked at the file yet
}

func (ch *chain) newest() outputEnd {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return outputEnd{ch, ch.current.end, ch.ended, ch.current.identity == (identity{})}
}

// place returns where the newest file is, as far as it is known without asking.
func (ch *chain) place() place {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return placeOf(ch.path, ch.current.identity)
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
	fd, err := openRead(s.name)
	if err != nil {
		return 0, false
	}
	defer closeFD(fd)
	info, err := statFD(fd)
	if err != nil || !info.regular || !s.rotated() && info.identity != s.identity {
		return 0, false
	}
	n, err = readAt(fd, p, offset)
	return n, err == nil && n == len(p)
}
