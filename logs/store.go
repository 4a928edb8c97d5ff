// Package logs moves the output of programs into their log files, byte for byte, and reads it back.
//
// A program writes to a FIFO ([MakeFIFO], [OpenWriter]). A [Collector] owns the read end of the
// FIFO, the log file and the files rotated from it. It lives on the loop, but the loop does not
// handle the bytes. Goroutines of a [Store] wait for output; the one that gets an event moves bytes
// until the FIFO is empty. A quiet collector has no goroutine and no buffer.
//
// Bytes go from pipe to file inside the kernel (splice(2)), so each is in one of the two whenever
// superd is killed. They are examined only near the size at which a file is rotated. With a
// [Format] other than raw they are peeked at, written as records and only then taken out of the
// pipe. A crash in between repeats what was in flight and loses nothing.
//
// The [Store] limits these goroutines by slots. Each file system has slots of its own. So one that
// stalls blocks only the programs that log there; their output waits in their FIFOs.
//
// Readers of output read the files, never the FIFO, and never on the loop: [Collector.Follow],
// [LastLines], [Collector.Tail]. A slow reader blocks nothing.
package logs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"superd/internal/mounts"
	"superd/loop"
)

const (
	chunkBytes = 64 << 10 // searched for line ends, and copied if necessary, at a time
	turnBytes  = 1 << 20  // moved before the slot is released
	// busyPipe is the capacity in bytes of a pipe that a program has filled for a turn.
	busyPipe = 256 << 10
)

// A program that has printed busyBytes is busy. A goroutine waits lingerTime for more from it. At
// most maxWaitingForProgram goroutines do so at a time, each with a thread.
const (
	busyBytes            = 16 << 10
	lingerTime           = 2 * time.Millisecond
	maxWaitingForProgram = 4
)

// partialTimeout is how long superd waits for the rest of a line. After that the part that is there
// becomes a record.
const partialTimeout = 200 * time.Millisecond

// partialPoll is how often the pipe is checked for the rest of a line while another log can't be
// written.
const partialPoll = 10 * time.Millisecond

// Options are where the output of a program goes, and how.
type Options struct {
	Program string // its name, for records
	Path    string // log file; the first write makes it and its directory

	Sink Sink // where the output goes instead of a file
	// Address of journald or syslog is the path of a datagram socket, udp://HOST:PORT or
	// tcp://HOST:PORT; "" is the usual one. That of a logger is the path of its FIFO.
	Address    string
	Identifier string // name of the program there; "": Program
	Facility   int    // of syslog; 0 to 23
	host       string // name of this machine, for syslog

	// User of the program, by name or number; "" is superd's. Files in a directory where this user
	// may write may belong to the user.
	User string

	// The file's owners, by name or number, and its mode; "" and 0: superd's own, and 0640.
	Owner, Group string

	// With Split the program has another FIFO for standard error. Its output goes into the file
	// StderrPath, or into that of standard output if StderrPath is empty.
	StderrPath string

	Format Format // "" is raw

	// The file is rotated before it exceeds MaxSize bytes (0: never), and when output comes and it
	// is MaxAge old (0: never).
	MaxSize int64
	MaxAge  time.Duration

	// The oldest rotated files are removed: those beyond the number Keep, and those by which all of
	// them and a full current one would exceed MaxTotal bytes (0: no limit).
	Keep        int
	MaxTotal    int64
	Compression Compression // of rotated files

	// While the file can't be written, output waits in the program's pipe or, with Drop, is dropped
	// and counted. The file system counts as full when fewer than MinFree bytes are free for all
	// users.
	MinFree int64
	Drop    bool
	Split   bool   // see StderrPath
	Mode    uint32 // see Owner
}

// complete returns o with defaults filled in.
func (o Options) complete() Options {
	if o.Format == "" {
		o.Format = Raw
	}
	switch o.Sink {
	case Journald:
		o.Format = journalFormat
	case Syslog:
		o.Format = syslogFormat
		o.host, _ = os.Hostname() // on an error it stays empty
	case OwnStdout, Command: // the format is the one configured
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

// byLine reports whether output is written by lines instead of bytes. Drop needs that, too, as it
// drops whole lines.
func (o Options) byLine() bool { return o.Format.records() || o.Drop || o.Sink != "" }

// A Store has what collectors share. Its methods are safe for concurrent use.
type Store struct {
	loop              *loop.Loop
	log               *slog.Logger
	slots             slots // of writers
	readers           slots
	lines             lineCache
	lingerTokens      chan struct{} // a token for each goroutine that waits for a busy program
	buffers           sync.Pool     // of *[chunkBytes]byte
	recordBuffers     sync.Pool     // of *recordBench
	poller            poller
	settings          settings
	collectors        sync.WaitGroup // counts collectors and the goroutines that work for them
	exiting           atomic.Bool    // see PrepareExit
	archive           archive
	paths             paths
	transports        transports
	stdout            *sharedOutput
	loggerInputs      loggerInputs
	refused           refusedCalls
	onFirstOutput     func(RunStart)                  // nil: not set
	beforeFirstOutput func(at RunStart, saved func()) // nil: not set
	onDropped         func(DroppedOutput)             // nil: not set
	onUnsavedDrops    func(*Collector)                // nil: not set
	onOutage          func(o Outage, over bool)       // nil: not set
	now               func() time.Time
	// stallTimeout is how long a file operation may take before output is dropped, with Drop.
	stallTimeout time.Duration
	// retryDelay returns the delay before a failed write is tried again; attempt counts from 0.
	retryDelay func(attempt int) time.Duration
}

// NewStore returns a Store for collectors on l. It logs to log when a file can't be written and
// when it can be again.
func NewStore(l *loop.Loop, log *slog.Logger) *Store {
	table := new(mounts.Table)
	s := &Store{
		loop:          l,
		log:           log,
		slots:         newSlots(table, writersPerFileSystem, maxWriters),
		readers:       newSlots(table, readersPerFileSystem, maxReaders),
		lingerTokens:  make(chan struct{}, maxWaitingForProgram),
		lines:         lineCache{lines: make(map[*Collector]cachedLine)},
		buffers:       sync.Pool{New: func() any { return new([chunkBytes]byte) }},
		recordBuffers: sync.Pool{New: func() any { return new(recordBuffer) }},
		now:           time.Now,
		stallTimeout:  time.Second,
		retryDelay:    retryDelay,
	}
	s.poller.collectors, s.poller.maxWorking, s.poller.blockedAfter = &s.collectors, Workers(), blockedAfter
	s.transports.log, s.loggerInputs.log, s.refused.log = log, log, log
	s.transports.now = func() time.Time { return s.now() }
	s.stdout = newSharedOutput(stdoutFD)
	s.archive = archive{store: s}
	return s
}

// A DroppedOutput is output that was dropped, and whose drop record is in the log.
type DroppedOutput struct {
	Program, Instance, Run string
	Text                   string // how much, and why
}

// OnDropped registers f, which is called when a drop record is written, on the goroutine that
// writes. f must not block. OnDropped has to be called before there are collectors.
func (s *Store) OnDropped(f func(DroppedOutput)) { s.onDropped = f }

// OnUnsavedDrops registers f, which is called on the goroutine that drops when [Collector.Drops]
// have to be saved, and not again before [Collector.DropsSaved]. f must not block. OnUnsavedDrops
// has to be called before there are collectors.
func (s *Store) OnUnsavedDrops(f func(*Collector)) { s.onUnsavedDrops = f }

// A RunStart is where in a log the output of a run begins, if the log itself does not record that.
type RunStart struct {
	Program, Instance, Run string
	Stream                 Stream // in whose log
	At                     Cursor
}

// OnFirstOutput registers f, which is called when a run has printed for the first time, on the
// goroutine that writes. f must not block. OnFirstOutput has to be called before there are
// collectors.
func (s *Store) OnFirstOutput(f func(RunStart)) { s.onFirstOutput = f }

// initFile initializes f, which is zero, with the options o.
func (s *Store) initFile(f *file, o *setting) *file {
	f.init(o, s.now, &s.archive)
	s.paths.add(&f.segments)
	return f
}

// NewCollector returns a collector named name that belongs to scope. When the scope is closed, a
// chunk that is being written is finished. Then the last goroutine that used the read end and the
// file closes them. What is still in the FIFO stays there; see [Collector.Drained].
func (s *Store) NewCollector(scope *loop.Scope, name string, o Options) *Collector {
	c := new(Collector)
	c.Open(s, scope, name, o)
	return c
}

// Open makes c, which is zero, what [Store.NewCollector] returns. It saves an allocation if c is a
// field.
func (c *Collector) Open(s *Store, scope *loop.Scope, name string, o Options) {
	o = o.complete()
	c.store, c.name = s, name
	c.inline.setting = s.settings.share(o)
	c.options = &c.inline.setting
	c.inline.stdout.init(c, Stdout)
	c.inline.streams[0] = &c.inline.stdout
	c.streams = c.inline.streams[:]
	if o.Split {
		c.streams = append(c.streams, c.newStream(Stderr))
	}
	c.chooseFiles()
	s.collectors.Add(1)
	scope.Adopt(&c.link, c)
}

// PrepareExit announces that the process is about to exit, before collectors are closed. From then
// on the kernel closes read ends and their watches. Open files are still closed, and dropped output
// is still logged. It has to be called on the loop.
func (s *Store) PrepareExit() {
	s.exiting.Store(true)
	s.poller.stop()
}

// Wait returns when every collector has closed its descriptors. Each does so after its scope is
// closed and its last write has returned. If ctx ends first, Wait returns the error of ctx.
func (s *Store) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.collectors.Wait()
		s.archive.stop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for collectors to end: %w", ctx.Err())
	}
}
