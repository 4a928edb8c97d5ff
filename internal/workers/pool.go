// Package workers runs functions beside the event loop: in a bounded pool of goroutines, or on all
// processors at once.
package workers

import "sync"

// A Job counts operations under way, so that others can wait until none is. The zero value has
// none.
type Job struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count returns to 0; nil while it is 0
}

// Begin runs f in one of the goroutines of p.
func (j *Job) Begin(p *Pool, f func()) {
	j.mu.Lock()
	if j.count++; j.count == 1 {
		j.idle = make(chan struct{})
	}
	j.mu.Unlock()
	p.add(func() {
		f()
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.count--; j.count == 0 {
			close(j.idle)
			j.idle = nil
		}
	})
}

// Wait waits until no operation is under way.
func (j *Job) Wait() {
	for {
		j.mu.Lock()
		idle := j.idle
		j.mu.Unlock()
		if idle == nil {
			return
		}
		<-idle
	}
}

// A Pool runs functions in at most Limit goroutines, one after the other in each. A goroutine ends
// when no function waits.
type Pool struct {
	Limit int

	mu      sync.Mutex
	working int
	waiting []func()
}

func (p *Pool) add(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, f)
	if p.working < p.Limit {
		p.working++
		go p.work()
	}
}

func (p *Pool) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 {
		f := p.waiting[0]
		p.waiting[0] = nil
		if p.waiting = p.waiting[1:]; len(p.waiting) == 0 {
			p.waiting = nil
		}
		p.mu.Unlock()
		f()
		p.mu.Lock()
	}
	p.working--
}
