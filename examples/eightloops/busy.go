package main

import "time"

// busy asks again and again whether there is something to read. Nothing is faster, and nothing
// takes more processor time.
func busy(s *stage) error {
	next := time.Now().Add(s.beat)
	for len(s.running()) > 0 {
		select {
		case <-s.interrupted:
			return nil
		default:
		}
		for _, c := range s.running() {
			fresh, err := c.read()
			if err != nil {
				return err
			}
			ended, err := c.end()
			if err != nil {
				return err
			}
			if fresh || ended {
				s.show()
			}
		}
		if now := time.Now(); now.After(next) {
			s.show()
			next = next.Add(s.beat)
		}
	}
	return nil
}
