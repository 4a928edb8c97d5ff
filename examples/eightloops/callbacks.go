package main

import (
	"errors"

	"superd/loop"
)

// callbacks registers what to do when a child is ready, and leaves the waiting to the loop. The
// scope of a child has both its watches: closing the scope releases both.
func callbacks(s *stage) error {
	l, err := loop.New()
	if err != nil {
		return err
	}
	var failure error
	check := func(err error) {
		if err != nil {
			failure = errors.Join(failure, err)
			l.Stop()
		}
	}
	for _, c := range s.children {
		scope := l.Root().Child()
		var output *loop.Watch
		output, err = scope.OnReadable(c.output, func() {
			changed, err := c.read()
			check(err)
			if !c.open {
				output.Stop()
			}
			if changed {
				s.show()
			}
		})
		check(err)
		_, err = scope.OnReadable(c.process.FD(), func() {
			scope.Close()
			_, err := c.end()
			check(err)
			s.show()
			if len(s.running()) == 0 {
				l.Stop()
			}
		})
		check(err)
	}
	l.Root().Every(s.beat, s.show)
	go func() {
		<-s.interrupted
		l.Post(l.Stop)
	}()
	return errors.Join(l.Run(), failure)
}
