package logs

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/pipe"
	"superd/logs/read"
	"superd/logs/segment"
	"superd/logs/sink"
	"superd/loop"
)

// A Stream is one of the outputs of a program.
type Stream int32

// The streams of a program.
const (
	Stdout  Stream = iota // with standard error, if both share one FIFO
	Stderr                // if it has a FIFO of its own
	streams               // how many there can be
)

// A stream is a collector's state for one FIFO.
type stream struct {
	c      *Collector
	which  Stream
	source pipe.Source

	// file is that of the collector's options; both streams may share one. It belongs to the
	// draining goroutine, its segments also to followers.
	file *output

	drainState // used by the draining goroutine only
}

// drainState is the state that a stream keeps between drains.
type drainState struct {
	// readableAt is the order in which the collector's FIFOs became readable; 0: not known to be.
	readableAt   uint32
	second       uint32 // Unix time of burst, the bytes of that second that came in large portions
	total        int64  // bytes written to the file
	burst        int32
	capacity     uint16 // of the pipe in KiB, once it was made bigger; 0: it was not
	littleLeft   bool   // after the last turn
	*writeErrors        // never nil
}

// writeErrors is the state of a stream whose output does not get into its log, or did not once.
// Most streams never need one.
type writeErrors struct {
	dropped        dropped
	since          int64           // time of the first failure, in Unix nanoseconds
	failures       int32           // failed turns in a row
	failing        bool            // output does not get into the log
	rotationLogged bool            // the problem with rotation has been logged
	partial        *partialLine    // nil: there was none
	startSaved     <-chan struct{} // closed when the start is saved; nil: no save is under way
}

// noWriteErrors is shared by the streams that never needed another one. It is never modified.
var noWriteErrors writeErrors

// Of a FIFO that was found by its path, the open line is unknown.
var _ = [1]struct{}{}[frame.UnknownLine-frame.OpenLine(pipe.UnknownMark)]

// The state of each line has a mark.
var _ = [1]struct{}{}[frame.DroppedLine-frame.OpenLine(pipe.MaxMark)]

// ensureErrors returns the stream's writeErrors, which it allocates on first use.
func (d *drainState) ensureErrors() *writeErrors {
	if d.writeErrors == &noWriteErrors {
		d.writeErrors = new(writeErrors)
	}
	return d.writeErrors
}

func (s *stream) label() string {
	if s.which == Stderr {
		return frame.Stderr
	}
	return frame.Stdout
}

// all returns the streams. The list is never modified.
func (c *Collector) all() []*stream {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.shared.streams
}

// stream returns the stream which, nil if the collector doesn't have it.
func (c *Collector) stream(which Stream) *stream {
	for _, s := range c.all() {
		if s.which == which {
			return s
		}
	}
	return nil
}

// piped returns the streams of all that have a FIFO.
func piped(all []*stream) []*stream {
	n := 0
	for _, s := range all {
		if s.source.Attached() {
			n++
		}
	}
	if n == len(all) {
		return all
	}
	list := make([]*stream, 0, n)
	for _, s := range all {
		if s.source.Attached() {
			list = append(list, s)
		}
	}
	return list
}

func (c *Collector) hasPipe() bool {
	for _, s := range c.all() {
		if s.source.Attached() {
			return true
		}
	}
	return false
}

// States of draining. The loop and the draining goroutine change them by compare-and-swap.
const (
	idle     uint32 = iota // no goroutine drains; the next event starts one
	draining               // a goroutine moves bytes
	// dirty is draining when more output may have come: the goroutine checks once more before it
	// ends.
	dirty
	closing // the goroutine must end and close what the collector owns
	closed
)

// A Collector moves the output of one instance into its log files. Its methods are for the loop's
// goroutine, unless they say otherwise.
//
// One goroutine drains both streams. So lines of both get into one file in the order in which they
// were written, as far as that can be known.
type Collector struct {
	store  *Store // like name, never changed
	name   string
	inline inlineParts

	loop   loopState
	worker workerState
	shared sharedState

	// What any goroutine may read and change at any time:

	state   atomic.Uint32
	silent  atomic.Bool           // the present run has printed nothing yet
	resumed atomic.Bool           // a predecessor began this collector's first run
	reopen  atomic.Bool           // the file must be opened anew, with options, or cleared
	written atomic.Int64          // bytes of output that are in the log
	drops   atomic.Pointer[drops] // nil: nothing was dropped
	outage  atomic.Pointer[Outage]
	// startUnsaved is set for each stream where the present run has printed nothing yet and whose
	// start must be saved before it prints.
	startUnsaved [streams]atomic.Bool
}

// A loopState is the state of a collector that only the loop uses.
type loopState struct {
	link            loop.Link // in the list of what its scope owns
	closed          bool      // the scope is closed
	dropsUnrecorded bool      // the log lacks a record of what a predecessor dropped
}

// A workerState is the state of a collector that only the draining goroutine uses, beside that of
// its streams.
type workerState struct {
	pace          pace
	readableCount uint32 // counts FIFOs that became readable, if there are two
}

// A sharedState is the state of a collector that the lock guards.
type sharedState struct {
	sync.Mutex
	options  *setting  // replaced, never modified
	streams  []*stream // replaced, never modified: stdout, and stderr if it ever had its own FIFO
	runID    string    // present run
	barriers []barrier
	watchers *watchers  // nil: none was ever registered
	watch    read.Watch // of the FIFOs
	released bool       // all descriptors are closed
	// awaitsDirectOpen is set for each stream until a process of the run opens the file that it
	// writes itself (Direct).
	awaitsDirectOpen [streams]bool
	shown            [streams]bool // the log of each stream is shown on the display

	// The draining goroutine reads the following without the lock, as it alone changes them.

	wakeup *read.Wakeup // of the draining goroutine; nil: none drains
	outlet *outlet      // nil: output goes to files
}

// watchers are called after each append to the files: few collectors have any. The list is
// replaced, never modified. Requests to clear the log are as rare, and are here, too.
type watchers struct {
	all    []*func()
	clears *clearRequest // newest one; nil: none
}

// clears returns the newest request to clear the log, nil if there is none. The lock is held.
func (s *sharedState) clears() *clearRequest {
	if s.watchers == nil {
		return nil
	}
	return s.watchers.clears
}

// watching returns the watchers. The lock is held.
func (s *sharedState) watching() []*func() {
	if s.watchers == nil {
		return nil
	}
	return s.watchers.all
}

// inlineParts are the objects that every collector needs, in one allocation: small objects with
// long lives keep pages from being returned to the system. What replaces one of them later is
// allocated then.
type inlineParts struct {
	setting setting
	streams [1]*stream
	stdout  stream
	file    output
}

type drops struct {
	mu sync.Mutex
	Drops
	saving bool // onUnsavedDrops was called, and DropsSaved was not yet
}

// Drops is how much output was dropped in all.
type Drops struct {
	Bytes, Lines int64
	// How much of it drop records report. The names in the journal are older.
	RecordedBytes int64 `json:"ToldBytes"`
	RecordedLines int64 `json:"ToldLines"`
}

// A dropped counts output dropped since output last got into the file. It begins at the start of a
// line, as far as that is known, and extends to the end of one.
type dropped struct {
	bytes, lines int64
	cause        error
	lineBytes    int // dropped bytes of a line whose end has not come yet
}

// A partialLine is a line whose end has not come yet.
type partialLine struct {
	at    int64 // bytes of output before it
	bytes int64 // of it in the pipe when last checked
	since time.Time
	due   bool // what is there must be written as a partial record
}

// An outlet is a sink, with the end of what was delivered to it, which can't be read back. The
// collector's lock guards recent and beforeRun.
type outlet struct {
	sink.Sink
	recent    []byte // at most TailBytes
	beforeRun int    // bytes of recent from before the present run
}

// An Outage is a time in which output does not get into its log.
type Outage struct {
	Program, Instance, Run string
	Since                  time.Time
	Log                    string // its path, or a sink
	Reason                 string
	// Dropping reports that output is dropped. Otherwise the program waits when its pipe is full.
	Dropping bool
}

// A barrier is a position in the output that a function waits for.
type barrier struct {
	kind    barrierKind
	reached func() // called on the draining goroutine once everything before it is written
	// failed is called instead of reached if a write fails after the barrier has its position; nil:
	// the barrier waits.
	failed func(error)
	at     [streams]int64 // bytes of each stream before it, or one of the values below
}

// A barrierKind is the purpose of a barrier.
type barrierKind int

const (
	outputBarrier barrierKind = iota // all output written before it
	runBarrier                       // the output of one run
	runStartBarrier
	runEndBarrier
)

// Values of barrier.at that are no position.
const (
	unlocated = -1 // its position is not known yet
	passed    = -2 // everything before it is in the file
	locating  = -3 // the draining goroutine is determining its position
)

// endsLine reports whether the barrier completes a line without a newline before it.
func (b *barrier) endsLine() bool { return b.kind == runStartBarrier || b.kind == runEndBarrier }

// A Store has what collectors share. Its methods are safe for concurrent use.
type Store struct {
	loop              *loop.Loop
	log               *slog.Logger
	writers           *fslimit.Limiter
	readers           follow.Readers
	buffers           pipe.Buffers
	recordBuffers     sync.Pool // of *frame.Buffer
	poller            read.Poller
	settings          settings
	collectors        sync.WaitGroup // counts collectors and the goroutines that work for them
	exiting           atomic.Bool    // see PrepareExit
	archive           segment.Archive
	sinks             sink.Set
	display           *Display // nil: none
	refused           pipe.RefusedCalls
	onFirstOutput     func(RunStart)                  // nil: not set
	beforeFirstOutput func(at RunStart, saved func()) // nil: not set
	onDropped         func(DroppedOutput)             // nil: not set
	onUnsavedDrops    func(*Collector)                // nil: not set
	onOutage          func(o Outage, over bool)       // nil: not set
	now               func() time.Time
	began             time.Time // clock counts from it
	// stallTimeout is how long a file operation may take before output is dropped, with Drop.
	stallTimeout time.Duration
	// retryDelay returns the delay before a failed write is tried again; attempt counts from 0.
	retryDelay func(attempt int) time.Duration
}

// A DroppedOutput is output that was dropped, and whose drop record is in the log.
type DroppedOutput struct {
	Program, Instance, Run string
	Text                   string // how much, and why
}

// A RunStart is where in a log the output of a run begins, if the log itself does not record that.
type RunStart struct {
	Program, Instance, Run string
	Stream                 Stream // in whose log
	At                     segment.Cursor
}

// A drainer is a collector as the poller sees it.
type drainer Collector

var newline = []byte{'\n'}

func (c *Collector) setting() *setting {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.shared.options
}

// line returns what the first byte in the pipe belongs to; AtBeginning if the format has no
// messages.
func (s *stream) line() frame.OpenLine {
	if !s.file.Format.Messages() {
		return frame.AtBeginning
	}
	return frame.OpenLine(pipe.MarkOf(s.source.FD()))
}

// setLine stores what the first byte in the pipe belongs to, in each format, as the format may be
// about to change. It never blocks.
func (s *stream) setLine(l frame.OpenLine) { pipe.SetMark(s.source.FD(), pipe.Mark(l)) }

// byLine reports whether lines are moved instead of bytes. That is also necessary while the log
// lacks a drop record, or the rest of a line has to be dropped.
func (s *stream) byLine() bool {
	return s.file.set.byLine() || s.dropped.bytes > 0 || s.dropped.lineBytes > 0
}

func (s *stream) newPeek() pipe.Peek {
	return pipe.NewPeek(&s.source, &s.c.store.buffers, &s.c.store.refused)
}
