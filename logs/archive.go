package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"superd/crashpoint"
)

// An archive is what happens to rotated files: they are compressed, and removed when all of them together are too many. One
// goroutine does it, on a thread of low priority. Both are kept from the first time that there is something to do: the thread would not come back
// to those that are reserved.
type archive struct {
	store *Store

	mu       sync.Mutex
	maxTotal int64 // bytes of all files; 0: no bound
	waiting  []task
	working  bool
	wake     chan struct{} // the goroutine waits there; nil: there is none
}

// A task is a chain that has a newly rotated file, or may have some of an earlier superd.
type task struct {
	chain       *chain
	compression Compression
}

// SetMaxTotal bounds the bytes of all log files of captures together: at each rotation, the oldest rotated ones beyond are
// removed. 0 is no bound.
func (s *Store) SetMaxTotal(bytes int64) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	s.archive.maxTotal = bytes
}

// rotated has the worker look at a chain that has one more rotated file.
func (a *archive) rotated(t task) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.compression == "" && a.maxTotal == 0 {
		return
	}
	same := func(other task) bool { return other.chain == t.chain }
	if i := slices.IndexFunc(a.waiting, same); i >= 0 {
		a.waiting[i] = t
		return
	}
	a.store.paths.keep(t.chain)
	a.waiting = append(a.waiting, t)
	if a.working {
		return
	}
	a.working = true
	a.store.captures.Add(1)
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
		go a.run(a.wake)
	}
	a.wake <- struct{}{} // there is room: it has taken the one before
}

// run works whenever there is something to do, until wake is closed.
func (a *archive) run(wake <-chan struct{}) {
	lowerPriority()
	for range wake {
		a.work()
		a.store.captures.Done()
	}
}

// end ends the goroutine if it has nothing to do.
func (a *archive) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake != nil && !a.working {
		close(a.wake)
		a.wake = nil
	}
}

// work does what is to be done.
func (a *archive) work() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.working = false
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		maxTotal := a.maxTotal
		a.mu.Unlock()

		var err error
		if next.compression != "" {
			err = next.chain.compressAll(next.compression)
		}
		if maxTotal > 0 {
			err = errors.Join(err, a.prune(maxTotal))
		}
		if err != nil {
			a.store.log.Warn("rotated log files are not kept as they should be", "path", next.chain.path, "error", err)
		}
		a.store.paths.leave(next.chain)
	}
}

// prune removes the oldest rotated files until all files together have at most that many bytes.
func (a *archive) prune(maxTotal int64) error {
	type old struct {
		*chain
		rotatedFile
	}
	var errs []error
	var all []old
	var l listing
	total := int64(0)
	for _, ch := range a.store.paths.all() {
		errs = append(errs, ch.list(&l))
		rotated, current := ch.files()
		total += current
		for _, r := range rotated {
			total += r.size
			all = append(all, old{ch, r})
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
		errs = append(errs, o.drop(o.rotatedFile))
	}
	return errors.Join(errs...)
}

// files returns the rotated files, oldest first, and the size of the newest one.
func (ch *chain) files() (rotated []rotatedFile, current int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return slices.Clone(ch.rotated), ch.current.end - ch.current.start
}

// drop removes a rotated file.
func (ch *chain) drop(r rotatedFile) error {
	ch.disk.Lock()
	defer ch.disk.Unlock()
	r, ok := ch.find(r.stamp) // it may have been compressed
	if !ok {
		return nil
	}
	ch.each(func(ch *chain) { ch.forget(r.stamp) })
	return removeFile(ch.segment(r).name)
}

// find returns the rotated file of that stamp.
func (ch *chain) find(s stamp) (rotatedFile, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	i := slices.IndexFunc(ch.rotated, func(r rotatedFile) bool { return r.stamp == s })
	if i < 0 {
		return rotatedFile{}, false
	}
	return ch.rotated[i], true
}

// compressAll compresses the rotated files that are not, oldest first.
func (ch *chain) compressAll(c Compression) error {
	errs := []error{ch.list(nil)}
	rotated, _ := ch.files()
	for _, r := range rotated {
		if r.compression == "" {
			errs = append(errs, ch.compress(r, c))
		}
	}
	return errors.Join(errs...)
}

// compress has a compressed file take the place of a rotated one. Whenever superd is killed, one of the two is there in whole: the
// compressed one gets its name when it is on the disk, and the other one is removed after that.
func (ch *chain) compress(r rotatedFile, c Compression) (err error) {
	from := ch.segment(r)
	r.compression = c
	to := ch.segment(r)
	unfinished := to.name + unfinishedSuffix
	ch.wrap(unfinished)
	defer ch.wrap("")
	file, err := os.Open(from.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was one too many
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	packed, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeFile(unfinished))
		}
	}()
	if err := inheritRights(packed, file); err != nil {
		packed.Close()
		return err
	}
	err = c.compress(packed, file, info.Size())
	crashpoint.Here("compress.written")
	if err == nil {
		err = packed.Sync()
	}
	if r.size, err = sizeOf(packed, err); err != nil {
		return fmt.Errorf("compress %s: %w", from.name, err)
	}

	ch.disk.Lock()
	defer ch.disk.Unlock()
	if _, ok := ch.find(r.stamp); !ok {
		return removeFile(unfinished) // it has become one too many
	}
	if err := renameNew(unfinished, to.name); err != nil {
		return err
	}
	crashpoint.Here("compress.renamed")
	ch.each(func(ch *chain) { ch.replace(r) })
	return removeFile(from.name)
}

// inheritRights gives a file the owners and the mode of another one.
func inheritRights(to, from *os.File) error {
	want, err := statFD(int(from.Fd()))
	if err != nil {
		return err
	}
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

// sizeOf closes a file that was written, perhaps with an error, and returns its size.
func sizeOf(file *os.File, err error) (int64, error) {
	info, serr := file.Stat()
	err = errors.Join(err, serr, file.Close())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// replace notes what a rotated file is now. Its positions are those that this chain has for it.
func (ch *chain) replace(by rotatedFile) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i := range ch.rotated {
		if r := &ch.rotated[i]; r.stamp == by.stamp {
			r.compression, r.size = by.compression, by.size
		}
	}
}

// removeFile removes a file that may be gone already.
func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
