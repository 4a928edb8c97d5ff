package procs

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
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

// askMarks reads the marks of a process. told is false where it can't tell them by the time patience: it sleeps uninterruptibly, so that the read might
// take as long, or is in the midst of an exec, in which it has left the one environment and has not got the other.
func askMarks(s procStat, patience time.Time) (m marks, told bool) {
	for {
		if !s.sleeps() {
			if m, told = readMarks(s.pid); told {
				return m, true
			}
		}
		if !time.Now().Before(patience) {
			return marks{}, false
		}
		time.Sleep(time.Millisecond)
		now, err := readStat(s.pid)
		if err != nil || now.key() != s.key() || now.dead {
			return marks{}, true
		}
		s = now
	}
}

// readMarks is askMarks for one that does not sleep. No error: a process that can't be read tells nothing.
func readMarks(pid int) (m marks, told bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return marks{}, true
	}
	if len(text) == 0 {
		s, err := readStat(pid)
		return marks{}, err != nil || !s.bare && !s.variables
	}
	for variable := range bytes.SplitSeq(text, []byte{0}) {
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
	return m, true
}
