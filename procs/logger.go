package procs

import (
	"superd/config"
	"superd/logs"
	"superd/loop"
)

// A logger is an instance like any other, whose standard input is a FIFO into which the captures of another program write. superd has that FIFO open for
// reading and writing, and the keeper, too: so what is in it outlives superd and the logger, and nobody sees its end before superd lets go of it.

// input is where a logger's standard input stands among the FIFOs of an instance, after its outputs.
const input = logs.Stderr + 1

// isLogger reports whether the instance has the output of another program as its standard input.
func (in *instance) isLogger() bool { return in.program.LoggerOf != "" }

// loggerInput returns the path of the FIFO that the program's logger reads.
func (s *Supervisor) loggerInput(p *config.Program) string {
	return s.fifo(config.LoggerName(p.Name), input)
}

// fifosOf returns how many FIFOs an instance of the program has.
func fifosOf(p *config.Program) int {
	n := len(streamsOf(p))
	if p.LoggerOf != "" {
		n++
	}
	return n
}

// A feed is the FIFO that a logger reads.
type feed struct {
	fd   int    // open for reading and writing
	kept string // the name under which the keeper has it
	end  *loop.Deferred
}

// takeInput gives a logger the descriptor of its input, which the keeper has under that name.
func (in *instance) takeInput(fd int, kept string) {
	in.closeInput()
	in.feed = &feed{fd, kept, in.scope.Defer(func() { in.sup.system.CloseFD(fd) })}
}

// inputFD returns the descriptor of a logger's input, -1 where it is not made yet, or let go of.
func (in *instance) inputFD() int {
	if in.feed == nil {
		return -1
	}
	return in.feed.fd
}

// goes reports whether the instance is not to be started again by this superd.
func (in *instance) goes() bool { return in.removed || in.sup.shutdown != nil }

// endInput has the logger see the end of its input when it has read what the program has written: it is to go for good.
func (in *instance) endInput() {
	r, left := in.run, 1
	written := func() {
		if left--; left == 0 && in.run == r {
			in.closeInput()
		}
	}
	for _, of := range in.sup.instances {
		if of.program.Name == in.program.LoggerOf {
			left++
			of.capture.Drained(written)
		}
	}
	written()
}

// closeInput lets go of the logger's input.
func (in *instance) closeInput() {
	f := in.feed
	if f == nil {
		return
	}
	in.feed = nil
	f.end.Stop()
	in.sup.system.CloseFD(f.fd)
	in.save()
	in.sup.letGo(f.kept)
}
