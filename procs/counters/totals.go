package counters

import "time"

// A Reading is what is read of an instance: values that begin anew with a process or with superd.
type Reading struct {
	Instance string
	Pid      int           // of the main process; 0: none
	Start    uint64        // of the main process, in clock ticks since boot
	Ended    time.Duration // processor time of the main processes that ended: [Counts].CPU
	Live     time.Duration // processor time of the processes that live; negative: it can't be read
	Written  int64         // bytes of output written since superd began
}

// A Total is what an instance has used in all. It never decreases.
type Total struct {
	CPU      time.Duration `json:"cpu,omitempty"`
	LogBytes int64         `json:"log_bytes,omitempty"`

	// Of the reading up to which it counts. A successor begins with 0 bytes written
	Pid     int           `json:"pid,omitempty"`
	Start   uint64        `json:"start,omitempty"`
	Ended   time.Duration `json:"ended,omitempty"`
	Live    time.Duration `json:"live,omitempty"`
	written int64
}

// add returns the total up to a later reading.
//
// What a process has used since the last reading before its end is in Ended only. A process that
// was not waited for is missing in the next reading: the value of those that live may be smaller.
func (t Total) add(r Reading) Total {
	same := r.Pid != 0 && r.Pid == t.Pid && r.Start == t.Start
	used := max(0, r.Live-t.Live)
	switch {
	case r.Live < 0:
		used, r.Pid, r.Start, r.Ended, r.Live = 0, t.Pid, t.Start, t.Ended, t.Live
	case !same:
		used = max(0, r.Ended-t.Ended-t.Live) + r.Live
	}
	written := r.Written - t.written
	if written < 0 { // another instance of that name
		written = r.Written
	}
	return Total{
		CPU: t.CPU + used, LogBytes: t.LogBytes + written,
		Pid: r.Pid, Start: r.Start, Ended: r.Ended, Live: r.Live, written: r.Written,
	}
}

// Totals are the totals of all instances by name. The map is replaced, never modified.
type Totals map[string]Total

// Add returns the totals up to the readings, which are of all instances. changed reports whether
// there is a difference.
func (t Totals) Add(readings []Reading) (next Totals, changed bool) {
	next = make(Totals, len(readings))
	for _, r := range readings {
		before := t[r.Instance]
		next[r.Instance] = before.add(r)
		changed = changed || next[r.Instance] != before
	}
	return next, changed || len(next) != len(t)
}
