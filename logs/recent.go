package logs

import "bytes"

// An outlet is a sink, and the end of what was delivered to it, which can't be read back. The
// collector's mu guards recent and before.
type outlet struct {
	sink
	recent []byte // at most tailBytes
	before int    // bytes of it from before the present run
}

// next returns the outlet for another sink, nil for files. o may be nil.
func (o *outlet) next(to sink) *outlet {
	if o != nil {
		o.close()
	}
	switch {
	case to == nil:
		return nil
	case o == nil:
		return &outlet{sink: to}
	}
	return &outlet{to, o.recent, o.before}
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
		o.recent, o.before = append(o.recent[:0], text[len(text)-tailBytes:]...), 0
		return
	}
	if over := len(o.recent) + len(text) - tailBytes; over > 0 {
		o.recent = append(o.recent[:0], o.recent[over:]...)
		o.before = max(0, o.before-over)
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
	return bytes.Clone(o.recent[o.before:]), o.before == 0 && len(o.recent) == tailBytes
}

// recentLine returns the newest complete line of the present run that went to a sink.
func (c *Collector) recentLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outlet == nil {
		return ""
	}
	line, _ := newestLine(c.outlet.recent[c.outlet.before:], -1)
	return string(line)
}
