package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A stage is what all ways share: the children, the output, and the interrupt. They differ in how
// they wait.
type stage struct {
	children    [2]*child
	out         io.Writer
	beat        time.Duration  // how often to print without a change
	interrupted chan os.Signal // stays readable after a signal, which ends the way
	onLine      func(string)   // called for each line that the way notes; may be nil
}

// perform starts the children and runs w. It leaves no child behind, even if w panics.
func (s *stage) perform(w variant, commands [2][]string) error {
	defer s.close()
	for i, name := range []string{"alpha", "beta"} {
		c, err := startChild(name, commands[i])
		if err != nil {
			return err
		}
		c.onLine = s.onLine
		s.children[i] = c
	}
	return w.run(s)
}

// show prints the time and the newest line of each child.
func (s *stage) show() {
	var b strings.Builder
	b.WriteString(time.Now().Format("15:04:05.000"))
	for _, c := range s.children {
		fmt.Fprintf(&b, "  %s %-12s", c.name, c.state())
	}
	fmt.Fprintln(s.out, strings.TrimRight(b.String(), " "))
}

// running returns the children that have not ended.
func (s *stage) running() []*child {
	var running []*child
	for _, c := range s.children {
		if !c.ended {
			running = append(running, c)
		}
	}
	return running
}

// kill kills the children, which ends all waits for them and their output.
func (s *stage) kill() {
	for _, c := range s.children {
		if c != nil {
			c.kill()
		}
	}
}

// close kills the children, waits for their end and closes their descriptors. It may be called
// again.
func (s *stage) close() {
	s.kill()
	for _, c := range s.children {
		if c != nil {
			c.close()
		}
	}
}
