package instance

import "superd/procs/host"

// held reports whether the start has to wait for something other than a program.
func held(in *Instance) bool {
	if in.Membership.Conflict != nil {
		return true
	}
	missing, _ := missingSocket(in)
	return missing != ""
}

// missingSocket returns which socket of the program is not open; "" if all are. failed reports that
// it could not be opened.
func missingSocket(in *Instance) (why string, failed bool) {
	if in.Program.Sockets == nil || len(in.Program.Invalid) > 0 {
		return "", false
	}
	return in.Env.Sockets.Missing(in.Program.Sockets)
}

// lacksSocket reports whether a socket of the program could not be opened.
func lacksSocket(in *Instance) bool {
	_, failed := missingSocket(in)
	return failed
}

// holdSockets returns the sockets that the main process of the run gets. ok is false if one is not
// open: a reload may have closed it since the run began.
func holdSockets(r *run) (held []*host.SharedFD, ok bool) {
	if r.program.Sockets == nil {
		return nil, true
	}
	held = r.in.Env.Sockets.Hold(r.program.Sockets)
	return held, len(held) == len(r.program.Sockets.FDs())
}
