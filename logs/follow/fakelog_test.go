package follow

import (
	"sync"

	"superd/internal/mounts"
	"superd/logs/fslimit"
	"superd/logs/pipe"
	"superd/logs/segment"
)

// A fakeLog is a log without a collector.
type fakeLog struct {
	Log
	segs    *segment.Log
	readers *Readers
	once    sync.Once
}

func (l *fakeLog) Name() string                   { return "web" }
func (l *fakeLog) Program() string                { return "web" }
func (l *fakeLog) OfStderr() bool                 { return false }
func (l *fakeLog) Segments() (*segment.Log, bool) { return l.segs, false }
func (l *fakeLog) Notify(func()) (cancel func())  { return func() {} }
func (l *fakeLog) MinFree() int64                 { return 0 }
func (l *fakeLog) Readers() *Readers {
	l.once.Do(func() {
		l.readers = &Readers{Limiter: fslimit.New(new(mounts.Table), 4, 12), Buffers: new(pipe.Buffers)}
	})
	return l.readers
}
