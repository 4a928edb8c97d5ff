package main

import (
	"fmt"
	"iter"
	"time"

	"golang.org/x/sys/unix"
)

// A wait is what a generator yields: it continues when a descriptor is readable, or at an instant.
type wait struct {
	fd    int // -1: wait for the instant
	until time.Time
}

// generators has a function for each thing to follow, written like blocking calls. Where one has to
// wait, it yields what for, and a small loop by poll(2) resumes it: package loop and its tasks in
// miniature.
func generators(s *stage) error {
	interrupt, err := s.interruptPipe()
	if err != nil {
		return err
	}
	defer unix.Close(interrupt)
	var failure error
	all := []*generator{newGenerator(s.heart)}
	for _, c := range s.children {
		all = append(all, newGenerator(s.listen(c, &failure)), newGenerator(s.outlive(c, &failure)))
	}
	defer func() {
		for _, g := range all {
			g.stop()
		}
	}()
	for len(s.running()) > 0 && failure == nil {
		polled := []unix.PollFd{{Fd: int32(interrupt), Events: unix.POLLIN}}
		next := time.Now().Add(time.Hour)
		for _, g := range all {
			polled = append(polled, unix.PollFd{Fd: int32(g.wait.fd), Events: unix.POLLIN}) // poll ignores -1
			if g.wait.fd < 0 && !g.ended && g.wait.until.Before(next) {
				next = g.wait.until
			}
		}
		_, err := unix.Poll(polled, int(max(0, time.Until(next)).Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
		if polled[0].Revents != 0 {
			return nil
		}
		for i, g := range all {
			if polled[i+1].Revents != 0 || g.wait.fd < 0 && !time.Now().Before(g.wait.until) {
				g.advance()
			}
		}
	}
	return failure
}

// A generator is a started function and what it waits for.
type generator struct {
	next  func() (wait, bool)
	stop  func()
	wait  wait
	ended bool
}

func newGenerator(seq iter.Seq[wait]) *generator {
	g := &generator{}
	g.next, g.stop = iter.Pull(seq)
	g.advance()
	return g
}

// advance runs the generator until it waits again or ends.
func (g *generator) advance() {
	w, ok := g.next()
	g.wait, g.ended = w, !ok
	if g.ended {
		g.wait.fd = -1
	}
}

func (s *stage) listen(c *child, failure *error) iter.Seq[wait] {
	return func(yield func(wait) bool) {
		for c.open && yield(wait{fd: c.output}) && !c.ended {
			changed, err := c.read()
			if err != nil {
				*failure = err
				return
			}
			if changed {
				s.show()
			}
		}
	}
}

func (s *stage) outlive(c *child, failure *error) iter.Seq[wait] {
	return func(yield func(wait) bool) {
		if yield(wait{fd: c.process.FD()}) {
			if _, err := c.end(); err != nil {
				*failure = err
			}
			s.show()
		}
	}
}

func (s *stage) heart(yield func(wait) bool) {
	for next := time.Now().Add(s.beat); yield(wait{-1, next}); next = next.Add(s.beat) {
		s.show()
	}
}
