package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"superd/internal/failpoint"
)

// An archive compresses rotated files, and removes the oldest ones when all log files together
// exceed maxTotal. One goroutine does both, on a thread of low priority. Once started, goroutine
// and thread stay: the thread can't return to the reserved ones.
type archive struct {
	store *Store

	mu       sync.Mutex
	maxTotal int64 // bytes of all files; 0: no limit
	queue    []compressionJob
	working  bool
	wake     chan struct{} // wakes the goroutine; nil: there is none
}

// A compressionJob is a log with a newly rotated file, or with files that a predecessor rotated.
type compressionJob struct {
	segments    *segments
	compression Compression
}

// SetMaxTotal limits the bytes of all log files of collectors together. At each rotation the oldest
// rotated files beyond the limit are removed. 0 is no limit.
func (s *Store) SetMaxTotal(bytes int64) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	s.archive.maxTotal = bytes
}

// enqueue queues a log that has one more rotated file.
func (a *archive) enqueue(t compressionJob) {
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
	a.store.paths.addUser(t.segments)
	a.queue = append(a.queue, t)
	if a.working {
		return
	}
	a.working = true
	a.store.collectors.Add(1)
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
		go a.run(a.wake)
	}
	a.wake <- struct{}{} // does not block: the goroutine has taken the previous token
}

// run runs the queued jobs whenever wake has a token, until wake is closed.
func (a *archive) run(wake <-chan struct{}) {
	lowerPriority()
	for range wake {
		a.runJobs()
		a.store.collectors.Done()
	}
}

// stop ends the goroutine if it has nothing to do.
func (a *archive) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake != nil && !a.working {
		close(a.wake)
		a.wake = nil
	}
}

func (a *archive) runJobs() {
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
			err = next.segments.compressAll(next.compression)
		}
		if maxTotal > 0 {
			err = errors.Join(err, a.prune(maxTotal))
		}
		if err != nil {
			a.store.log.Warn("rotated log files not compressed or removed", "path", next.segments.path, "error", err)
		}
		a.store.paths.removeUser(next.segments)
	}
}

// prune removes the oldest rotated files until all files together have at most maxTotal bytes.
func (a *archive) prune(maxTotal int64) error {
	type old struct {
		*segments
		rotatedFile
	}
	var errs []error
	var all []old
	var l listing
	total := int64(0)
	for _, segs := range a.store.paths.all() {
		errs = append(errs, segs.list(&l))
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

// files returns the rotated files, oldest first, and how many bytes the current file has on the
// disk.
func (segs *segments) files() (rotated []rotatedFile, current int64) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	return slices.Clone(segs.rotated), segs.current.onDisk()
}

func (segs *segments) removeRotated(r rotatedFile) error {
	segs.disk.Lock()
	defer segs.disk.Unlock()
	r, ok := segs.find(r.stamp) // it may have been compressed
	if !ok {
		return nil
	}
	segs.each(func(segs *segments) { segs.forget(r.stamp) })
	return segs.location().remove(r.suffix())
}

func (segs *segments) find(s stamp) (rotatedFile, bool) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	i := slices.IndexFunc(segs.rotated, func(r rotatedFile) bool { return r.stamp == s })
	if i < 0 {
		return rotatedFile{}, false
	}
	return segs.rotated[i], true
}

// compressAll compresses the uncompressed rotated files, oldest first.
func (segs *segments) compressAll(c Compression) error {
	errs := []error{segs.list(nil)}
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
func (segs *segments) compress(r rotatedFile, c Compression) (err error) {
	at := segs.location()
	dir, base, err := at.locate()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed with its directory
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	from := r.stamp.name(base)
	to := from + c.suffix()
	unfinished := to + unfinishedSuffix
	name := r.stamp.name(segs.path)
	segs.setCompressing(name + c.suffix() + unfinishedSuffix)
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
	segs.each(func(segs *segments) { segs.replace(r) })
	return removeIn(dir, from)
}

// mostlyHoles reports whether a file is much larger than the space that it takes on the disk.
// Compression would gain nothing and could take hours. If the file system reports the space late,
// the file is compressed at a later rotation. A file that the file system itself compresses well is
// never compressed.
func (i fileInfo) mostlyHoles() bool {
	const least, times = 1 << 20, 16
	return i.size > least && i.size/times > i.allocated
}

func copyOwnership(to *os.File, want fileInfo) error {
	have, err := statFD(int(to.Fd()))
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

// replace updates compression and size of a rotated file. Its positions stay, as they are those of
// segs.
func (segs *segments) replace(by rotatedFile) {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	for i := range segs.rotated {
		if r := &segs.rotated[i]; r.stamp == by.stamp {
			r.compression, r.size = by.compression, by.size
		}
	}
}
