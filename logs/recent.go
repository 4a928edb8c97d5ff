package logs

import "bytes"

// remember keeps the end of what was delivered to a sink.
func (c *Capture) remember(text []byte) {
	if c.sink == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(text) >= tailBytes {
		c.recent, c.before = append(c.recent[:0], text[len(text)-tailBytes:]...), 0
		return
	}
	if over := len(c.recent) + len(text) - tailBytes; over > 0 {
		c.recent = append(c.recent[:0], c.recent[over:]...)
		c.before = max(0, c.before-over)
	}
	c.recent = append(c.recent, text...)
}

// recentRun returns the end of the run's output that went to a sink, and whether there was more before it.
func (c *Capture) recentRun() (end []byte, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.recent[c.before:]), c.before == 0 && len(c.recent) == tailBytes
}

// recentLine returns the newest complete line of what went to a sink.
func (c *Capture) recentLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, _ := newestLine(c.recent, -1)
	return string(line)
}
