package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A ledger reads the log of one instance and finds lines that are missing, repeated, torn or out of
// order.
type ledger struct {
	instance string
	path     string // of the log file
	rest     []byte // begin of a line whose end is still to come

	run    string // of the last line
	last   int    // its number; 0 before the first
	ended  bool   // whether the run has printed its end
	lines  int
	runs   int
	faults []string

	// By stream: ledgers for the lines of labelled records; nil: no labels
	labels map[string]*ledger
	// By run: last line read, as lines may be repeated; nil: they may not
	repeats map[string]int
	open    []openEnd // runs without their end
}

// An openEnd is a run that was followed by another one before it printed its end.
type openEnd struct {
	run  string
	last int
}

// maxFaults is the number of faults reported of one log.
const maxFaults = 5

func (l *ledger) fault(format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, l.instance+": "+fmt.Sprintf(format, args...))
	}
}

// parse parses the next bytes of the log.
func (l *ledger) parse(b []byte) {
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
	if l.labels != nil {
		l.record(line)
		return
	}
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
	if l.isRepeat(run, number) {
		return
	}
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

// record passes a record to the ledger of its stream. It is one of format text (time, stream, line)
// or json.
func (l *ledger) record(record []byte) {
	if bytes.HasPrefix(record, []byte("{")) {
		var r struct {
			Stream, Line string
			Partial      bool
		}
		if err := json.Unmarshal(record, &r); err != nil {
			l.fault("not a record: %v: %.80q", err, record)
			return
		}
		if r.Partial {
			r.Stream += "+"
		}
		record = []byte("- " + r.Stream + " " + r.Line)
	}
	_, rest, _ := bytes.Cut(record, []byte(" "))
	stream, line, ok := bytes.Cut(rest, []byte(" "))
	name, partial := bytes.CutSuffix(stream, []byte("+"))
	of := l.labels[string(name)]
	switch {
	case of == nil || !ok:
		l.fault("not a record of either stream: %.80q", record)
	case bytes.HasPrefix(line, []byte(l.instance+" ")): // a partial line is repeated in full
		of.rest = append(of.rest[:0], line...)
	default:
		of.rest = append(of.rest, line...)
	}
	if of != nil && !partial {
		of.line(of.rest)
		of.rest = of.rest[:0]
	}
}

// isRepeat reports whether the line was read before, as may happen with records in flight when
// superd was killed.
func (l *ledger) isRepeat(run, number string) bool {
	if l.repeats == nil {
		return false
	}
	last, ok := l.repeats[run]
	n, err := strconv.Atoi(number)
	if err != nil {
		if ok && last < 0 {
			return true
		}
		l.repeats[run] = -1 // it has ended
		return false
	}
	if ok && (last < 0 || n <= last) {
		return true
	}
	l.repeats[run] = n
	return false
}

// sum returns the ledger, or those of its streams, with their findings.
func (l *ledger) sum() []*ledger {
	if l.labels == nil {
		return []*ledger{l}
	}
	for _, of := range l.labels {
		l.faults = append(l.faults, of.faults...)
		of.faults = nil
	}
	return []*ledger{l, l.labels["stdout"], l.labels["stderr"]}
}

// beginWithin returns the offset in a line at which the first line of another run begins: the
// previous run has lost the end of its last line. 0: nowhere.
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

// readRotated reads the rotated segments, the oldest first, and removes them.
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

// readAll reads the rest, when there is no writer any more.
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
	for _, of := range l.labels {
		of.close()
	}
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
		l.parse(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
