package torture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A ledger reads the log of one instance and finds lines that are missing, doubled, torn or out of order.
type ledger struct {
	instance string
	path     string // of the log file
	rest     []byte // a line whose end is still to come

	run    string // of the last line
	last   int    // its number; 0 before the first
	ended  bool   // the run has said that it was its last
	lines  int
	runs   int
	faults []string
	open   []openEnd // runs of which the end is missing
}

// An openEnd is a run that was followed by another one without having said its last number.
type openEnd struct {
	run  string
	last int
}

// maxFaults is how many faults are told of one log.
const maxFaults = 5

func (l *ledger) fault(format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, l.instance+": "+fmt.Sprintf(format, args...))
	}
}

// feed takes what comes next in the log.
func (l *ledger) feed(b []byte) {
	for {
		line, after, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			l.rest = append(l.rest, b...)
			return
		}
		b = after
		if len(l.rest) > 0 {
			line = append(l.rest, line...)
			l.rest = l.rest[:0]
		}
		l.line(line)
	}
}

func (l *ledger) line(line []byte) {
	if begin := l.beginWithin(line); begin > 0 {
		l.close()
		l.run = ""
		line = line[begin:]
	}
	fields := strings.Fields(string(line))
	if len(fields) < 3 || fields[0] != l.instance {
		l.fault("after line %d of run %.8s: %.80q", l.last, l.run, line)
		return
	}
	run, number := fields[1], fields[2]
	if run != l.run {
		l.close()
		l.run, l.last, l.ended = run, 0, false
		l.runs++
	}
	if l.ended {
		l.fault("run %.8s goes on after its end: %.80q", run, line)
	}
	if number == "end" && len(fields) == 4 {
		l.ended = true
		if fields[3] != strconv.Itoa(l.last) {
			l.fault("run %.8s ended at line %s, the last one in the log is %d", run, fields[3], l.last)
		}
		return
	}
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		l.fault("after line %d of run %.8s: %.80q", l.last, run, line)
	case n != l.last+1:
		l.fault("line %d of run %.8s follows line %d", n, run, l.last)
		l.last = n
	default:
		l.last = n
		l.lines++
	}
}

// beginWithin returns where in a line the first line of another run begins: the run before has lost the end of its last one. 0: nowhere.
func (l *ledger) beginWithin(line []byte) int {
	at := bytes.LastIndex(line, []byte(l.instance+" "))
	if at <= 0 {
		return 0
	}
	fields := strings.Fields(string(line[at:]))
	if len(fields) < 3 || fields[1] == l.run || fields[2] != "1" {
		return 0
	}
	return at
}

// close ends the run that was read last.
func (l *ledger) close() {
	if l.run != "" && !l.ended {
		l.open = append(l.open, openEnd{l.run, l.last})
	}
}

// readRotated reads the files that were rotated away, the oldest first, and removes them.
func (l *ledger) readRotated() error {
	rotated, err := filepath.Glob(l.path + ".*") // by name, which is by time
	if err != nil {
		return err
	}
	for _, path := range rotated {
		if err := l.read(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads the rest, when nobody writes any more.
func (l *ledger) readAll() error {
	if err := l.readRotated(); err != nil {
		return err
	}
	if err := l.read(l.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(l.rest) > 0 {
		l.fault("the log ends within a line: %.80q", l.rest)
	}
	l.close()
	return nil
}

func (l *ledger) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		l.feed(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
