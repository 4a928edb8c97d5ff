// Package control is the client of superd's control socket: a [Client], which speaks HTTP over a
// Unix socket, and the types of what superd answers.
//
//	client := control.NewClient("/run/superd/superd.sock")
//	programs, err := client.Status(ctx, nil)
//	if err != nil {
//		return err
//	}
//	for _, p := range programs {
//		fmt.Println(p.Name, p.State)
//	}
//
// Names are those of programs, instances ("web@2"), groups, or globs ("web*"). Requests that only
// read take no names for all instances; commands refuse that, and take "*".
//
// # Errors
//
// A request returns one of these errors, which may be wrapped:
//
//   - [*Error]: superd has refused the request, or failed. Status is the HTTP status: 404 for an
//     unknown name, 403 for a user without the right, 409 for what is not possible now, 422 for a
//     configuration with mistakes, 504 after a time-out of the request. Remedy says what to do.
//   - [ErrNoSuperd]: no superd listens on the socket.
//   - the error of the context, when it is done first. A command that superd has received remains
//     in force.
//   - others, such as of a connection that ended before the answer.
//
// The error of a command is nil, too, where an instance has failed: [CommandResult] says so for
// each.
//
// If superd is killed or upgraded, its successor answers soon. So a request without an answer is
// sent again, for as long as [WithRepeat] says, if that does no harm: all but a start, a restart, a
// signal and the like. Streams ([Client.Watch], [Client.Events], [Client.Logs]) continue where they
// were cut off.
//
// # Compatibility
//
// superd may add keys to answers, states, and kinds of events and reasons. A client should ignore
// what it does not know. docs/api.md describes all requests, docs/openapi.yaml does so for tools.
//
// This package imports no other package of superd, so a program that uses it links nothing of the
// supervisor. The server is package control/server.
package control
