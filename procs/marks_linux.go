package procs

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// marks are the variables by which superd knows those again whom it, or an earlier superd, has started, at whatever remove.
type marks struct {
	owner         string // the runtime directory
	instance, run string
	probe         bool // it is a check's
}

// askPatience bounds how long it is waited for processes that can't tell their marks just now, in all: for those who are in the midst of an exec it
// takes as long as they wait for the processor.
const askPatience = 500 * time.Millisecond

// mostEnviron is more than an exec gives a program, in bytes: arguments and environment together are 6 MiB at most. A process may claim more, see
// PR_SET_MM_ENV_END in prctl(2).
//
// Source: execve(2).
const mostEnviron = 8 << 20

// readMarks reads the marks of a process. told is false where it can't tell them just now: it sleeps uninterruptibly, so that the read might take as long, or is
// in the midst of an exec, in which it has left the one environment and has not got the other. The error is a shortage; a process that we may not read, or
// that is gone, tells nothing.
func readMarks(pid int) (m marks, told bool, err error) {
	s, err := readStat(pid)
	if err != nil {
		return marks{}, !isShortage(err), shortage(err)
	}
	return s.readMarks()
}

// readMarks is readMarks of the process that s was just read from.
func (s *procStat) readMarks() (m marks, told bool, err error) {
	switch {
	case s.dead || s.kernel, s.environ > mostEnviron:
		return marks{}, true, nil
	case s.bare || s.sleeps():
		return marks{}, false, nil
	}
	var usual [8 << 10]byte // on the stack: there are as many environments as processes, and each would be in memory that is touched for the first time
	text := usual[:]
	if s.environ >= len(text) {
		text = make([]byte, s.environ+1)
	}
	n, err := readSmall("/proc/"+strconv.Itoa(s.pid)+"/environ", text)
	if err != nil {
		return marks{}, !isShortage(err), shortage(err)
	}
	if n != s.environ { // it has executed something else since, and what is read of the one before ends where that was
		return marks{}, false, nil
	}
	for rest := text[:n]; len(rest) > 0; { // not by bytes.SplitSeq, for which the text would have to lie on the heap
		var variable []byte
		variable, rest, _ = bytes.Cut(rest, []byte{0})
		if !bytes.HasPrefix(variable, []byte("SUPERD_")) {
			continue
		}
		switch key, value, _ := strings.Cut(string(variable), "="); key {
		case "SUPERD_OWNER":
			m.owner = value
		case "SUPERD_INVOCATION_ID":
			m.run = value
		case "SUPERD_INSTANCE":
			m.instance = value
		case "SUPERD_PROBE":
			m.probe = true
		}
	}
	return m, true, nil
}

// shortage returns err if it says nothing of the process.
func shortage(err error) error {
	if isShortage(err) {
		return err
	}
	return nil
}

func isShortage(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM}, func(e error) bool { return errors.Is(err, e) })
}
