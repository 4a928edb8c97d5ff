package procs

import (
	"superd/config"
	"superd/logs"
	"superd/loop"
)

// The standard input of a logger is a FIFO to which superd writes the output of another program.
// superd and the keeper have the FIFO open for reading and writing. So its content survives a
// restart of superd or the logger, and the logger reads no end of input before superd closes the
// FIFO.

// input is the index of a logger's standard input among the FIFOs of an instance, after its output
// streams.
const input = logs.Stderr + 1

// isLogger reports whether the instance reads the output of another program.
func (in *instance) isLogger() bool { return in.program.LoggerOf != "" }

// loggerInputPath returns the path of the FIFO that the program's logger reads.
func (p *platform) loggerInputPath(program *config.Program) string {
	return p.fifoPath(config.LoggerName(program.Name), input)
}

// fifosOf returns how many FIFOs an instance of the program has.
func fifosOf(p *config.Program) int {
	n := len(streamsOf(p))
	if p.LoggerOf != "" {
		n++
	}
	return n
}

// A loggerFIFO is the FIFO from which a logger reads.
type loggerFIFO struct {
	fd     int    // open for reading and writing
	fdName string // name in the descriptor store
	end    *loop.Deferred
}

// setInput sets the descriptor of a logger's input, which is stored under storedName.
func (in *instance) setInput(fd int, storedName string) {
	in.closeInput()
	in.inputFIFO = &loggerFIFO{fd, storedName, in.scope.Defer(func() { in.sup.host.CloseFD(fd) })}
}

// inputFD returns the descriptor of a logger's input; -1 before it exists and after its release.
func (in *instance) inputFD() int {
	if in.inputFIFO == nil {
		return -1
	}
	return in.inputFIFO.fd
}

// neverStartsAgain reports whether this superd does not start the instance any more.
func (in *instance) neverStartsAgain() bool { return in.membership.Leaves() || in.sup.shutdown.begun }

// endInput closes the logger's input once all output of the program is written to it. It stops a
// logger that does not start again.
func (in *instance) endInput() {
	r, remaining := in.run, 1
	written := func() {
		if remaining--; remaining == 0 && in.run == r {
			in.closeInput()
		}
	}
	for _, of := range in.sup.registry.instances {
		if of.program.Name == in.program.LoggerOf {
			remaining++
			of.collector.Drained(written)
		}
	}
	written()
}

// closeInput releases the logger's input.
func (in *instance) closeInput() {
	f := in.inputFIFO
	if f == nil {
		return
	}
	in.inputFIFO = nil
	f.end.Stop()
	in.sup.host.CloseFD(f.fd)
	in.save()
	in.sup.fds.release(f.fdName)
}
