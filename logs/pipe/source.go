// Package pipe makes the FIFOs that programs print into, and moves bytes out of them.
//
// A byte is in the pipe until it is in its log: [Peek] shows what comes next, moves it by splice(2)
// or takes it out once it is written. A [Source] is a read end; its user owns the descriptor, and
// one goroutine at a time reads. Nothing waits for output, except [Wait], for a given time.
//
// Where a filter refuses splice(2) or tee(2), the package does without: see [RefusedCalls].
package pipe

import (
	"sync"
	"sync/atomic"
)

// ChunkBytes is how much is searched for line ends, and copied if necessary, at a time.
const ChunkBytes = 64 << 10

// A Chunk is a buffer.
type Chunk = [ChunkBytes]byte

// Buffers has chunks for reuse. It is safe for concurrent use; the zero Buffers is ready to use.
type Buffers struct{ pool sync.Pool }

// Get returns a chunk.
func (b *Buffers) Get() *Chunk {
	if c, ok := b.pool.Get().(*Chunk); ok {
		return c
	}
	return new(Chunk)
}

// Put returns a chunk that is not used any more.
func (b *Buffers) Put(c *Chunk) { b.pool.Put(c) }

// A Source is the read end of a FIFO, and what was read from it ahead. The zero Source has no FIFO
// yet. FD, Attach, Attached and Readable are safe for concurrent use; the rest is for the goroutine
// that reads.
type Source struct {
	fd    atomic.Int32 // one more than the descriptor; 0: none
	ahead *readAhead   // nil: nothing was ever read ahead
}

// Attach sets the read end.
func (s *Source) Attach(fd int) { s.fd.Store(int32(fd) + 1) }

// FD returns the read end, -1 if there is none.
func (s *Source) FD() int { return int(s.fd.Load()) - 1 }

// Attached reports whether there is a read end.
func (s *Source) Attached() bool { return s.fd.Load() > 0 }

// Bytes returns how many bytes are in the FIFO or were read ahead. It may wait: see [Bytes].
func (s *Source) Bytes() int64 {
	if !s.Attached() {
		return 0
	}
	return Bytes(s.FD()) + s.Buffered()
}

// Buffered returns how many bytes were read ahead, out of the pipe.
func (s *Source) Buffered() int64 { return int64(len(s.ahead.text())) }

// Read takes bytes out, those read ahead first. It returns 0 if there are none.
func (s *Source) Read(p []byte) (int, error) {
	if n := copy(p, s.ahead.take(len(p))); n > 0 {
		return n, nil
	}
	return readPipe(s.FD(), p)
}

// readAhead reads ahead and returns the next bytes, at most n and at most a chunk.
func (s *Source) readAhead(n int64) ([]byte, error) {
	if s.ahead == nil {
		s.ahead = new(readAhead)
	}
	err := s.ahead.fill(s.FD(), n)
	text := s.ahead.text()
	return text[:min(n, int64(len(text)))], err
}

// A readAhead stores what was read from a pipe and is not in the log yet, if tee(2) is refused.
type readAhead struct {
	buffer     Chunk
	start, end int
}

func (a *readAhead) text() []byte {
	if a == nil {
		return nil
	}
	return a.buffer[a.start:a.end]
}

// fill reads more from the pipe until there are n bytes, at most a chunk, or the pipe is empty.
func (a *readAhead) fill(pipe int, n int64) error {
	n = min(n, int64(len(a.buffer)))
	if int64(len(a.text())) >= n {
		return nil
	}
	a.end = copy(a.buffer[:], a.text())
	a.start = 0
	for int64(a.end) < n {
		got, err := readPipe(pipe, a.buffer[a.end:n])
		if a.end += got; got == 0 || err != nil {
			return err
		}
	}
	return nil
}

// take removes at most n bytes and returns them. They are valid until the next fill.
func (a *readAhead) take(n int) []byte {
	text := a.text()
	text = text[:min(n, len(text))]
	if len(text) > 0 {
		a.start += len(text)
	}
	return text
}
