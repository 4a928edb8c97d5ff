package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"
	"time"

	"superd/control"
)

const socket = "/run/superd/superd.sock"

func ExampleClient_Status() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := control.NewClient(socket).Status(ctx, []string{"web*"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range all {
		fmt.Println(all[i].Name, all[i].State, all[i].Up())
	}
}

func ExampleClient_Command() {
	// superd continues with the restart when the client no longer waits.
	results, err := control.NewClient(socket).Command(context.Background(), "restart", []string{"web"}, true, time.Minute)
	var refused *control.Error
	switch {
	case errors.Is(err, control.ErrNoSuperd):
		fmt.Println("superd does not run")
	case errors.As(err, &refused):
		fmt.Println(refused.Status, refused.Message, refused.Remedy)
	case err != nil:
		fmt.Println(err)
	}
	for _, r := range results {
		fmt.Println(r.Name, r.OK, r.Message)
	}
}

// Watch returns when the context is done, or superd has ended for good.
func ExampleClient_Watch() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	err := control.NewClient(socket).Watch(ctx, nil, func(all []control.Status) error {
		for i := range all {
			fmt.Println(all[i].Name, all[i].State)
		}
		return nil
	})
	fmt.Println(err)
}

// A program that keeps the cursor of the last event misses none.
func ExampleClient_Events() {
	last := uint64(0)
	query := control.EventQuery{Names: []string{"web"}, After: last, Lines: -1, Follow: true}
	err := control.NewClient(socket).Events(context.Background(), query, func(line []byte) error {
		event, err := control.DecodeEvent(line)
		if err == nil {
			fmt.Println(event.At, event.Kind, event.Reason)
			last = event.Cursor
		}
		return err
	})
	fmt.Println(err)
}

func ExampleClient_Logs() {
	query := control.LogQuery{Names: []string{"web"}, Lines: 10}
	err := control.NewClient(socket).Logs(context.Background(), query, func(b *control.LogBlock) error {
		fmt.Printf("%s: %s\n", b.Instance, b.Text)
		return nil
	}, nil)
	fmt.Println(err)
}

// The connections of a client may lead to another host: here through a tunnel of
// ssh -N -L 127.0.0.1:9000:/run/superd/superd.sock web1
func ExampleWithConnect() {
	client := control.NewClient("web1", control.WithConnect(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:9000")
	}))
	version, err := client.Version(context.Background())
	fmt.Println(version.Version, err)
}
