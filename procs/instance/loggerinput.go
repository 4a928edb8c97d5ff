package instance

// The standard input of a logger is a FIFO to which superd writes the output of another program.
// superd and the keeper have the FIFO open for reading and writing. So its content survives a
// restart of superd or the logger, and the logger reads no end of input before superd closes the
// FIFO.

// setInput sets the descriptor of a logger's input, which is stored under storedName.
func (o *output) setInput(fd int, storedName string) {
	in := o.in
	o.closeInput()
	o.input = &loggerFIFO{fd, storedName, in.Scope.Defer(func() { in.Env.Host.CloseFD(fd) })}
}

// inputFD returns the descriptor of a logger's input; -1 before it exists and after its release.
func (o *output) inputFD() int {
	if o.input == nil {
		return -1
	}
	return o.input.fd
}

// endInput closes the logger's input once all output of the program is written to it. It stops a
// logger that does not start again.
func (o *output) endInput() {
	in := o.in
	r, remaining := in.run, 1
	written := func() {
		if remaining--; remaining == 0 && in.run == r {
			o.closeInput()
		}
	}
	for _, of := range in.Env.Config.Sources(in.Program) {
		remaining++
		of.Output.Collector.Drained(written)
	}
	written()
}

// closeInput releases the logger's input.
func (o *output) closeInput() {
	in := o.in
	f := o.input
	if f == nil {
		return
	}
	o.input = nil
	f.end.Stop()
	in.Env.Host.CloseFD(f.fd)
	in.Save()
	in.Env.FDs.Release(f.fdName)
}
