package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/loop/task"
)

// A script is what the server sends on each connection: lines, and the pause after each.
type script []cue

type cue struct {
	Line  []byte
	Pause time.Duration
}

// readScript reads a file of lines like "word 80ms".
func readScript(path string) (script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the words: %w (run this in the root of the project, or name another file by -words)", err)
	}
	var s script
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		word, pause, _ := strings.Cut(line, " ")
		d, err := time.ParseDuration(pause)
		if err != nil || word == "" || len(line) > 100 {
			return nil, fmt.Errorf("%s:%d: want a word and a pause, as in: word 80ms", path, i+1)
		}
		s = append(s, cue{[]byte(line + "\n"), d})
	}
	return s, nil
}

const serveCommand = "serve"

// serve is the server. It reads its script from in, writes its address to out, and serves until in
// is at its end, when the process that started it has ended.
func serve(in io.Reader, out io.Writer) error {
	var s script
	if err := gob.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	fd, err := listen()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("look up the address: %w", err)
	}
	fmt.Fprintf(out, "127.0.0.1:%d\n", addr.(*unix.SockaddrInet4).Port)

	l, err := loop.New()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		l.Post(l.Stop)
	}()
	err = task.Run(l, func(t *task.Task) error {
		for {
			conn, _, err := t.Accept(fd)
			if err != nil {
				return err
			}
			t.Go(func(t *task.Task) error {
				defer unix.Close(conn)
				return s.play(t, conn)
			})
		}
	})
	if errors.Is(err, task.ErrCanceled) {
		return nil
	}
	return err
}

// play sends the script. It ignores errors, since a client may disconnect.
func (s script) play(t *task.Task, conn int) error {
	for _, c := range s {
		if _, err := t.Write(conn, c.Line); err != nil {
			return err
		}
		if err := t.Sleep(c.Pause); err != nil {
			return err
		}
	}
	return nil
}

// listen returns a socket that listens at a free port of 127.0.0.1.
func listen() (int, error) {
	if err := needDescriptors(0); err != nil { // raises the limit
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, 1<<16-1) // the kernel may lower it
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	return fd, nil
}
