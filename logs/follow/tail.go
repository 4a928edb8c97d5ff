package follow

import (
	"context"
	"io"
	"sync"
	"time"

	"superd/internal/workers"
)

const (
	maxShowing = 16      // tails that show at a time; each has a buffer meanwhile
	tailTurn   = 1 << 20 // bytes that a tail shows before it lets others show
)

// Tails show logs from the first byte that their present writers have written, as they grow. A tail
// has a goroutine and a buffer only while there is something to show.
type Tails struct {
	pool    workers.Pool
	showing workers.Job
}

// NewTails returns Tails without any.
func NewTails() *Tails { return &Tails{pool: workers.Pool{Limit: maxShowing}} }

// Wait waits until all is shown that has been written. Logs whose writer is not closed may grow
// afterwards.
func (t *Tails) Wait() { t.showing.Wait() }

// A LineWriter is a writer of output that shows whole lines.
type LineWriter interface {
	io.Writer
	EndLine() error // shows what it has of a line that will get no end
}

// A tail shows one log. After an error, such as that of a closed terminal, it shows no more: the
// output is in the log.
type tail struct {
	all      *Tails
	follower follower
	begun    bool        // the position is set
	poll     *time.Timer // nil: not used yet

	mu      sync.Mutex
	running bool // it shows, or will soon
	grown   bool // since it began to show
	ended   bool
}

// Add shows a log on w, from now until its writer is closed. It does not block.
func (t *Tails) Add(l Log, w LineWriter) {
	segs, _ := l.Segments()
	one := &tail{all: t, follower: follower{
		ctx: context.Background(), log: l, readers: l.Readers(), w: w, lines: w, pools: true, lineEnded: true,
		segments: segs, truncation: segs.LastTruncation(),
	}}
	l.Notify(one.grow)
	one.grow()
}

// grow makes the tail show what is new.
func (t *tail) grow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grown = true
	if !t.running && !t.ended {
		t.running = true
		t.all.showing.Begin(&t.all.pool, t.run)
	}
}

// run shows what is new, at most tailTurn bytes.
func (t *tail) run() {
	t.mu.Lock()
	t.grown = false
	t.mu.Unlock()
	more, final, err := t.show()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = final || err != nil
	if t.running = (more || t.grown) && !t.ended; t.running {
		t.all.showing.Begin(&t.all.pool, t.run)
	}
}

// show shows what there is by now, at most tailTurn bytes. more reports that there may be more,
// final that there never will be.
func (t *tail) show() (more, final bool, err error) {
	f := &t.follower
	defer f.putBuffer()
	if !t.begun {
		if err := f.read(func() error { f.segments.Refresh(); return nil }); err != nil {
			return false, false, err
		}
		f.position, t.begun = f.segments.First(), true
	}
	more = true
	for end := f.position + tailTurn; more && err == nil && f.position < end; {
		more, final, err = f.step(noEnd, true)
	}
	if final {
		err = f.endLine()
	}
	switch {
	case final || err != nil:
		f.closeFile()
	case f.direct():
		t.growLater()
	}
	return more, final, err
}

// growLater checks again after a while, as a program does not report what it writes itself.
func (t *tail) growLater() {
	if t.poll == nil {
		t.poll = time.AfterFunc(directPoll, t.grow)
	} else {
		t.poll.Reset(directPoll)
	}
}
