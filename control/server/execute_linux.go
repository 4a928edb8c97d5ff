package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"superd/control"
	"superd/internal/escape"
	"superd/internal/signame"
	"superd/pidfd"
	"superd/procs"
)

// execute executes a command beside an instance. The connection changes to another protocol: the
// client passes standard input, output and error, and gets a line for the start and one for the
// end. The command ends when the client is gone.
func (s *Server) execute(w http.ResponseWriter, r *http.Request) error {
	command := r.Form["command"]
	if len(command) == 0 || command[0] == "" {
		return badRequest("add command=WORD for each word", "no command is given")
	}
	terminal, err := flag(r, "terminal", false)
	if err != nil {
		return err
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over connection: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	x := &executing{server: s, conn: conn, ended: make(chan control.Execution, 1)}
	_ = conn.SetDeadline(time.Now().Add(s.body))
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", control.ExecuteProtocol); err != nil {
		return nil // the client is gone, and no other answer is possible
	}
	if err := x.receive(); err != nil {
		x.send(control.Execution{Error: &control.Error{Message: err.Error()}})
		return nil
	}
	defer x.close()
	_ = conn.SetDeadline(time.Time{})
	x.run(r.PathValue("name"), peerOf(r.Context()), procs.ExecuteOptions{
		Command: command, Terminal: terminal, TERM: r.Form.Get("term"),
		Stdin: x.opener(0), Stdout: x.opener(1), Stderr: x.opener(2),
	})
	return nil
}

// An executing is the connection of a client whose command is executed.
type executing struct {
	server *Server
	conn   net.Conn
	files  []*os.File // standard input, output and error
	ended  chan control.Execution

	sending sync.Mutex
}

// receive receives the three descriptors of the client.
func (x *executing) receive() error {
	conn, ok := x.conn.(*connection)
	if !ok {
		return errNotUnix
	}
	unixConn, ok := conn.Conn.(*net.UnixConn)
	if !ok {
		return errNotUnix
	}
	const count = 3
	rights := make([]byte, unix.CmsgSpace(count*4))
	_, n, _, _, err := unixConn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return fmt.Errorf("receive descriptors: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return fmt.Errorf("receive descriptors: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			x.files = append(x.files, os.NewFile(uintptr(fd), "descriptor of a client"))
		}
	}
	if len(x.files) != count {
		x.close()
		return fmt.Errorf("receive descriptors: want %d, got %d", count, len(x.files))
	}
	return nil
}

func (x *executing) close() {
	for _, f := range x.files {
		f.Close()
	}
}

// opener returns a function that opens a descriptor of the client once more. A terminal gets the
// user of the program as its owner, as far as superd may change it, so that the program can open it
// by its name.
func (x *executing) opener(number int) func(uid uint32) (int, error) {
	file := x.files[number]
	return func(uid uint32) (fd int, err error) {
		raw, err := file.SyscallConn()
		if err != nil {
			return -1, err
		}
		controlErr := raw.Control(func(own uintptr) {
			fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
			if _, notTerminal := unix.IoctlGetTermios(int(own), unix.TCGETS); notTerminal == nil && number == 0 && x.server.options.UID == 0 {
				_ = unix.Fchown(int(own), int(uid), -1) // a convenience
			}
		})
		return fd, errors.Join(controlErr, err)
	}
}

// run executes the command and returns when it has ended.
func (x *executing) run(name string, uid int, o procs.ExecuteOptions) {
	s := x.server
	o.Started = func(pid int) { go x.send(control.Execution{Pid: pid}) }
	o.Ended = func(exit pidfd.Exit, err error) { x.ended <- executionEnd(exit, err) }
	var end func() // used on the loop only; nil: it was not begun
	s.options.Post(func() {
		var err error
		if end, err = s.options.Execute(name, uid, o); err != nil {
			end = nil
			x.ended <- control.Execution{Error: explain(err)}
		}
	})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = x.conn.Read(make([]byte, 1)) // nothing more comes
	}()
	select {
	case result := <-x.ended:
		x.send(result)
	case <-gone:
		s.options.Post(func() {
			if end != nil {
				end()
			}
		})
		select {
		case <-x.ended: // the spawn may still need the files
		case <-time.After(shutdownTimeout):
		}
	}
}

// send sends a line.
func (x *executing) send(e control.Execution) {
	x.sending.Lock()
	defer x.sending.Unlock()
	line, err := escape.Marshal(e)
	if err != nil {
		return
	}
	_ = x.conn.SetWriteDeadline(time.Now().Add(x.server.writeTimeout))
	_, _ = x.conn.Write(append(line, '\n')) // an error means that the client is gone
}

// executionEnd returns the last line of an execution.
func executionEnd(exit pidfd.Exit, err error) control.Execution {
	if err != nil {
		return control.Execution{Error: &control.Error{Message: err.Error()}}
	}
	end := &control.Exit{At: time.Now(), Known: exit.Known}
	switch {
	case exit.Signal != 0:
		end.Signal = new(signame.Name(exit.Signal))
	case exit.Known:
		end.Code = &exit.Code
	}
	return control.Execution{Exit: end}
}
