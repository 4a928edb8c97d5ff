package output

import (
	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/host"
	"superd/procs/instance/paths"
	"superd/procs/pty"
)

// The standard input of a logger is a FIFO to which superd writes the output of another program.
// superd and the keeper have the FIFO open for reading and writing. So its content survives a
// restart of superd or the logger, and the logger reads no end of input before superd closes the
// FIFO.

// An input is the FIFO from which a logger reads, or the master of a program's terminal.
type input struct {
	fd       int    // open for reading and writing
	fdName   string // name in the descriptor store
	end      *loop.Deferred
	terminal *pty.Terminal // nil: it is a FIFO
}

// close closes it, but not its duplicate in the descriptor store.
func (i *input) close(h host.Host) {
	if i.terminal != nil {
		i.terminal.Close()
	}
	h.CloseFD(i.fd)
}

// Outlets returns what a process of that definition writes to. With names, it reserves the names of
// FIFOs that the process creates, and sets them there, by stream.
func (o *Output) Outlets(program *config.Program, names *[2]string) []host.Outlet {
	var outlets []host.Outlet
	for _, which := range paths.OutputStreams(program) {
		if names != nil && o.Collector.FD(which) < 0 {
			if o.fifoNames[which] == 0 {
				o.fifoNames[which] = host.FDNameOf(o.of.Env().FDs.Reserve(true))
			}
			names[which] = o.fifoNames[which].String()
		}
		outlet := host.Outlet{FIFO: o.of.Env().Paths.FIFO(o.of.Name(), which), ReadFD: o.Collector.FD(which)}
		if program.Log.Format == config.LogDirect {
			outlet.Direct = func(uid uint32) (int, error) { return o.Collector.OpenDirect(which, uid) }
		}
		outlets = append(outlets, outlet)
	}
	return outlets
}

// Input returns the standard input of the main process of a program with that definition: what a
// logger reads, or its terminal; nil: it has neither.
func (o *Output) Input(program *config.Program) *host.Outlet {
	switch {
	case program.PTY:
		return o.terminalInlet()
	case program.LoggerOf == "":
		return nil
	}
	inlet := &host.Outlet{FIFO: o.of.Env().Paths.FIFO(o.of.Name(), paths.LoggerInput), ReadFD: -1}
	if o.input != nil {
		inlet.ReadFD = o.input.fd
	}
	return inlet
}

// Attach takes over the read ends of the FIFOs that were created for a start, in the order of the
// streams; names are theirs in the descriptor store. stored reports whether they are there.
func (o *Output) Attach(child host.Child, names [2]string, stored bool) (attached bool) {
	if child.InputFD > 0 {
		o.setInput(child.InputFD, o.of.Env().FDs.StoreFD(child.InputFD, true))
	}
	for which, fd := range child.ReadFDs {
		if fd < 0 {
			continue
		}
		attached = true
		if name := names[which]; name != "" && !stored {
			o.of.Env().FDs.Store(name, fd)
		}
		o.attach(logs.Stream(which), fd)
	}
	return attached
}

// Reattach takes over the read end of a FIFO of the predecessor, which is stored under that name.
func (o *Output) Reattach(which logs.Stream, fd int, name string) {
	if which == paths.LoggerInput {
		o.setInput(fd, name)
		return
	}
	o.fifoNames[which] = host.FDNameOf(name)
	o.attach(which, fd)
}

func (o *Output) attach(which logs.Stream, fd int) {
	if err := o.Collector.Attach(which, fd); err != nil {
		o.of.Env().Log.Error("output not captured", "instance", o.of.Name(), "error", err)
	}
	o.connectTerminal()
}

// setInput sets the descriptor of a logger's input, or of a terminal, which is stored under
// storedName.
func (o *Output) setInput(fd int, storedName string) {
	o.CloseInput()
	set := &input{fd: fd, fdName: storedName}
	set.end = o.of.Scope().Defer(func() { set.close(o.of.Env().Host) })
	o.input = set
	o.connectTerminal()
}

// CloseInput releases the logger's input, or the terminal.
func (o *Output) CloseInput() {
	f := o.input
	if f == nil {
		return
	}
	o.input = nil
	f.end.Stop()
	f.close(o.of.Env().Host)
	o.of.Save()
	o.of.Env().FDs.Release(f.fdName)
}
