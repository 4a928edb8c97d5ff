// Command superd supervises programs: it starts them, restarts or stops them, keeps their output and
// tells what happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"superd/config"
	"superd/control"
	"superd/execstep"
)

// Exit statuses.
const (
	statusFailed   = 1 // the operation failed
	statusUsage    = 2 // wrong usage or invalid configuration
	statusNotUp    = 3 // ctl status: something asked for by name is not up
	statusNoSuperd = 4 // no superd answers there
)

func main() {
	execstep.Run() // does not return where superd is the step before a program
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line, less the program's name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := execute(ctx, args, stdout, stderr)
	if runKeeper, ok := err.(keeperWanted); ok {
		err = runKeeper()
	}
	if _, silent := err.(exitStatus); err != nil && !silent {
		tell(stderr, err)
	}
	return statusOf(err)
}

// A usageError is a command line or a configuration that can't be accepted.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// An exitStatus ends the command with this status; all there is to say has been said.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return statusUsage
	}
	if errors.Is(err, control.ErrNoSuperd) {
		return statusNoSuperd
	}
	if e, ok := errors.AsType[*control.Error](err); ok {
		switch e.Status {
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
			return statusUsage
		}
	}
	return statusFailed
}

// tell writes an error as a person reads it: several mistakes of a configuration stand one a line.
func tell(w io.Writer, err error) {
	text := strings.TrimSpace(err.Error())
	if mistakes, ok := errors.AsType[config.Errors](err); ok && len(mistakes) > 1 && text == mistakes.Error() {
		fmt.Fprintf(w, "%s\nsuperd: %s in the configuration\n", text, count(len(mistakes), "mistake"))
		return
	}
	if e, ok := errors.AsType[*control.Error](err); ok && len(e.Mistakes) > 0 {
		fmt.Fprintf(w, "%s\nsuperd: %s: %s\n", e.Message, count(len(e.Mistakes), "mistake"), e.Remedy)
		return
	}
	fmt.Fprintf(w, "superd: %s\n", text)
}

// count returns "1 mistake", "2 mistakes", "no mistakes".
func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
