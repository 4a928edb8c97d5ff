package child

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

// serve answers each connection to the descriptor with a line: the process, and what the client
// has sent. SIGTERM ends it when the connections that it has accepted are answered.
//
// With fd 0 it takes the first of LISTEN_FDS, and fails unless they are for this process.
func serve(args []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if fd == 0 {
		if pid := os.Getenv("LISTEN_PID"); pid != strconv.Itoa(os.Getpid()) {
			return fmt.Errorf("LISTEN_PID is %q, and this is process %d", pid, os.Getpid())
		}
		fd = 3
	}
	return serveAt(fd)
}

// answerInput is serve for the one connection that is its standard input and output.
func answerInput([]string) error {
	said, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = fmt.Printf("%d %s\n", os.Getpid(), said)
	}
	return err
}

func serveAt(fd int) error {
	l, err := net.FileListener(os.NewFile(uintptr(fd), "socket"))
	if err != nil {
		return err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	end, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-end.Done()
		l.Close()
	}()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if end.Err() != nil {
				return nil
			}
			return err
		}
		open.Go(func() {
			defer c.Close()
			said, _ := io.ReadAll(c)
			fmt.Fprintf(c, "%d %s\n", os.Getpid(), said)
		})
	}
}

// listen accepts connections to a port of the loopback address, and closes them.
func listen(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		conn.Close()
	}
}
