package logs

import "bytes"

// An outlet is a sink, with the end of what was delivered to it, which can't be read back. The
// collector's mu guards recent and beforeRun.
type outlet struct {
	sink
	recent    []byte // at most tailBytes
	beforeRun int    // bytes of recent from before the present run
}

// replace returns the outlet for another sink, nil for files. o may be nil.
func (o *outlet) replace(to sink) *outlet {
	if o != nil {
		o.close()
	}
	switch {
	case to == nil:
		return nil
	case o == nil:
		return &outlet{sink: to}
	}
	return &outlet{to, o.recent, o.beforeRun}
}

// remember stores the end of what was delivered to a sink.
func (c *Collector) remember(text []byte) {
	o := c.outlet
	if o == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(text) >= tailBytes {
		o.recent, o.beforeRun = append(o.recent[:0], text[len(text)-tailBytes:]...), 0
		return
	}
	if excess := len(o.recent) + len(text) - tailBytes; excess > 0 {
		o.recent = append(o.recent[:0], o.recent[excess:]...)
		o.beforeRun = max(0, o.beforeRun-excess)
	}
	o.recent = append(o.recent, text...)
}

// recentRun returns the end of the run's output that went to a sink, and whether there was more
// before it.
func (c *Collector) recentRun() (end []byte, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.outlet
	if o == nil {
		return nil, false
	}
	return bytes.Clone(o.recent[o.beforeRun:]), o.beforeRun == 0 && len(o.recent) == tailBytes
}

// recentLine returns the newest complete line of the present run that went to a sink.
func (c *Collector) recentLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outlet == nil {
		return ""
	}
	line, _ := newestLine(c.outlet.recent[c.outlet.beforeRun:], -1)
	return string(line)
}
