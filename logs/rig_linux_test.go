package logs

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"superd/logs/follow"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
	"superd/loop"
)

// testTimeout bounds each wait for something that must come.
const testTimeout = 90 * time.Second

// A rig is a running loop with a store on it.
type rig struct {
	testing.TB
	loop  *loop.Loop
	store *Store
	log   *syncBuffer // the store's log
}

func newRig(t testing.TB) *rig {
	t.Helper()
	t.TempDir() // its clean-up, the first registered, runs last, when there are no writers any more
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, loop: l, log: &syncBuffer{}}
	r.store = NewStore(l, slog.New(slog.NewTextHandler(r.log, nil)))
	r.store.retryDelay = func(attempt int) time.Duration { return retryDelay(attempt) / 100 }
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Post(l.Stop)
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
		r.waitForStore()
	})
	return r
}

// shortenDelays makes a second pass at each query of the time, so that each path is checked before
// each line. It must be called before there are programs.
func (r *rig) shortenDelays() {
	var seconds atomic.Int64
	r.store.now = func() time.Time { return time.Now().Add(time.Duration(seconds.Add(1)) * time.Second) }
}

func (r *rig) waitForStore() {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := r.store.Wait(ctx); err != nil {
		r.Fatal(err)
	}
}

// do runs f on the loop and waits for it.
func (r *rig) do(f func()) {
	done := make(chan struct{})
	r.loop.Post(func() { f(); close(done) })
	r.await(done, "the loop")
}

func (r *rig) await(done <-chan struct{}, what string) {
	r.Helper()
	select {
	case <-done:
	case <-time.After(testTimeout):
		r.Fatalf("waited in vain for %s", what)
	}
}

// poll waits for a condition without an event: it calls ok after each turn of the loop.
func (r *rig) poll(what string, ok func() bool) {
	r.Helper()
	for start := time.Now(); !ok(); {
		if time.Since(start) > testTimeout {
			r.Fatalf("waited in vain for %s", what)
		}
		r.do(func() {})
	}
}

// A program is a collector with a writer: superd's side of a program that logs.
type program struct {
	*Collector
	rig   *rig
	scope *loop.Scope
	*os.File
}

// fifo makes a FIFO and returns both of its ends.
func (r *rig) fifo() (read int, write *os.File) {
	r.Helper()
	read, err := pipe.MakeFIFO(filepath.Join(r.TempDir(), "out"), os.Geteuid(), os.Getegid())
	if err != nil {
		r.Fatal(err)
	}
	fd, err := pipe.OpenWriter(read)
	if err != nil {
		r.Fatal(err)
	}
	write = os.NewFile(uintptr(fd), "writer")
	r.Cleanup(func() { write.Close() })
	return read, write
}

func (r *rig) program(o Options) *program {
	r.Helper()
	read, write := r.fifo()
	p := &program{rig: r, File: write}
	r.do(func() {
		p.scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(p.scope, "web", o)
		if err := p.Attach(Stdout, read); err != nil {
			r.Error(err)
		}
	})
	return p
}

func (p *program) Name() string { return p.Collector.Name() }

// lastLine returns the newest complete line.
func (p *program) lastLine() string {
	return follow.LastLines([]follow.Log{p.Log(Stdout)}, testTimeout)[0]
}

// tail returns the last bytes of the run's output.
func (p *program) tail() string {
	p.rig.Helper()
	var end string
	done := make(chan struct{})
	p.rig.do(func() {
		p.Tail(func(text []byte, _ bool) {
			end = string(text)
			close(done)
		})
	})
	p.rig.await(done, "the tail")
	return end
}

// print writes text as the program.
func (p *program) print(text string) {
	p.rig.Helper()
	if _, err := p.WriteString(text); err != nil {
		p.rig.Fatal(err)
	}
}

// rest waits until no worker drains the program: a worker may check the file once more after the
// last line.
func (p *program) rest() {
	p.rig.Helper()
	p.rig.poll("the collector to be idle", func() bool { return p.state.Load() == idle })
}

// drained returns a channel that is closed once Drained calls back.
func (p *program) drained() <-chan struct{} {
	done := make(chan struct{})
	p.rig.do(func() { p.Drained(func() { close(done) }) })
	return done
}

// log writes text as the program and waits until it is in the file.
func (p *program) log(text string) {
	p.rig.Helper()
	p.print(text)
	p.rig.await(p.drained(), "output to be written")
}

// until waits until ok returns true; it calls ok whenever bytes were appended.
func (p *program) until(what string, ok func() bool) {
	p.rig.Helper()
	wake := make(chan struct{}, 1)
	cancel := p.Notify(func() { signal(wake) })
	defer cancel()
	for !ok() {
		p.rig.await(wake, what)
	}
}

// signal makes c ready; c has a buffer of one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A syncBuffer collects what several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Len()
}

// mustParse parses a cursor.
func mustParse(t testing.TB, text string) *segment.Cursor {
	t.Helper()
	c, err := segment.ParseCursor(text)
	logstest.Must(t, err)
	return &c
}
