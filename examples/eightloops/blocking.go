package main

import "golang.org/x/sys/unix"

// blocking reads one child, then the other, and each read waits as long as it takes. It sees no
// line of beta while alpha is silent, and prints nothing every ten seconds. It cannot be
// interrupted: a second thread has to kill the children, which ends the read.
func blocking(s *stage) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-s.interrupted:
			s.kill()
		case <-over:
		}
	}()
	for _, c := range s.children {
		if err := unix.SetNonblock(c.output, false); err != nil {
			return err
		}
	}
	for len(s.running()) > 0 {
		for _, c := range s.running() {
			var changed bool
			var err error
			if c.open {
				changed, err = c.read()
			} else if readable(c.process.FD(), -1) {
				changed, err = c.end()
			}
			if err != nil {
				return err
			}
			if changed {
				s.show()
			}
		}
	}
	return nil
}
