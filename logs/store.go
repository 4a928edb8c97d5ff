// Package logs brings the output of programs into their log files, byte for byte, and reads it back.
//
// A program writes to a FIFO ([MakeFIFO], [OpenWriter]). A [Capture] owns the FIFO's read end, the log file and the
// files rotated away from it. It lives on the loop, which only tells it that there is something to read: a goroutine of
// its own then moves bytes until the FIFO is empty and ends. A quiet capture has no goroutine and no buffer. Bytes
// go from pipe to file inside the kernel (splice(2)), so that each of them is in the one or in the other whenever superd
// dies; they are looked at only near the size at which a file is rotated.
//
// The [Store] hands out the slots in which these goroutines write. Each file system has slots of its own, so that one
// that stalls holds up the programs that log there and nothing else; their output waits in their FIFOs.
//
// Who wants to see output reads the files, never the FIFO, and never on the loop: [Capture.Follow], [LastLines],
// [Capture.Tail]. A slow reader holds up nobody.
package logs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"superd/loop"
)

const (
	chunkBytes = 64 << 10  // searched for line ends, and copied where that has to be, at a time
	turnBytes  = 1 << 20   // moved before a slot is offered to those who wait for one
	busyPipe   = 256 << 10 // what the pipe of a program holds that has filled it for a turn, in bytes
)

// How long a goroutine waits for more from a busy program, and how many do so at once, each with a thread.
const (
	lingerTime   = 2 * time.Millisecond
	maxLingering = 4
)

// Options tell where the output of a program goes.
type Options struct {
	Path    string // of the log file; it and its directory are made when first needed
	MaxSize int64  // bytes; the file is rotated rather than grow beyond; 0: never
	Keep    int    // rotated files; the oldest ones beyond that number are removed
}

// A Store holds what captures share. Its methods may be called from any goroutine.
type Store struct {
	loop      *loop.Loop
	log       *slog.Logger
	slots     slots // for those who write
	readers   slots
	lines     lineCache
	lingering chan struct{} // holds a token for each goroutine that waits for a busy program
	buffers   sync.Pool     // of *[chunkBytes]byte
	captures  sync.WaitGroup
	now       func() time.Time
	pause     func(attempt int) time.Duration // before a failed write is tried again; attempt counts from 0
}

// NewStore returns a Store for captures on l. It tells log when a file cannot be written and when it can be again.
func NewStore(l *loop.Loop, log *slog.Logger) *Store {
	return &Store{
		loop:      l,
		log:       log,
		slots:     newSlots(writersPerPlace),
		readers:   newSlots(readersPerPlace),
		lingering: make(chan struct{}, maxLingering),
		lines:     lineCache{lines: make(map[*Capture]cachedLine)},
		buffers:   sync.Pool{New: func() any { return new([chunkBytes]byte) }},
		now:       time.Now,
		pause:     func(attempt int) time.Duration { return min(100*time.Millisecond<<min(attempt, 10), 2*time.Second) },
	}
}

// NewCapture returns a capture named name that belongs to scope. Closing the scope closes it: a chunk that is being
// written is finished, then the read end and the file are closed, by whichever goroutine used them last. What is still
// in the FIFO is left there; see [Capture.Drained].
func (s *Store) NewCapture(scope *loop.Scope, name string, o Options) *Capture {
	c := &Capture{
		store:   s,
		scope:   scope,
		name:    name,
		fd:      -1,
		quit:    make(chan struct{}),
		options: o,
		file:    newFile(o, s.now),
	}
	s.captures.Add(1)
	scope.Defer(c.close)
	return c
}

// Wait returns when every capture has let go of its descriptors, which each does once its scope is closed and its last
// write has returned. The error is that of ctx, if that ends first.
func (s *Store) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.captures.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for captures to end: %w", ctx.Err())
	}
}
