// Server answers HTTP on the socket that superd passes, as systemd passes it: see ../go.toml.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// drain is how long a client may take from its connect to its request, and from its last answer to
// its next request, when the server stops.
const drain = 500 * time.Millisecond

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	listeners, err := activation.Listeners()
	if err != nil {
		return err
	}
	if len(listeners) != 1 {
		return errors.New("one socket must be passed")
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if stop.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, "hello\n")
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listeners[0]) }()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-stop.Done():
	}
	// Accept no more. Shutdown closes connections of which it has not read the next request, also
	// those that were accepted a moment ago: serve them before.
	if err := listeners[0].Close(); err != nil {
		return err
	}
	time.Sleep(drain)
	return server.Shutdown(context.Background())
}
