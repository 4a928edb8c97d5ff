package control

import (
	"context"
	"os"
)

// ExecuteProtocol is the protocol to which the connection of an execution changes (HTTP Upgrade):
// docs/api.md.
const ExecuteProtocol = "superd-execute"

// An Execution is one line about a command that is executed beside a program: one when it runs, and
// one when it has ended. One of the fields is set.
type Execution struct {
	Pid   int    `json:"pid,omitzero"`
	Exit  *Exit  `json:"exit,omitempty"`
	Error *Error `json:"error,omitempty"` // it could not be executed
}

// A Command is a command to execute beside a program.
type Command struct {
	Words    []string
	Files    [3]*os.File // standard input, output and error
	Terminal bool        // Files[0] is a terminal, which becomes its controlling one
	TERM     string      // kind of the terminal; empty: none
	// Called when superd has the files, which this process may close then; may be nil
	Passed func() error
}

// Execute executes a command beside the program of one instance, and returns how it has ended. When
// ctx is done it is killed. It needs the socket of a superd on this host.
func (c *Client) Execute(ctx context.Context, name string, command Command) (Exit, error) {
	return c.execute(ctx, name, command)
}
