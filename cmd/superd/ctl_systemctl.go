package main

import (
	"context"
	"io"

	"superd/cmd/superd/systemctl"
	"superd/control"
)

// systemctl returns the commands that users of systemctl expect.
func (f *ctlFlags) systemctl() *systemctl.CLI {
	return &systemctl.CLI{Client: f.client, Complete: f.completeNames,
		Exit:  func(status int) error { return exitStatus(status) },
		Wrong: func(err error) error { return usageError{err} }}
}

// lastLines returns a function that prints the last lines of an instance.
func lastLines(stdout, stderr io.Writer) systemctl.LogPrinter {
	return func(ctx context.Context, client *control.Client, instance string, lines int) error {
		p := newLogPrinter(stdout, stderr)
		p.times = true
		return showLogs(ctx, client, control.LogQuery{Names: []string{instance}, Lines: lines}, p)
	}
}
