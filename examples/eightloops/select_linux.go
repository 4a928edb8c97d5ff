package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// selecting waits for everything at once with select(2), finds out which is ready, and serves it.
// The interrupt has to be a descriptor, too: the self-pipe trick.
func selecting(s *stage) error {
	interrupt, err := s.interruptPipe()
	if err != nil {
		return err
	}
	defer unix.Close(interrupt)
	next := time.Now().Add(s.beat)
	for len(s.running()) > 0 {
		var set unix.FdSet // numbers below 1024, set again each time
		set.Set(interrupt)
		for _, c := range s.running() {
			set.Set(c.process.FD())
			if c.open {
				set.Set(c.output)
			}
		}
		timeout := unix.NsecToTimeval(max(0, time.Until(next)).Nanoseconds())
		_, err := unix.Select(unix.FD_SETSIZE, &set, nil, nil, &timeout)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("select: %w", err)
		}
		if set.IsSet(interrupt) {
			return nil
		}
		for _, c := range s.running() {
			if set.IsSet(c.output) {
				changed, err := c.read()
				if err != nil {
					return err
				}
				if changed {
					s.show()
				}
			}
			if set.IsSet(c.process.FD()) {
				if _, err := c.end(); err != nil {
					return err
				}
				s.show()
			}
		}
		if !time.Now().Before(next) {
			s.show()
			next = next.Add(s.beat)
		}
	}
	return nil
}

// interruptPipe returns a descriptor that becomes readable when the program is interrupted or the
// stage is closed.
func (s *stage) interruptPipe() (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, fmt.Errorf("make a pipe: %w", err)
	}
	go func() {
		<-s.interrupted
		unix.Close(p[1]) // the end of the pipe is readable
	}()
	return p[0], nil
}
