package logs

import (
	"bytes"

	"superd/logs/frame"
	"superd/logs/segment"
)

// remember stores the end of what was delivered to a sink.
func (c *Collector) remember(text []byte) {
	o := c.shared.outlet
	if o == nil {
		return
	}
	c.shared.Lock()
	defer c.shared.Unlock()
	if len(text) >= segment.TailBytes {
		o.recent, o.beforeRun = append(o.recent[:0], text[len(text)-segment.TailBytes:]...), 0
		return
	}
	if excess := len(o.recent) + len(text) - segment.TailBytes; excess > 0 {
		o.recent = append(o.recent[:0], o.recent[excess:]...)
		o.beforeRun = max(0, o.beforeRun-excess)
	}
	o.recent = append(o.recent, text...)
}

// recentRun returns the end of the run's output that went to a sink, and whether there was more
// before it.
func (c *Collector) recentRun() (end []byte, cut bool) {
	c.shared.Lock()
	defer c.shared.Unlock()
	o := c.shared.outlet
	if o == nil {
		return nil, false
	}
	return bytes.Clone(o.recent[o.beforeRun:]), o.beforeRun == 0 && len(o.recent) == segment.TailBytes
}

// recentLine returns the newest complete line of the present run that went to a sink.
func (c *Collector) recentLine() string {
	c.shared.Lock()
	defer c.shared.Unlock()
	if c.shared.outlet == nil {
		return ""
	}
	line, _ := frame.NewestLine(c.shared.outlet.recent[c.shared.outlet.beforeRun:], -1)
	return string(line)
}
