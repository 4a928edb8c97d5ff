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
	readingBytes = 4 << 20 // what a reading may hold of all its captures together, about
	leastRead    = 4 << 10 // read at a time
	maxOpen      = 64      // files that a reading has open at a time: those that it has read from last
)

// A Reading gives lines of several captures: those that are there in the order of their times, then those that come. Output whose times
// nobody knows counts as old as its file. It reads files, in the goroutine of its caller, who may be as slow as he likes.
type Reading struct {
	ctx     context.Context
	query   Query
	buffer  []byte
	sources map[origin]*source
	cancels map[origin]func()
	ready   sourceHeap
	given   *source   // whose entry was given last
	open    []*source // that have a file open: the one that was read from last comes last
	direct  bool      // some program writes into its file itself
	order   int

	looks, lookDue atomic.Bool // those are looked at soon, now

	mu     sync.Mutex
	due    []*source        // that may have more
	queued map[*source]bool // they are in due
	wake   chan struct{}
}

// A Wanted is a capture that a reading is to include.
type Wanted struct {
	Capture *Capture
	Stream  Stream  // whose log it is: Stderr where that has a file of its own
	Resume  *Cursor // goes on after this place, where somebody has read so far
	Fresh   bool    // with all that this capture has brought, since it was not there when the reading began
	Span    *Span   // nothing but this run; nil: any
}

// An origin is where entries come from.
type origin struct {
	*Capture
	Stream
}

// NewReading returns a reading that has nothing to read yet. ctx ends it.
func NewReading(ctx context.Context, q Query) *Reading {
	return &Reading{ctx: ctx, query: q, buffer: make([]byte, chunkBytes), sources: map[origin]*source{}, cancels: map[origin]func(){},
		queued: map[*source]bool{}, wake: make(chan struct{}, 1)}
}

// Set has the reading include exactly these captures. What the others have brought so far is still given.
func (r *Reading) Set(all []Wanted) error {
	chunk := max(leastRead, min(chunkBytes, readingBytes/max(len(all), 1)))
	wanted := make(map[origin]bool, len(all))
	var l listing
	for _, w := range all {
		from := origin{w.Capture, w.Stream}
		wanted[from] = true
		if r.sources[from] != nil {
			continue
		}
		s := &source{query: &r.query, span: w.Span}
		s.follower = follower{ctx: r.ctx, readers: &w.Capture.store.readers, capture: w.Capture, which: w.Stream, w: s, buffer: r.buffer[:chunk], lineEnded: true, listing: &l}
		r.sources[from] = s
		if r.query.Follow {
			r.cancels[from] = w.Capture.Notify(func() { r.look(s) })
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

// leave is told no more of a capture.
func (r *Reading) leave(c origin) {
	if cancel := r.cancels[c]; cancel != nil {
		cancel()
		delete(r.cancels, c)
	}
	delete(r.sources, c)
}

// Close lets go of all files.
func (r *Reading) Close() {
	for c, s := range r.sources {
		r.leave(c)
		s.leave()
	}
	for _, s := range r.open {
		s.leave()
	}
}

// look has a source be asked again. From any goroutine.
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

// Next returns the next entry, nil when there is none now; without Query.Follow that is the end. The entry is good until the next call.
func (r *Reading) Next() (*Entry, error) {
	if s := r.given; s != nil {
		r.given, s.ready = nil, false
		if err := r.ask(s); err != nil {
			return nil, err
		}
	}
	if r.lookDue.Swap(false) {
		for _, s := range r.sources {
			if s.chain.newest().format == Direct {
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

// ask has a source make its next entry.
func (r *Reading) ask(s *source) error {
	ok, err := s.next()
	r.keepOpen(s)
	if err != nil {
		return err
	}
	if ok {
		r.enter(s)
	} else if s.over {
		r.leave(origin{s.capture, s.which})
	}
	r.direct = r.direct || s.chain.newest().format == Direct
	return nil
}

// keepOpen has the file of a source stay open that was just asked, unless nothing is left of it to give, in the place of the one that was
// read from longest ago.
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

// Wake returns what tells that there may be more.
func (r *Reading) Wake() <-chan struct{} { return r.wake }

// lookLater has the programs looked at that write into their files themselves.
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

// A sourceHeap has the source on top whose entry is the oldest, as far as is known.
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
