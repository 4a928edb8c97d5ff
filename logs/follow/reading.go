package follow

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

	"superd/logs/frame"
	"superd/logs/pipe"
	"superd/logs/segment"
)

const (
	readingBytes = 4 << 20 // approximate memory of a reading for all its logs
	leastRead    = 4 << 10 // bytes read at a time, at least
	MaxOpen      = 64      // open files of a reading: those most recently read from
)

// A Reading returns lines of several logs in the order of their times: those that exist, then new
// ones. A line without a time has that of its file, or at which it came while the reading followed.
// It reads files on the goroutine of its caller, which may be slow.
type Reading struct {
	ctx         context.Context
	query       Query
	buffer      []byte
	sources     map[Log]*source
	cancels     map[Log]func()
	ready       sourceHeap
	returned    *source   // the source of the entry returned last
	openSources []*source // sources with an open file, the most recently read one last
	direct      bool      // a program writes into its file itself
	order       int

	checkScheduled, checkDue atomic.Bool // of the sources with Direct

	mu     sync.Mutex
	due    []*source        // sources that may have more
	queued map[*source]bool // those in due
	wake   chan struct{}
}

// An Input is a log that a reading includes.
type Input struct {
	Log    Log
	Resume *segment.Cursor // continue here; nil: by the query
	// FromStart shows all that the present writer has written, as the reading began before it.
	FromStart bool
	Span      *Span // show only this run; nil: any
}

// NewReading returns a reading without logs. ctx ends it.
func NewReading(ctx context.Context, q Query) *Reading {
	return &Reading{ctx: ctx, query: q, buffer: make([]byte, pipe.ChunkBytes), sources: map[Log]*source{}, cancels: map[Log]func(){},
		queued: map[*source]bool{}, wake: make(chan struct{}, 1)}
}

// Set makes the reading include exactly these logs. What the others have gained so far is still
// returned.
func (r *Reading) Set(all []Input) error {
	chunk := max(leastRead, min(pipe.ChunkBytes, readingBytes/max(len(all), 1)))
	included := make(map[Log]bool, len(all))
	var l segment.Listing
	for _, w := range all {
		from := w.Log
		included[from] = true
		if r.sources[from] != nil {
			continue
		}
		s := &source{query: &r.query, span: w.Span, literals: newLiteralSearch(r.query.Grep)}
		s.follower = follower{ctx: r.ctx, log: w.Log, readers: w.Log.Readers(), w: s, buffer: r.buffer[:chunk], lineEnded: true, listing: &l}
		r.sources[from] = s
		if r.query.Follow {
			s.arrivals = new(arrivals)
			r.cancels[from] = w.Log.Notify(func() { s.recordArrival(); r.enqueue(s) })
		}
		if err := s.seekStart(startPoint{w.Resume, w.FromStart}); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		s.listing = nil
		r.enqueue(s)
	}
	for c := range r.sources {
		if !included[c] {
			r.enqueue(r.sources[c])
			r.removeSource(c)
		}
	}
	return nil
}

func (r *Reading) removeSource(l Log) {
	if cancel := r.cancels[l]; cancel != nil {
		cancel()
		delete(r.cancels, l)
	}
	delete(r.sources, l)
}

// Close closes all files.
func (r *Reading) Close() {
	for c, s := range r.sources {
		r.removeSource(c)
		s.closeFile()
	}
	for _, s := range r.openSources {
		s.closeFile()
	}
}

// enqueue queues a source for another attempt to read. Safe for concurrent use.
func (r *Reading) enqueue(s *source) {
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
	if s := r.returned; s != nil {
		r.returned, s.ready = nil, false
		if err := r.advance(s); err != nil {
			return nil, err
		}
	}
	if r.checkDue.Swap(false) {
		for _, s := range r.sources {
			if s.segments.OutputEnd().Format == frame.Direct {
				r.enqueue(s)
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
			if !s.queued {
				r.pushReady(s)
			}
			continue
		}
		if err := r.advance(s); err != nil {
			return nil, err
		}
	}
	if len(r.ready.all) == 0 {
		r.scheduleCheck()
		return nil, nil
	}
	s := order.Pop(&r.ready).(*source)
	s.queued = false
	r.returned = s
	return &s.entry, nil
}

// advance makes a source prepare its next entry.
func (r *Reading) advance(s *source) error {
	ok, err := s.next()
	r.limitOpen(s)
	if err != nil {
		return err
	}
	if ok {
		r.pushReady(s)
	} else if s.finished {
		r.removeSource(s.log)
	}
	r.direct = r.direct || s.segments.OutputEnd().Format == frame.Direct
	return nil
}

// limitOpen records that s was read last, and closes the least recently read file beyond MaxOpen.
// It closes the file of a source that is finished.
func (r *Reading) limitOpen(s *source) {
	n := len(r.openSources)
	if n > 0 && r.openSources[n-1] == s && s.follower.file != nil && !s.finished {
		return
	}
	if i := slices.Index(r.openSources, s); i >= 0 {
		r.openSources = slices.Delete(r.openSources, i, i+1)
	}
	if s.finished {
		s.closeFile()
	}
	if s.follower.file == nil {
		return
	}
	if r.openSources = append(r.openSources, s); len(r.openSources) > MaxOpen {
		r.openSources[0].closeFile()
		r.openSources = slices.Delete(r.openSources, 0, 1)
	}
}

func (r *Reading) pushReady(s *source) {
	if s.order == 0 {
		r.order++
		s.order = r.order
	}
	s.queued = true
	order.Push(&r.ready, s)
}

// Wake returns a channel that receives when there may be more entries.
func (r *Reading) Wake() <-chan struct{} { return r.wake }

// scheduleCheck schedules a check of files that programs write themselves.
func (r *Reading) scheduleCheck() {
	if !r.direct || !r.query.Follow || !r.checkScheduled.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(directPoll, func() {
		r.checkScheduled.Store(false)
		r.checkDue.Store(true)
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
