package config

// checkPTY checks what a program with a terminal can't have.
func (d *builder) checkPTY() {
	if !d.PTY {
		return
	}
	if d.Log.Format == LogDirect && d.Log.Sink == SinkFile {
		d.mistakeAt("pty", "log.format").Fail(`superd copies the terminal into the log, and with log.format = "direct" the program writes the log itself: write format = "raw", "text" or "json", or remove pty`)
	}
	if d.Log.Stderr != StderrMerge {
		d.mistakeAt("pty", "log.stderr").Fail(`standard error is the same terminal as standard output: with pty write log.stderr = "merge", or remove pty`)
	}
	switch {
	case d.sockets.Accept:
		d.mistakeAt("pty", "accept").Fail("a program with accept has a connection as standard input: remove pty, or accept")
	case d.sockets.Pass == PassStdin && d.anySet("socket_pass"):
		d.mistakeAt("pty", "socket_pass").Fail(`with socket_pass = "stdin" the socket is standard input: write socket_pass = "systemd" or "fd", or remove pty`)
	}
}
