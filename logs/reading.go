package logs

import (
	"cmp"
	order "container/heap"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	readingBytes = 4 << 20 // approximate memory of a reading for all its collectors
	leastRead    = 4 << 10 // bytes read at a time, at least
	maxOpen      = 64      // open files of a reading: those most recently read from
)

// A Reading returns lines of several collectors: those that exist in the order of their times, then
// new ones. Output without times counts as old as its file. It reads files on the goroutine of its
// caller, which may be slow.
type Reading struct {
	ctx     context.Context
	query   Query
	buffer  []byte
	sources map[origin]*source
	cancels map[origin]func()
	ready   sourceHeap
	given   *source   // source of the entry returned last
	open    []*source // sources with an open file, the most recently read one last
	direct  bool      // a program writes into its file itself
	order   int

	looks, lookDue atomic.Bool // check the Direct sources soon, now

	mu     sync.Mutex
	due    []*source        // may have more
	queued map[*source]bool // those in due
	wake   chan struct{}
}

// A Wanted is a collector that a reading includes.
type Wanted struct {
	Collector *Collector
	Stream    Stream  // Stderr for standard error's own file
	Resume    *Cursor // continue after this place; nil: by the query
	Fresh     bool    // show all that this collector has written, as it is newer than the reading
	Span      *Span   // show only this run; nil: any
}

type origin struct {
	*Collector
	Stream
}

// NewReading returns a reading without collectors. ctx ends it.
func NewReading(ctx context.Context, q Query) *Reading {
	return &Reading{ctx: ctx, query: q, buffer: make([]byte, chunkBytes), sources: map[origin]*source{}, cancels: map[origin]func(){},
		queued: map[*source]bool{}, wake: make(chan struct{}, 1)}
}

// Set makes the reading include exactly these collectors. What the others have written so far is
// still returned.
func (r *Reading) Set(all []Wanted) error {
	chunk := max(leastRead, min(chunkBytes, readingBytes/max(len(all), 1)))
	wanted := make(map[origin]bool, len(all))
	var l listing
	for _, w := range all {
		from := origin{w.Collector, w.Stream}
		wanted[from] = true
		if r.sources[from] != nil {
			continue
		}
		s := &source{query: &r.query, span: w.Span}
		s.follower = follower{ctx: r.ctx, readers: &w.Collector.store.readers, collector: w.Collector, which: w.Stream, w: s, buffer: r.buffer[:chunk], lineEnded: true, listing: &l}
		r.sources[from] = s
		if r.query.Follow {
			r.cancels[from] = w.Collector.Notify(func() { r.look(s) })
		}
		if err := s.place(beginning{w.Resume, w.Fresh}); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		s.listing = nil
		r.look(s)
	}
	for c := range r.sources {
		if !wanted[c] {
			r.look(r.sources[c])
			r.leave(c)
		}
	}
	return nil
}

func (r *Reading) leave(c origin) {
	if cancel := r.cancels[c]; cancel != nil {
		cancel()
		delete(r.cancels, c)
	}
	delete(r.sources, c)
}

// Close closes all files.
func (r *Reading) Close() {
	for c, s := range r.sources {
		r.leave(c)
		s.leave()
	}
	for _, s := range r.open {
		s.leave()
	}
}

// look queues a source to be asked again. Safe for concurrent use.
func (r *Reading) look(s *source) {
	r.mu.Lock()
	if !r.queued[s] {
		r.queued[s] = true
		r.due = append(r.due, s)
	}
	r.mu.Unlock()
	r.wakeUp()
}

func (r *Reading) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Next returns the next entry, nil if there is none now; without Query.Follow that is the end. The
// entry is valid until the next call.
func (r *Reading) Next() (*Entry, error) {
	if s := r.given; s != nil {
		r.given, s.ready = nil, false
		if err := r.ask(s); err != nil {
			return nil, err
		}
	}
	if r.lookDue.Swap(false) {
		for _, s := range r.sources {
			if s.segments.newest().format == Direct {
				r.look(s)
			}
		}
	}
	r.mu.Lock()
	due := r.due
	r.due = nil
	for _, s := range due {
		delete(r.queued, s)
	}
	r.mu.Unlock()
	for _, s := range due {
		if s.ready {
			if !s.entered {
				r.enter(s)
			}
			continue
		}
		if err := r.ask(s); err != nil {
			return nil, err
		}
	}
	if len(r.ready.all) == 0 {
		r.lookLater()
		return nil, nil
	}
	s := order.Pop(&r.ready).(*source)
	s.entered = false
	r.given = s
	return &s.entry, nil
}

// ask makes a source prepare its next entry.
func (r *Reading) ask(s *source) error {
	ok, err := s.next()
	r.keepOpen(s)
	if err != nil {
		return err
	}
	if ok {
		r.enter(s)
	} else if s.over {
		r.leave(origin{s.collector, s.which})
	}
	r.direct = r.direct || s.segments.newest().format == Direct
	return nil
}

// keepOpen leaves the file of the source just asked open, unless the source is over. It closes the
// least recently read file beyond maxOpen.
func (r *Reading) keepOpen(s *source) {
	if i := slices.Index(r.open, s); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	if s.over {
		s.leave()
	}
	if s.follower.open == nil {
		return
	}
	if r.open = append(r.open, s); len(r.open) > maxOpen {
		r.open[0].leave()
		r.open = slices.Delete(r.open, 0, 1)
	}
}

func (r *Reading) enter(s *source) {
	if s.order == 0 {
		r.order++
		s.order = r.order
	}
	s.entered = true
	order.Push(&r.ready, s)
}

// Wake returns a channel that receives when there may be more.
func (r *Reading) Wake() <-chan struct{} { return r.wake }

// lookLater schedules a check of files that programs write themselves.
func (r *Reading) lookLater() {
	if !r.direct || !r.query.Follow || !r.looks.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(directLook, func() {
		r.looks.Store(false)
		r.lookDue.Store(true)
		r.wakeUp()
	})
}

// A sourceHeap has the source with the oldest entry on top, as far as times are known.
type sourceHeap struct{ all []*source }

func (h *sourceHeap) Len() int      { return len(h.all) }
func (h *sourceHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *sourceHeap) Push(x any)    { h.all = append(h.all, x.(*source)) }
func (h *sourceHeap) Less(i, j int) bool {
	a, b := h.all[i], h.all[j]
	return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.order, b.order)) < 0
}

func (h *sourceHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = slices.Delete(h.all, len(h.all)-1, len(h.all))
	return last
}
