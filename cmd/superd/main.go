// Command superd supervises programs: it starts, restarts and stops them, captures their output,
// and reports what happened.
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
	"superd/internal/terminal"
)

// Exit statuses.
const (
	statusFailed   = 1 // the operation failed
	statusUsage    = 2 // wrong usage or invalid configuration
	statusNotUp    = 3 // ctl status: something asked for by name is not up
	statusNoSuperd = control.StatusNoSuperd
)

func main() {
	becomeProgram()
	becomeSupervisorctl()
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line, without the program's name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := execute(ctx, args, stdout, stderr)
	if runKeeper, ok := errors.AsType[runAsKeeper](err); ok {
		err = runKeeper()
	}
	if _, silent := errors.AsType[exitStatus](err); err != nil && !silent {
		printError(stderr, err)
	}
	return statusOf(err)
}

// A runAsKeeper runs the keeper or the front process. A command returns it as an error, and run
// calls it when the parsed command line can be freed, which takes more memory than the keeper.
type runAsKeeper func() error

func (runAsKeeper) Error() string { return "this process becomes the keeper" }

// A usageError is a mistake in the command line or in the configuration: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// An exitStatus ends the command with this status, without a message.
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

// printError prints an error for a person, each mistake of a configuration on a line of its own.
func printError(w io.Writer, err error) {
	text := sanitizeLines(strings.TrimSpace(err.Error()))
	if mistakes, ok := errors.AsType[config.Errors](err); ok && len(mistakes) > 1 && text == sanitizeLines(mistakes.Error()) {
		fmt.Fprintf(w, "%s\nsuperd: %s in the configuration\n", text, count(len(mistakes), "mistake"))
		return
	}
	if e, ok := errors.AsType[*control.Error](err); ok && len(e.Mistakes) > 0 {
		fmt.Fprintf(w, "%s\nsuperd: %s: %s\n", sanitizeLines(e.Message), count(len(e.Mistakes), "mistake"), sanitizeLines(e.Remedy))
		return
	}
	fmt.Fprintf(w, "superd: %s\n", text)
}

// sanitizeLines sanitizes each line of text for a terminal: paths and names may contain control
// characters.
func sanitizeLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(terminal.Sanitize(line))
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
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
