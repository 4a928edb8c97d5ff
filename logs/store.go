// Package logs brings the output of programs into their log files, byte for byte, and reads it back.
//
// A program writes to a FIFO ([MakeFIFO], [OpenWriter]). A [Capture] owns the FIFO's read end, the log file and the
// files rotated away from it. It lives on the loop, which sees neither the bytes nor that there are some: the goroutines of
// a [Store] wait for output, and the one that is told of some moves bytes until the FIFO is empty. A quiet capture has no goroutine and no buffer. Bytes
// go from pipe to file inside the kernel (splice(2)), so that each of them is in the one or in the other whenever superd
// dies; they are looked at only near the size at which a file is rotated. With another [Format] than raw they are peeked at,
// written as records and only then taken out of the pipe: who dies in between repeats what was in flight and loses nothing.
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
	"os"
	"sync"
	"sync/atomic"
	"time"

	"superd/loop"
	"superd/mounts"
)

const (
	chunkBytes = 64 << 10  // searched for line ends, and copied where that has to be, at a time
	turnBytes  = 1 << 20   // moved before a slot is offered to those who wait for one
	busyPipe   = 256 << 10 // what the pipe of a program holds that has filled it for a turn, in bytes
)

// How much a program has to print to count as busy, how long a goroutine waits for more from it, and how many do so at once, each with a
// thread.
const (
	lingerBytes  = 16 << 10
	lingerTime   = 2 * time.Millisecond
	maxLingering = 4
)

// restPatience is how long the rest of a line is waited for, before what is there of it becomes a record.
const restPatience = 200 * time.Millisecond

// Options tell where the output of a program goes.
type Options struct {
	Program string // its name, for records
	Path    string // of the log file; it and its directory are made when first needed

	Sink       Sink   // where the output goes instead of a file
	Address    string // of journald or syslog: the path of a socket of datagrams, or udp://HOST:PORT or tcp://HOST:PORT; "" is the usual one. Of a logger: its FIFO
	Identifier string // what they call the program; "" is its name
	Facility   int    // of syslog's; 0 to 23
	host       string // this machine's name, as syslog is told

	// The file's owners, by names or numbers, and mode; "" and 0: superd's own, and 0640.
	Owner, Group string

	// With Split the program has a FIFO for standard error alone. What comes by it goes into a file of its own, if StderrPath is set, else into the
	// one of standard output.
	StderrPath string

	Format Format // "" is raw

	// The file is rotated rather than grow beyond MaxSize bytes (0: never), and when output comes and it is MaxAge old (0: never).
	MaxSize int64
	MaxAge  time.Duration

	// The oldest rotated files are removed: those beyond the number Keep, and those that would let all of them and a full newest
	// one have more than MaxTotal bytes (0: no bound).
	Keep        int
	MaxTotal    int64
	Compression Compression // of rotated files

	// While the file can't be written, output waits in the program's pipe or, with Drop, is dropped and counted. The file system counts as
	// full when fewer than MinFree bytes are free for all users.
	MinFree int64
	Drop    bool
	Split   bool   // see StderrPath
	Mode    uint32 // see Owner
}

// complete returns o with what is left out filled in.
func (o Options) complete() Options {
	if o.Format == "" {
		o.Format = Raw
	}
	switch o.Sink {
	case Journald:
		o.Format = journalFormat
	case Syslog:
		o.Format = syslogFormat
		o.host, _ = os.Hostname() // else it stays away
	}
	if o.Sink != "" {
		o.Path, o.StderrPath, o.MaxSize, o.MaxAge, o.MaxTotal, o.Compression, o.MinFree = "", "", 0, 0, 0, "", 0
		if o.Address == "" {
			o.Address = defaultAddress(o.Sink)
		}
	}
	if o.Format == Direct {
		o.MaxSize, o.MaxAge, o.MaxTotal, o.Compression, o.Drop, o.MinFree = 0, 0, 0, "", false, 0
	}
	return o
}

// Files returns the paths of the log files.
func (o Options) Files() []string {
	own := o.setting()
	return own.files()
}

// byLine reports whether lines are put into the file, and not just bytes: it is as well to drop lines, too.
func (o Options) byLine() bool { return o.Format.records() || o.Drop || o.Sink != "" }

// A Store holds what captures share. Its methods may be called from any goroutine.
type Store struct {
	loop       *loop.Loop
	log        *slog.Logger
	slots      slots // for those who write
	readers    slots
	lines      lineCache
	lingering  chan struct{} // holds a token for each goroutine that waits for a busy program
	buffers    sync.Pool     // of *[chunkBytes]byte
	benches    sync.Pool     // of *recordBench
	poller     poller
	settings   settings
	captures   sync.WaitGroup // and who works for them
	leaving    atomic.Bool    // see Leave
	archive    archive
	paths      paths
	transports transports
	stdout     *sharedOutput
	feeds      feeds
	tellRun    func(RunBegin)                  // nil: nobody wants to know
	tellPlace  func(at RunBegin, saved func()) // as well
	tellLoss   func(Loss)                      // as well
	tellDrops  func(*Capture)                  // as well
	tellOutage func(o Outage, over bool)       // as well
	now        func() time.Time
	stall      time.Duration                   // how long an operation on a file may take before output is dropped, where it is
	pause      func(attempt int) time.Duration // before a failed write is tried again; attempt counts from 0
}

// NewStore returns a Store for captures on l. It tells log when a file cannot be written and when it can be again.
func NewStore(l *loop.Loop, log *slog.Logger) *Store {
	table := new(mounts.Table)
	s := &Store{
		loop:      l,
		log:       log,
		slots:     newSlots(table, writersPerPlace, maxWriters),
		readers:   newSlots(table, readersPerPlace, maxReaders),
		lingering: make(chan struct{}, maxLingering),
		lines:     lineCache{lines: make(map[*Capture]cachedLine)},
		buffers:   sync.Pool{New: func() any { return new([chunkBytes]byte) }},
		benches:   sync.Pool{New: func() any { return new(recordBench) }},
		now:       time.Now,
		stall:     time.Second,
		pause:     func(attempt int) time.Duration { return min(100*time.Millisecond<<min(attempt, 10), 2*time.Second) },
	}
	s.poller.captures, s.poller.most, s.poller.patience = &s.captures, Hands(), handPatience
	s.transports.log, s.feeds.log = log, log
	s.transports.now = func() time.Time { return s.now() }
	s.stdout = newSharedOutput(stdoutFD)
	s.archive = archive{store: s}
	return s
}

// A Loss is output that was dropped, and that its log has a record of by now.
type Loss struct {
	Program, Instance, Run string
	Text                   string // how much, and why
}

// TellLosses has f called after each loss, on the goroutine that writes. f must not block. It is to be set before there are captures.
func (s *Store) TellLosses(f func(Loss)) { s.tellLoss = f }

// TellDrops has f called when [Capture.Drops] are to be saved, on the goroutine that drops, and not again before [Capture.DropsSaved]. f must not block. It
// is to be set before there are captures.
func (s *Store) TellDrops(f func(*Capture)) { s.tellDrops = f }

// A RunBegin tells where in a log the output of a run begins, where the log itself doesn't tell.
type RunBegin struct {
	Program, Instance, Run string
	Stream                 Stream // in whose log
	At                     Cursor
}

// TellRuns has f called when a run has printed something for the first time, on the goroutine that writes it. f must not block. It is to be
// called before there are captures.
func (s *Store) TellRuns(f func(RunBegin)) { s.tellRun = f }

// begin makes f, the zero file, one as o has it.
func (s *Store) begin(f *file, o *setting) *file {
	f.init(o, s.now, &s.archive)
	s.paths.add(&f.chain)
	return f
}

// NewCapture returns a capture named name that belongs to scope. Closing the scope closes it: a chunk that is being
// written is finished, then the read end and the file are closed, by whichever goroutine used them last. What is still
// in the FIFO is left there; see [Capture.Drained].
func (s *Store) NewCapture(scope *loop.Scope, name string, o Options) *Capture {
	c := new(Capture)
	c.Open(s, scope, name, o)
	return c
}

// Open makes c, the zero Capture, what [Store.NewCapture] returns: for a capture that is a field of what has that life, and no allocation of its own.
func (c *Capture) Open(s *Store, scope *loop.Scope, name string, o Options) {
	o = o.complete()
	c.store, c.scope, c.name = s, scope, name
	c.own.setting = s.settings.of(o)
	c.options = &c.own.setting
	c.own.stdout.init(c, Stdout)
	c.own.streams[0] = &c.own.stdout
	c.streams = c.own.streams[:]
	if o.Split {
		c.streams = append(c.streams, c.newStream(Stderr))
	}
	c.chooseFiles()
	s.captures.Add(1)
	scope.Adopt(&c.held, c)
}

// Leave tells that the process is about to end, before captures are closed. From then on what the kernel takes back then anyway, at once and by itself, is left
// to it: read ends, and the watches of them. What may be lost, such as an open file or a message of what was lost, is not. To be called on the loop.
func (s *Store) Leave() {
	s.leaving.Store(true)
	s.poller.dismiss()
}

// Wait returns when every capture has let go of its descriptors, which each does once its scope is closed and its last
// write has returned. The error is that of ctx, if that ends first.
func (s *Store) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.captures.Wait()
		s.archive.end()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for captures to end: %w", ctx.Err())
	}
}
