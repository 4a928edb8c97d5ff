package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"superd/internal/failpoint"
)

// An Archive compresses rotated files, and removes the oldest ones when all log files together
// exceed maxTotal. One goroutine does both, on a thread of low priority. Once started, goroutine
// and thread stay: the thread can't return to the reserved ones.
type Archive struct {
	log     *slog.Logger
	running *sync.WaitGroup // counts the goroutine while it has work
	paths   paths           // of all logs

	mu       sync.Mutex
	maxTotal int64 // bytes of all files; 0: no limit
	queue    []compressionJob
	working  bool
	wake     chan struct{} // wakes the goroutine; nil: there is none
}

// Init prepares a, which is zero. It counts its goroutine in running while that has work.
func (a *Archive) Init(log *slog.Logger, running *sync.WaitGroup) { a.log, a.running = log, running }

// A compressionJob is a log with a newly rotated file, or with files that a predecessor rotated.
type compressionJob struct {
	segments    *Log
	compression Compression
}

// SetMaxTotal limits the bytes of all log files together. At each rotation the oldest rotated files
// beyond the limit are removed. 0 is no limit.
func (a *Archive) SetMaxTotal(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.maxTotal = bytes
}

// enqueue queues a log that has one more rotated file.
func (a *Archive) enqueue(t compressionJob) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.compression == "" && a.maxTotal == 0 {
		return
	}
	same := func(other compressionJob) bool { return other.segments == t.segments }
	if i := slices.IndexFunc(a.queue, same); i >= 0 {
		a.queue[i] = t
		return
	}
	a.paths.addUser(t.segments)
	a.queue = append(a.queue, t)
	if a.working {
		return
	}
	a.working = true
	a.running.Add(1)
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
		go a.run(a.wake)
	}
	a.wake <- struct{}{} // does not block: the goroutine has taken the previous token
}

// run runs the queued jobs whenever wake has a token, until wake is closed.
func (a *Archive) run(wake <-chan struct{}) {
	lowerPriority()
	for range wake {
		a.runJobs()
		a.running.Done()
	}
}

// Idle reports whether there is nothing to do.
func (a *Archive) Idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.working
}

// Logs returns all logs; of several with one path, the newest.
func (a *Archive) Logs() []*Log { return a.paths.all() }

// Stop ends the goroutine if it has nothing to do.
func (a *Archive) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake != nil && !a.working {
		close(a.wake)
		a.wake = nil
	}
}

func (a *Archive) runJobs() {
	for {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.working = false
			a.mu.Unlock()
			return
		}
		next := a.queue[0]
		a.queue = a.queue[1:]
		maxTotal := a.maxTotal
		a.mu.Unlock()

		var err error
		if next.compression != "" {
			err = next.segments.CompressAll(next.compression)
		}
		if maxTotal > 0 {
			err = errors.Join(err, a.prune(maxTotal))
		}
		if err != nil {
			a.log.Warn("rotated log files not compressed or removed", "path", next.segments.path, "error", err)
		}
		a.paths.removeUser(next.segments)
	}
}

// prune removes the oldest rotated files until all files together have at most maxTotal bytes.
func (a *Archive) prune(maxTotal int64) error {
	type old struct {
		*Log
		rotatedFile
	}
	var errs []error
	var all []old
	var l Listing
	total := int64(0)
	for _, segs := range a.Logs() {
		errs = append(errs, segs.List(&l))
		rotated, current := segs.files()
		total += current
		for _, r := range rotated {
			total += r.size
			all = append(all, old{segs, r})
		}
	}
	slices.SortFunc(all, func(a, b old) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.path, b.path))
	})
	for _, o := range all {
		if total <= maxTotal {
			break
		}
		total -= o.size
		errs = append(errs, o.removeRotated(o.rotatedFile))
	}
	return errors.Join(errs...)
}

func (segs *Log) removeRotated(r rotatedFile) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	r, ok := segs.find(r.stamp) // it may have been compressed
	if !ok {
		return nil
	}
	segs.each(func(segs *Log) { segs.forget(r.stamp) })
	return segs.location().remove(r.Suffix())
}

// CompressAll compresses the uncompressed rotated files, oldest first.
func (segs *Log) CompressAll(c Compression) error {
	errs := []error{segs.List(nil)}
	rotated, _ := segs.files()
	for _, r := range rotated {
		if r.compression == "" {
			errs = append(errs, segs.compress(r, c))
		}
	}
	return errors.Join(errs...)
}

// compress replaces a rotated file by a compressed one. The compressed file gets its name once it
// is on the disk. Only then the plain one is removed. So one of the two is complete whenever superd
// is killed.
func (segs *Log) compress(r rotatedFile, c Compression) (err error) {
	at := segs.location()
	dir, base, err := at.Locate()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed with its directory
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	from := r.stamp.Name(base)
	to := from + c.Suffix()
	unfinished := to + unfinishedSuffix
	name := r.stamp.Name(segs.path)
	segs.setCompressing(name + c.Suffix() + unfinishedSuffix)
	defer segs.setCompressing("")
	file, info, err := at.openReadIn(dir, from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if info.mostlyHoles() {
		return nil
	}
	packed, err := at.createIn(dir, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIn(dir, unfinished))
		}
	}()
	if err := copyOwnership(packed, info); err != nil {
		packed.Close()
		return err
	}
	err = c.compress(packed, file, info.size)
	failpoint.Here("compress.written")
	if err == nil {
		err = packed.Sync()
	}
	r.compression = c
	if r.size, err = closeSized(packed, err); err != nil {
		return fmt.Errorf("compress %s: %w", name, err)
	}

	segs.disk.Lock()
	defer segs.disk.Unlock()
	if _, ok := segs.find(r.stamp); !ok {
		return removeIn(dir, unfinished) // pruned meanwhile
	}
	if err := dir.RenameNew(unfinished, to); err != nil {
		return err
	}
	failpoint.Here("compress.renamed")
	segs.each(func(segs *Log) { segs.replace(r) })
	return removeIn(dir, from)
}

// mostlyHoles reports whether a file is much larger than the space that it takes on the disk.
// Compression would gain nothing and could take hours. If the file system reports the space late,
// the file is compressed at a later rotation. A file that the file system itself compresses well is
// never compressed.
func (i Info) mostlyHoles() bool {
	const least, times = 1 << 20, 16
	return i.size > least && i.size/times > i.allocated
}

func copyOwnership(to *os.File, want Info) error {
	have, err := StatFD(int(to.Fd()))
	if err != nil {
		return err
	}
	if have.uid != want.uid || have.gid != want.gid {
		if err := changeOwner(int(to.Fd()), want.uid, want.gid); err != nil {
			return err
		}
	}
	if have.mode != want.mode {
		return changeMode(int(to.Fd()), want.mode)
	}
	return nil
}

// closeSized closes a file that was written, and returns its size. err is the error of the writing.
func closeSized(file *os.File, err error) (int64, error) {
	info, serr := file.Stat()
	err = errors.Join(err, serr, file.Close())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
