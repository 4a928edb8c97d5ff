package instance

import "superd/procs/fsm"

// held reports whether the start has to wait for something other than a program.
func held(in *Instance) bool {
	missing, _ := missingSocket(in)
	return in.Membership.Conflict != nil || missing != ""
}

// missingSocket returns which socket of the program is not open; "" if all are. failed reports that
// it could not be opened.
func missingSocket(in *Instance) (why string, failed bool) {
	if len(in.Program.Invalid) > 0 || in.Program.Accepts() && in.Machine.RunPending() {
		return "", false // a run with a connection needs no socket
	}
	return in.Env.Sockets.Missing(in.Program.Sockets)
}

// lacksSocket reports whether a socket of the program could not be opened.
func lacksSocket(in *Instance) bool {
	_, failed := missingSocket(in)
	return failed
}

// waitForConnection returns the reason of an instance that waits for a connection.
func waitForConnection(in *Instance) fsm.Reason {
	if missing, _ := missingSocket(in); missing != "" {
		return fsm.ReasonWaitsForSocket.With(missing)
	}
	why := fsm.Reason{Kind: fsm.ReasonWaitsForConnection}
	if exit := in.Machine.ExitReason(); exit.Kind != fsm.ReasonNone {
		why = why.And("; before: " + exit.String())
	}
	return why
}
