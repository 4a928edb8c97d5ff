package logs

// waits returns how many waits of the poller have returned.
func (p *poller) waits() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.returns
}
