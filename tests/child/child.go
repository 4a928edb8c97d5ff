// Package child has the programs that the tests let superd supervise: the test binary under the
// name "child", each behaviour a mode of its own. What a standard tool does by itself (sleep
// infinity, cat FILE, false) is not here.
//
// A gate is a FIFO: a child that reads it waits until the test closes it. So the test decides the
// time, and no child has to poll.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Name is the name under which the test binary is a child.
const Name = "child"

// Main runs the mode args[0] with its arguments and returns the exit status.
func Main(args []string) int {
	if len(args) == 0 {
		return usage()
	}
	mode, ok := modes[args[0]]
	if !ok || len(args)-1 != mode.args && (mode.args >= 0 || len(args)-1 < -mode.args) {
		return usage()
	}
	if err := mode.run(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "child %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

type mode struct {
	args int // number of arguments; if negative, the least number
	run  func(args []string) error
}

var modes = map[string]mode{
	"lines": {1, lines}, // N: print N numbered lines at full speed
	"flood": {0, flood}, // print numbered lines without end
	// BYTES: print one line of that many bytes, its newline included
	"line":         {1, line},
	"close-output": {0, closeOutput}, // close stdin, stdout and stderr, and stay alive
	// GATE: print the name of each signal that comes, end when the gate opens
	"signals": {1, signals},
	"answer":  {0, answerInput}, // to the connection that is its standard input and output
	"serve":   {1, serve},       // FD: answer connections to this descriptor; 0: as LISTEN_FDS says
	// likewise, to standard input
	"serve-input": {0, func([]string) error { return serveAt(0) }},
	"deaf":        {0, deaf},   // ignore SIGTERM
	"escape":      {1, escape}, // GATE: leave a grandchild in a session of its own, and end
	// GATE: what escape leaves: prints "late" when the gate opens, and stays alive
	"survivor": {1, survivor},
	"forks":    {1, forks}, // N: start N children, and stay alive
	// KIND: let a process escape in this way (see Escapes), and stay alive
	"escapes": {1, escapes},
	// KIND: the process between the two: starts the next one, and ends
	"parent": {1, parent},
	// KIND: what escapes leaves: prints KIND and its pid, and stays alive
	"escaped": {1, escaped},
	// KIND DIR: print the numbered lines of a run (see numbers.go)
	"numbers": {2, numbers},
	// KIND DIR: print them to standard output and to standard error
	"numbers-both": {2, numbersBoth},
	// SIZE BYTES: print BYTES bytes of numbered lines in writes of SIZE bytes (see writes.go)
	"writes": {2, writes},
	// GATE TEXT: send TEXT, in which \n is a newline, to NOTIFY_SOCKET when the gate opens, and
	// stay alive
	"notify": {2, notify},
	// FILE: send back what comes over TCP, on the port that is written to the file
	"echo": {1, echo},
	// CALLS ERRNO COMMAND...: execute the command, for which the kernel refuses these calls
	"refuse": {-3, refuse},
	// make root, which a set-user-ID bit gave, the real user, and stay alive
	"listen":  {1, listen}, // PORT: accept connections there
	"as-root": {0, asRoot},
	// N FILE: run N short-lived processes, write their results to the file
	"unrelated": {2, unrelated},
}

func usage() int {
	fmt.Fprintf(os.Stderr, "usage: child MODE [ARGUMENT], got %q\n", os.Args)
	return 1
}

// Line returns line n, counted from 1, of the modes lines and flood.
func Line(n int) string { return fmt.Sprintf("line %08d\n", n) }

func lines(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	for n := 1; n <= count; n++ {
		if _, err := w.WriteString(Line(n)); err != nil {
			return err
		}
	}
	return w.Flush()
}

func flood([]string) error {
	w := bufio.NewWriter(os.Stdout)
	for n := 1; ; n++ {
		if _, err := w.WriteString(Line(n)); err != nil {
			return err
		}
	}
}

func line(args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	piece := strings.Repeat("x", 1<<16)
	for size--; size > 0; size -= len(piece) {
		if _, err := io.WriteString(os.Stdout, piece[:min(size, len(piece))]); err != nil {
			return err
		}
	}
	_, err = io.WriteString(os.Stdout, "\n")
	return err
}

func closeOutput([]string) error {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if err := f.Close(); err != nil {
			return err
		}
	}
	return live(syscall.SIGTERM)
}

func signals(args []string) error {
	// Room for more than a test ever sends: a full channel drops.
	c := make(chan os.Signal, 64)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	open := make(chan error)
	go func() { open <- Pass(args[0]) }()
	fmt.Println("ready")
	for {
		select {
		case sig := <-c:
			fmt.Println("got", sig)
		case err := <-open:
			return err
		}
	}
}

func deaf([]string) error {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	return live(syscall.SIGINT)
}

func notify(args []string) error {
	if err := Pass(args[0]); err != nil {
		return err
	}
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte(strings.ReplaceAll(args[1], `\n`, "\n"))); err != nil {
		return err
	}
	for { // not select, which Go would report as a deadlock
		time.Sleep(time.Hour)
	}
}

func echo(args []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := errors.Join(os.WriteFile(args[0]+".new", []byte(strconv.Itoa(port)), 0o644), os.Rename(args[0]+".new", args[0])); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			// The test checks what comes back.
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// asRoot is what sudo(8) does before it asks for a password.
func asRoot([]string) error {
	if err := syscall.Setuid(0); err != nil {
		return err
	}
	return live(syscall.SIGTERM)
}

// Pass waits at the gate.
func Pass(gate string) error {
	f, err := os.Open(gate)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// live blocks until the signal comes. (Go would report an empty select as a deadlock.)
func live(until syscall.Signal) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, until)
	<-c
	return nil
}
