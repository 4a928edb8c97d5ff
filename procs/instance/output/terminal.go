package output

import (
	"cmp"

	"superd/config"
	"superd/logs"
	"superd/procs/host"
	"superd/procs/pty"
)

// terminalInlet returns the terminal of the program. It exists from the first start of the instance
// on, for all its runs. It is stored and in the instance's record before a process has it.
func (o *Output) terminalInlet() *host.Outlet {
	inlet := &host.Outlet{ReadFD: -1}
	if o.input == nil {
		master, err := pty.Open()
		if err != nil {
			inlet.Direct = func(uint32) (int, error) { return -1, err }
			return inlet
		}
		o.setInput(master, o.of.Env().FDs.StoreFD(master, true))
		o.of.Save()
	} else {
		o.connectTerminal() // the format of the log may be another one
	}
	master := o.input.fd
	inlet.Direct = func(uid uint32) (int, error) { return pty.OpenSlave(master, uid) }
	return inlet
}

// connectTerminal lets the terminal, if there is one, write into the FIFO of standard output, if
// that exists.
func (o *Output) connectTerminal() {
	if o.input == nil || !pty.IsMaster(o.input.fd) {
		return
	}
	var err error
	if o.input.terminal == nil {
		o.input.terminal, err = pty.Begin(o.input.fd, o.of.Env().Log.With("instance", o.of.Name()))
	}
	if fd := o.Collector.FD(logs.Stdout); err == nil && fd >= 0 {
		program, ofRun := o.of.Programs()
		err = o.input.terminal.SetOutput(fd, cmp.Or(ofRun, program).Log.Format == config.LogRaw)
	}
	if err != nil {
		o.of.Env().Log.Error("terminal not captured", "instance", o.of.Name(), "error", err)
	}
}

// drainTerminal copies what the run that has ended has written to its terminal. It releases the
// terminal if the program is to have none any more.
func (o *Output) drainTerminal() {
	if o.input == nil || o.input.terminal == nil {
		return
	}
	o.input.terminal.Drain()
	if program, _ := o.of.Programs(); !program.PTY {
		o.CloseInput()
	}
}

// Terminal returns the terminal of the instance; nil: it has none.
func (o *Output) Terminal() *pty.Terminal {
	if o.input == nil {
		return nil
	}
	return o.input.terminal
}
