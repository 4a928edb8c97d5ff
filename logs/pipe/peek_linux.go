package pipe

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A Peek reads what is in the pipe of a source without taking it out, and takes it out once it is
// in the log. It makes a pipe of its own on first use. It belongs to one goroutine.
type Peek struct {
	source  *Source
	buffers *Buffers
	refused *RefusedCalls
	buffer  *Chunk
	ends    [2]int
	null    int // /dev/null; 0: not opened yet; -1: not available
}

// NewPeek returns a Peek into a source, which has to be closed.
func NewPeek(s *Source, b *Buffers, r *RefusedCalls) Peek {
	return Peek{source: s, buffers: b, refused: r}
}

// Next returns the next bytes of the source: at most n and at most a chunk, or fewer if they are
// spread over many pages. They are valid until the next call.
func (p *Peek) Next(n int64) ([]byte, error) {
	if p.refused.tee.Load() {
		return p.source.readAhead(n)
	}
	if p.buffer == nil {
		if err := unix.Pipe2(p.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		p.buffer = p.buffers.Get()
	}
	available, err := teePipe(p.source.FD(), p.ends[1], min(n, ChunkBytes))
	if isRefused(err) {
		p.refused.noTee()
		return p.Next(n)
	}
	text := p.buffer[:0]
	for int64(len(text)) < available && err == nil {
		var got int
		got, err = readPipe(p.ends[0], p.buffer[len(text):available])
		text = p.buffer[:len(text)+got]
	}
	return text, err
}

// Bytes returns how many bytes the source has.
func (p *Peek) Bytes() int64 { return p.source.Bytes() }

// MaySplice reports whether splice(2) is allowed, as far as is known.
func (p *Peek) MaySplice() bool { return !p.refused.splice.Load() }

// SplicesNext reports whether the next bytes are in the pipe, and not read ahead.
func (p *Peek) SplicesNext() bool { return p.source.Buffered() == 0 }

// Splice moves at most n bytes from the pipe into the file at offset and returns how many: 0 if the
// pipe is empty. works reports whether splice(2) can write to the file at all. A byte leaves the
// pipe when it is in the file, even if an error or a signal interrupts it, SIGKILL included.
func (p *Peek) Splice(file int, offset, n int64) (moved int64, works bool, err error) {
	moved, err = retryPipe(func() (int64, error) { return splice(p.source.FD(), file, &offset, n) })
	return moved, !p.refused.isSplice(err) && !errors.Is(err, syscall.EINVAL), err
}

// Take takes as many bytes out of the pipe as Next has returned in text. It returns how many it
// took; they are fewer only with an error, or if another reader took some.
func (p *Peek) Take(text []byte) (taken int, err error) {
	for taken = len(p.source.ahead.take(len(text))); taken < len(text); {
		got, err := readPipe(p.source.FD(), text[taken:])
		if got == 0 || err != nil {
			return taken, err
		}
		taken += got
	}
	return taken, nil
}

// Discard takes n bytes out of the pipe, or fewer if another reader took some. What Next returned
// stays valid.
func (p *Peek) Discard(n int) (taken int64, err error) {
	if taken = int64(len(p.source.ahead.take(n))); taken == int64(n) {
		return taken, nil
	}
	pipe := p.source.FD()
	if p.null == 0 {
		if p.null, err = syscalls.Open("/dev/null", unix.O_WRONLY); err != nil {
			p.null = -1 // then read them
		}
	}
	var scratch []byte
	for rest := int64(n) - taken; rest > 0; rest = int64(n) - taken {
		var got int64
		if p.null >= 0 {
			if got, err = spliceAway(pipe, p.null, rest); err == unix.EINVAL || isRefused(err) {
				syscalls.Close(p.null)
				p.null = -1
				continue
			}
		} else {
			if scratch == nil {
				scratch = make([]byte, min(n, 4<<10))
			}
			var read int
			read, err = readPipe(pipe, scratch[:min(len(scratch), int(rest))])
			got = int64(read)
		}
		if got == 0 || err != nil {
			return taken, err
		}
		taken += got
	}
	return taken, nil
}

// Close releases what the others have opened.
func (p *Peek) Close() {
	if p.buffer != nil {
		syscalls.Close(p.ends[0])
		syscalls.Close(p.ends[1])
		p.buffers.Put(p.buffer)
		p.buffer = nil
	}
	if p.null > 0 {
		syscalls.Close(p.null)
		p.null = 0
	}
}
