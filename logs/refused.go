package logs

import (
	"log/slog"
	"sync/atomic"
)

// refusedCalls are the system calls on pipes that the kernel refuses, or a filter, such as seccomp
// or a sandbox that emulates Linux. Each is tried once. After that superd does without it.
//
// Without splice(2), bytes are read by tee(2), written, and then taken out of the pipe. Without
// tee(2) they have to be taken out first. Meanwhile they are in a [readAhead], and are lost if
// superd is killed.
type refusedCalls struct {
	splice, tee atomic.Bool
	log         *slog.Logger
}

func (r *refusedCalls) logOnce(call *atomic.Bool, name, instead string) {
	if !call.Swap(true) && r.log != nil {
		r.log.Warn("a system call is refused, by seccomp or a sandbox", "call", name, "instead", instead)
	}
}

// isSplice reports whether splice(2) itself is refused, rather than the write to this file. An
// immutable file, or one that a security module protects, does not affect other files.
func (r *refusedCalls) isSplice(err error) bool {
	if !isRefused(err) || !isRefused(trySplice()) {
		return false
	}
	r.noSplice()
	return true
}

func (r *refusedCalls) noSplice() {
	r.logOnce(&r.splice, "splice", "output is copied; if superd is killed, up to 64 KiB of a log may be written twice")
}

func (r *refusedCalls) noTee() {
	r.logOnce(&r.tee, "tee", "output is read before it is written; if superd is killed, up to 64 KiB of a log may be lost")
}

// A readAhead stores what was read from a pipe and is not in the log yet, if tee(2) is refused. It
// belongs to the draining goroutine.
type readAhead struct {
	buffer     [chunkBytes]byte
	start, end int
}

// ensureReadAhead returns the drain's readAhead, which it allocates on first use.
func (d *drainState) ensureReadAhead() *readAhead {
	if d.ahead == nil {
		d.ensureErrors().ahead = new(readAhead)
	}
	return d.ahead
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
