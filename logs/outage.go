package logs

import (
	"fmt"
	"slices"
	"time"
)

// An Outage is a time in which output does not get into its log.
type Outage struct {
	Program, Instance, Run string
	Since                  time.Time
	Log                    string // its path, or a sink
	Reason                 string
	// Dropping reports that output is dropped. Otherwise the program waits when its pipe is full.
	Dropping bool
}

// OnOutage registers f, which is called once when an outage begins and once when it is over, on the
// goroutine that writes. f must not block. OnOutage has to be called before there are collectors.
func (s *Store) OnOutage(f func(o Outage, over bool)) { s.onOutage = f }

// Outage returns the present outage, nil if there is none that is known of. Safe for concurrent
// use.
func (c *Collector) Outage() *Outage { return c.outage.Load() }

func (s *stream) beginOutage(cause error) {
	s.ensureErrors().failing = true
	before := s.outage.Load()
	if before != nil && before.Reason == cause.Error() {
		return
	}
	s.mu.Lock()
	o := &Outage{Program: s.options.Program, Instance: s.name, Run: s.runID, Log: s.file.destination(), Reason: cause.Error(), Dropping: s.file.Drop}
	s.mu.Unlock()
	if o.Since = s.store.now(); before != nil {
		o.Since = before.Since
	}
	s.outage.Store(o)
	if before == nil && s.store.onOutage != nil {
		s.store.onOutage(*o, false)
	}
}

func (s *stream) endOutage() {
	s.failing = false
	if slices.ContainsFunc(s.all(), func(other *stream) bool { return other.failing }) {
		return
	}
	if o := s.outage.Swap(nil); o != nil && s.store.onOutage != nil {
		s.store.onOutage(*o, true)
	}
}

func (o *Outage) text(now time.Time) string {
	meanwhile := "it stays in the program's pipe"
	if o.Dropping {
		meanwhile = "it is dropped"
	}
	return fmt.Sprintf("output has not got into this log since %s, %s: %s", o.Since.In(now.Location()).Format(time.DateTime), meanwhile, o.Reason)
}
