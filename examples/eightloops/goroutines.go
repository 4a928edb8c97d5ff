package main

import (
	"bufio"
	"sync"
	"time"
)

// An event is what a goroutine sends to the one that owns the board.
type event struct {
	child *child
	what  what
	line  string
	fault any // the value of a panic
}

type what int

const (
	printed  what = iota // a line
	closed               // its output
	ended                // the process
	panicked             // one of the goroutines
)

// goroutines is the usual way of Go: everything that waits is a goroutine and reports by a channel.
// A panic in one would end the program without the deferred functions of the others, so each hands
// its panic on. Before it returns, goroutines waits for all of them.
func goroutines(s *stage) error {
	events := make(chan event)
	over := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer s.kill() // ends the waits for children
	defer close(over)
	send := func(e event) {
		select {
		case events <- e:
		case <-over:
		}
	}
	start := func(f func()) {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					send(event{what: panicked, fault: v})
				}
			}()
			f()
		})
	}
	for _, c := range s.children {
		output, err := c.file()
		if err != nil {
			return err
		}
		start(func() {
			defer output.Close()
			for lines := bufio.NewScanner(output); lines.Scan(); {
				send(event{child: c, what: printed, line: lines.Text()})
			}
			send(event{child: c, what: closed})
		})
		start(func() {
			readable(c.process.FD(), -1)
			send(event{child: c, what: ended})
		})
	}
	reaped := make(map[*child]bool)
	heart := time.NewTicker(s.beat)
	defer heart.Stop()
	for len(s.running()) > 0 {
		select {
		case e := <-events:
			switch c := e.child; e.what {
			case printed:
				c.note(e.line)
			case closed:
				c.open = false
			case ended:
				c.kill() // other processes may hold the pipe
				reaped[c] = true
			case panicked:
				panic(e.fault)
			}
			finished := false
			if c := e.child; !c.open && reaped[c] {
				var err error
				if finished, err = c.end(); err != nil {
					return err
				}
			}
			if finished || e.what == printed {
				s.show()
			}
		case <-heart.C:
			s.show()
		case <-s.interrupted:
			return nil
		}
	}
	return nil
}
