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
	Log                    string // which one: a path, or a sink
	Reason                 string
	Drops                  bool // what comes is dropped; otherwise the program waits when its pipe is full
}

// TellOutages has f called when an outage begins and when it is over, once each, on the goroutine that writes. f must not block. It is to be set
// before there are captures.
func (s *Store) TellOutages(f func(o Outage, over bool)) { s.tellOutage = f }

// Outage returns the outage that lasts, nil if output gets into its log, as far as is known. From any goroutine.
func (c *Capture) Outage() *Outage { return c.outage.Load() }

// fail notes that output of the stream does not get into its log.
func (s *stream) fail(cause error) {
	s.meet().failing = true
	before := s.outage.Load()
	if before != nil && before.Reason == cause.Error() {
		return
	}
	s.mu.Lock()
	o := &Outage{Program: s.options.Program, Instance: s.name, Run: s.runID, Log: s.file.where(), Reason: cause.Error(), Drops: s.file.Drop}
	s.mu.Unlock()
	if o.Since = s.store.now(); before != nil {
		o.Since = before.Since
	}
	s.outage.Store(o)
	if before == nil && s.store.tellOutage != nil {
		s.store.tellOutage(*o, false)
	}
}

// recover notes that output of the stream gets into its log again.
func (s *stream) recover() {
	s.failing = false
	if slices.ContainsFunc(s.all(), func(other *stream) bool { return other.failing }) {
		return
	}
	if o := s.outage.Swap(nil); o != nil && s.store.tellOutage != nil {
		s.store.tellOutage(*o, true)
	}
}

// text tells readers of the log why it does not go on.
func (o *Outage) text(now time.Time) string {
	meanwhile := "it waits in the program's pipe"
	if o.Drops {
		meanwhile = "it is dropped"
	}
	return fmt.Sprintf("output does not get into this log since %s, %s: %s", o.Since.In(now.Location()).Format(time.DateTime), meanwhile, o.Reason)
}
