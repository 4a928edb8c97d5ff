// Command api uses superd's control socket with the client in Go: it restarts a program, and shows
// its last lines and events.
//
//	go run ./examples/api /run/superd/superd.sock web
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"superd/control"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: api SOCKET NAME")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := show(ctx, control.NewClient(os.Args[1]), os.Args[2])
	var refused *control.Error
	switch {
	case errors.As(err, &refused):
		fmt.Fprintf(os.Stderr, "superd answers %d: %s; %s\n", refused.Status, refused.Message, refused.Remedy)
	case err != nil: // control.ErrNoSuperd, or that of the context
		fmt.Fprintln(os.Stderr, err)
	default:
		return
	}
	cancel()
	os.Exit(1)
}

func show(ctx context.Context, client *control.Client, name string) error {
	names := []string{name}
	results, err := client.Command(ctx, "restart", names, true, 30*time.Second)
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Println(r.Name, r.Message)
	}
	programs, err := client.Status(ctx, names)
	if err != nil {
		return err
	}
	for _, p := range programs {
		fmt.Println(p.Name, p.State)
	}
	err = client.Logs(ctx, control.LogQuery{Names: names, Lines: 3}, func(b *control.LogBlock) error {
		fmt.Printf("%s %s\n", b.Instance, b.Text)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	return client.Events(ctx, control.EventQuery{Names: names, Lines: 3}, func(line []byte) error {
		e, err := control.DecodeEvent(line)
		if err == nil {
			fmt.Println(e.At.Format(time.RFC3339Nano), e.Kind, e.Reason)
		}
		return err
	})
}
