// Package logs moves the output of programs into their log files, byte for byte, and reads it back.
//
// A program writes to a FIFO ([pipe.MakeFIFO], [pipe.OpenWriter]). A [Collector] owns the read end
// of the FIFO, the log file and the files rotated from it. It lives on the loop, but the loop does
// not handle the bytes. Goroutines of a [Store] wait for output; the one that gets an event moves
// bytes until the FIFO is empty. A quiet collector has no goroutine and no buffer.
//
// Bytes go from pipe to file inside the kernel (splice(2)), so each is in one of the two whenever
// superd is killed. They are examined only near the size at which a file is rotated. With a format
// other than raw they are peeked at, written as records and only then taken out of the pipe. A
// crash in between repeats what was in flight and loses nothing.
//
// The package decides when which bytes go where. The packages below do the rest: read waits for
// output, pipe takes it out of FIFOs, frame makes records, segment writes files, sink writes
// elsewhere, follow reads it back, and fslimit bounds how many goroutines a file system that stalls
// can block.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"superd/internal/mounts"
	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/read"
	"superd/loop"
)

const (
	turnBytes = 1 << 20 // moved before the slot is released
)

// How many goroutines may use one file system at a time. Each may occupy a thread and a buffer
// while the file system stalls.
const (
	writersPerFileSystem = 4
	readersPerFileSystem = 4
)

// How many may use all file systems together. So three stalled ones delay no writer elsewhere, and
// two no reader.
const (
	maxWriters = 4 * writersPerFileSystem
	maxReaders = 3 * readersPerFileSystem
)

// Threads is how many threads the collectors of a [Store], its archive, superd's standard output
// and a queue of its messages may block in the kernel.
const Threads = read.MaxWaiting + maxWriters + maxReaders + 3

// NewStore returns a Store for collectors on l. It logs to log when a file can't be written and
// when it can be again.
func NewStore(l *loop.Loop, log *slog.Logger) *Store {
	table := new(mounts.Table)
	s := &Store{
		loop:          l,
		log:           log,
		writers:       fslimit.New(table, writersPerFileSystem, maxWriters),
		recordBuffers: sync.Pool{New: func() any { return new(frame.Buffer) }},
		now:           time.Now,
		began:         time.Now(),
		stallTimeout:  time.Second,
		retryDelay:    retryDelay,
	}
	s.poller.Init(&s.collectors)
	s.readers.Limiter, s.readers.Buffers = fslimit.New(table, readersPerFileSystem, maxReaders), &s.buffers
	s.refused.Log = log
	s.sinks.Init(log, func() time.Time { return s.now() })
	s.archive.Init(log, &s.collectors)
	return s
}

// SetMaxTotal limits the bytes of all log files of collectors together. At each rotation the oldest
// rotated files beyond the limit are removed. 0 is no limit.
func (s *Store) SetMaxTotal(bytes int64) { s.archive.SetMaxTotal(bytes) }

// BetweenRecords returns a writer to w, which has the same target as superd's own standard output.
// Each write waits until no record is being written there, so that writes to w cut none.
func (s *Store) BetweenRecords(w io.Writer) io.Writer { return s.sinks.BetweenRecords(w) }

// OnDropped registers f, which is called when a drop record is written, on the goroutine that
// writes. f must not block. OnDropped has to be called before there are collectors.
func (s *Store) OnDropped(f func(DroppedOutput)) { s.onDropped = f }

// OnUnsavedDrops registers f, which is called on the goroutine that drops when [Collector.Drops]
// have to be saved, and not again before [Collector.DropsSaved]. f must not block. OnUnsavedDrops
// has to be called before there are collectors.
func (s *Store) OnUnsavedDrops(f func(*Collector)) { s.onUnsavedDrops = f }

// OnFirstOutput registers f, which is called when a run has printed for the first time, on the
// goroutine that writes. f must not block. OnFirstOutput has to be called before there are
// collectors.
func (s *Store) OnFirstOutput(f func(RunStart)) { s.onFirstOutput = f }

// PrepareExit announces that the process is about to exit, before collectors are closed. From then
// on the kernel closes read ends and their watches. Open files are still closed, and dropped output
// is still logged. It has to be called on the loop.
func (s *Store) PrepareExit() {
	s.exiting.Store(true)
	s.poller.Stop()
}

// Wait returns when every collector has closed its descriptors. Each does so after its scope is
// closed and its last write has returned. If ctx ends first, Wait returns the error of ctx.
func (s *Store) Wait(ctx context.Context) error {
	return await(ctx, "collectors to end", func() {
		s.collectors.Wait()
		s.archive.Stop()
	})
}

// await calls wait, but returns when ctx ends. what is for the error.
func await(ctx context.Context, what string, wait func()) error {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", what, ctx.Err())
	}
}

// OnOutage registers f, which is called once when an outage begins and once when it is over, on the
// goroutine that writes. f must not block. OnOutage has to be called before there are collectors.
func (s *Store) OnOutage(f func(o Outage, over bool)) { s.onOutage = f }

// BeforeFirstOutput registers f, which is called with the cursor where the output of a run begins,
// before any of it is in the log. Each stream with a log of its own has its own cursor. f is called
// for runs that BeginRun has begun with saveStart.
//
// The output stays in the FIFOs until saved is called, but for a second at most: output matters
// more than its cursor. f runs on the goroutine that is about to write, and must not block.
// BeforeFirstOutput has to be called before there are collectors.
func (s *Store) BeforeFirstOutput(f func(at RunStart, saved func())) { s.beforeFirstOutput = f }

// retryDelay returns the delay before a failed write is tried again; attempt counts from 0.
func retryDelay(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(max(attempt, 0), 10), 2*time.Second)
}
