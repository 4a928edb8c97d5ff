// Package segment writes the files of logs, rotates and compresses them, and finds bytes in them.
//
// A [File] is the file that is written to. It belongs to one goroutine. A [Log] has all files of a
// log, the current one and those rotated from it; readers of the log use it as well, so it has
// locks. An [Archive] owns the Logs of all paths and compresses what was rotated, on a goroutine of
// its own. A [Cursor] is a place in a log that stays valid when files are rotated and compressed.
//
// A crash at any instant leaves whole files: each step is one rename, or a file that gets its name
// when it is complete.
package segment

import (
	"math"
	"sync"

	"superd/logs/fslimit"
)

// A Log is the files of a log: it maps each byte of it to a file. The collector adds to it;
// followers only read it.
//
// A byte has a position, which stays the same while the collector uses the path. The current file
// began at 0 when it was first found; files rotated before that have negative positions. A position
// in no segment is that of a byte that no longer exists: its file was pruned, removed or truncated.
type Log struct {
	path    string
	options *Options // how the log is written, and who may own its files; never nil; guarded by mu

	// disk is held while files are renamed or listed. mu alone guards the fields and is never held
	// during a system call.
	disk   *sync.Mutex // shared by all Logs of the path: the field lock of one of them
	lock   sync.Mutex
	paths  *paths // guards users and writes; never changed; nil: not registered
	users  int32
	writes bool          // its file is open, or was
	listed bool          // rotated holds the files of earlier collectors, too; guarded by disk
	absent bool          // the file was looked for and did not exist; guarded by mu
	links  fslimit.Links // in the path

	mu      sync.Mutex
	rotated []rotatedFile // oldest first
	current newestFile    // its identity is zero if there is none yet
	// began is the position of the first byte that this collector wrote; math.MaxInt64 before.
	began int64
	// run is the start of the present run's output; unknown: it began before this collector.
	run        int64
	ended      int64       // end of the output of the newest run that has ended; unknown: none has
	truncation *Truncation // the last one; nil: there was none
}

// Unknown is a position before all others.
const Unknown = math.MinInt64

// New returns the Log of a path, which is in no archive.
func New(path string, o *Options) *Log {
	segs := new(Log)
	segs.init(path, o)
	return segs
}

// init makes segs, which is zero, what [New] returns. It saves an allocation if segs is a field.
func (segs *Log) init(path string, o *Options) {
	segs.path, segs.options, segs.began, segs.run, segs.ended = path, o, math.MaxInt64, Unknown, Unknown
	segs.disk = &segs.lock
}

// AcquireSlot waits for a slot in the file system of the log. It returns nil if stop was closed
// first.
func (segs *Log) AcquireSlot(l *fslimit.Limiter, stop <-chan struct{}) *fslimit.Slot {
	return l.AcquirePath(segs.path, &segs.links, stop)
}

// FileSystem returns the file system of the log, as far as that is known.
func (segs *Log) FileSystem(l *fslimit.Limiter) fslimit.FileSystem {
	return l.FileSystemOf(segs.path, &segs.links)
}

// Path returns the path of the log file.
func (segs *Log) Path() string { return segs.path }

func (segs *Log) location() location {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return location{segs.path, segs.options}
}

// setOptions sets how the log is written from now on, and who may own its files.
func (segs *Log) setOptions(o *Options) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.options = o
}

// paths stores the Logs of each path. A path has several while the archive or a hanging write
// still uses older ones: its program was removed and added again, or its log moved elsewhere and
// back. They share a lock, and changes to files are applied to all of them. Only one of them
// writes.
type paths struct {
	mu       sync.Mutex
	segments []*Log // by path, the newest of each first
	// freed is closed when a Log that was written to is retired; nil: nothing waits for that.
	freed       chan struct{}
	compressing string // path of the compressed file that is being written; "": none
}
