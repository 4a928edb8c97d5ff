package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"superd/control"
	"superd/internal/escape"
	"superd/procs/pty"
)

// attach attaches the client to the terminal of an instance. The connection changes to another
// protocol: superd sends lines that are an Attached each, the client lines that are a Typed.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) error {
	type found struct {
		terminal *pty.Terminal
		name     string
		err      error
	}
	of, err := onLoop(r.Context(), s, func() (f found) {
		f.terminal, f.name, f.err = s.options.Terminal(r.PathValue("name"), peerOf(r.Context()))
		return f
	})
	if err != nil {
		return err
	}
	if of.err != nil {
		e := *explain(of.err)
		if e.Status == 0 || e.Status == http.StatusInternalServerError {
			e.Status = http.StatusConflict // it has no terminal, or several are meant
		}
		return &e
	}
	client, err := of.terminal.Join()
	if err != nil {
		return err
	}
	defer client.Release()
	defer client.Detach()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over connection: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(s.body))
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", control.AttachProtocol); err != nil {
		return nil // the client is gone, and no other answer is possible
	}
	_ = conn.SetDeadline(time.Time{})
	a := &attached{server: s, conn: conn, client: client}
	var typing sync.WaitGroup
	typing.Go(func() {
		defer client.Detach() // so that show returns
		a.typed(buffered.Reader)
	})
	a.show(of.name)
	client.Detach()
	conn.Close() // so that typed returns
	typing.Wait()
	return nil
}

// An attached is the connection of a client that is attached to a terminal.
type attached struct {
	server *Server
	conn   net.Conn
	client *pty.Client
}

// show sends what the program writes until the client is detached, or gone.
func (a *attached) show(name string) {
	line := control.Attached{Name: name, Clients: <-a.client.Others}
	for a.send(line) {
		select {
		case line.Clients = <-a.client.Others:
			line = control.Attached{Clients: line.Clients}
		case output, more := <-a.client.Output:
			if line = (control.Attached{Output: output}); more {
				continue
			}
			if why := a.client.Why(); why != "" {
				a.send(control.Attached{Error: &control.Error{Message: why}})
			}
			return
		}
	}
}

// send sends a line, and reports whether the client has taken it.
func (a *attached) send(line control.Attached) bool {
	text, err := escape.Marshal(line)
	if err != nil {
		return false
	}
	_ = a.conn.SetWriteDeadline(time.Now().Add(a.server.writeTimeout))
	_, err = a.conn.Write(append(text, '\n'))
	return err == nil
}

// maxTyped bounds a line of a client.
const maxTyped = 64 << 10

// typed passes on what the client types until it is detached, or gone, or sends something else.
func (a *attached) typed(from *bufio.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxTyped)
	for lines.Scan() {
		var t control.Typed
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return
		}
		if t.Columns > 0 && t.Rows > 0 {
			if err := a.client.Resize(t.Columns, t.Rows); err != nil {
				return
			}
		}
		if err := a.client.Type(t.Input); err != nil {
			return
		}
	}
}
