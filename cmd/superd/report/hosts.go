package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"superd/internal/escape"
	"superd/internal/terminal"
)

// A Fleet prints what a command prints for several hosts. Lines appear as they come, after
// the name of their host. Tables and JSON values are joined at the end.
type Fleet struct {
	stdout, stderr io.Writer
	json           bool
	width          int     // of the column of names
	hosts          []*Host // in the order given

	mu sync.Mutex // for both writers
}

// NewFleet returns a Fleet for hosts of these names. asJSON: the command prints JSON.
func NewFleet(stdout, stderr io.Writer, names []string, asJSON bool) *Fleet {
	f := &Fleet{stdout: stdout, stderr: stderr, json: asJSON}
	for _, name := range names {
		h := &Host{fleet: f, name: name}
		h.Errors = &errorLines{h}
		f.hosts = append(f.hosts, h)
		f.width = max(f.width, terminal.Width(terminal.Sanitize(name)))
	}
	return f
}

// Host returns the output of the host with that index.
func (f *Fleet) Host(i int) *Host { return f.hosts[i] }

// A Host is the standard output of a command for one host. It belongs to the goroutine of
// that host until its end.
type Host struct {
	Errors io.Writer // standard error of the command

	fleet *Fleet
	name  string
	rest  []byte // incomplete line

	table  *terminal.Table // what the command printed as a table; nil: nothing
	values []any           // JSON objects that it printed, not as lines
	lines  bool            // it printed lines
	reason string          // why the command failed; empty: it did not, or has said why
	status int             // its exit status
}

// Write implements [io.Writer] for lines.
func (o *Host) Write(b []byte) (int, error) {
	o.lines = true
	o.rest = append(o.rest, b...)
	end := bytes.LastIndexByte(o.rest, '\n') + 1
	for line := range bytes.Lines(o.rest[:end]) {
		if err := o.line(o.fleet.stdout, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return 0, err
		}
	}
	o.rest = append(o.rest[:0], o.rest[end:]...)
	return len(b), nil
}

// line prints one line of the host.
func (o *Host) line(w io.Writer, line []byte) error {
	f := o.fleet
	text := make([]byte, 0, f.width+len(line)+3)
	if f.json && w == f.stdout {
		text = append(o.withHost(line), '\n')
	} else {
		name := terminal.Sanitize(o.name)
		text = append(text, name...)
		text = append(text, strings.Repeat(" ", f.width-terminal.Width(name)+2)...)
		text = append(append(text, line...), '\n')
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := w.Write(text)
	return err
}

// withHost returns JSON with the host as the first member of an object, or of each object in an
// array. Other values are returned as they are.
func (o *Host) withHost(value []byte) []byte {
	value = bytes.TrimSpace(value)
	host, err := escape.Marshal(o.name)
	if err != nil || len(value) == 0 {
		return value
	}
	switch value[0] {
	case '{':
		out := append(append([]byte(`{"host":`), host...), ',')
		if rest := bytes.TrimSpace(value[1:]); len(rest) > 0 && rest[0] == '}' {
			out = out[:len(out)-1]
		}
		return append(out, value[1:]...)
	case '[':
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil {
			return value
		}
		out := []byte("[")
		for i, e := range elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, o.withHost(e)...)
		}
		return append(out, ']')
	}
	return value
}

// errorLines is the standard error of a command for one host.
type errorLines struct{ out *Host }

// Write implements [io.Writer] for whole lines.
func (e *errorLines) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if err := e.out.line(e.out.fleet.stderr, bytes.TrimRight(line, "\n")); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// End takes the result of the command. The reason for a failure is shown where the result would be.
// It is one line, empty without a failure or if the command has printed it.
func (o *Host) End(reason string, status int) {
	if len(o.rest) > 0 {
		_, _ = o.Write([]byte("\n"))
	}
	o.reason, o.status = strings.TrimPrefix(reason, "connect to "+terminal.Sanitize(o.name)+": "), status
}

// Finish prints what is printed at the end, and returns the highest exit status.
func (f *Fleet) Finish() (status int, err error) {
	switch {
	case f.json:
		err = f.printJSON()
	case slices.ContainsFunc(f.hosts, func(o *Host) bool { return o.table != nil }):
		err = f.printTable()
	default:
		for _, o := range f.hosts {
			if o.reason != "" {
				fmt.Fprintln(o.Errors, o.reason)
			}
		}
	}
	for _, o := range f.hosts {
		status = max(status, o.status)
	}
	return status, err
}

// printTable prints the tables of all hosts as one. A host without one has a row with the reason.
func (f *Fleet) printTable() error {
	var parts []terminal.Part
	for _, o := range f.hosts {
		part := terminal.Part{Name: terminal.Sanitize(o.name), Table: o.table}
		if o.reason != "" {
			part.Note = terminal.Cell{Text: o.reason, Colour: terminal.Red}
		}
		parts = append(parts, part)
	}
	return Table(f.stdout, terminal.Join("HOST", parts))
}

// A hostError stands in JSON for the result of a host on which a command failed.
type hostError struct {
	Error string `json:"error"`
}

// printJSON prints the objects of all hosts as one array, and in it for each host that failed an
// object with the reason. If the command prints lines, that object is one, too.
func (f *Fleet) printJSON() error {
	all := []json.RawMessage{}
	for _, o := range f.hosts {
		values := o.values
		if o.reason != "" {
			values = append(values, hostError{o.reason})
		}
		for _, v := range values {
			text, err := escape.Marshal(v)
			if err != nil {
				return fmt.Errorf("encode JSON: %w", err)
			}
			all = append(all, o.withHost(text))
		}
	}
	if !slices.ContainsFunc(f.hosts, func(o *Host) bool { return o.lines }) {
		return JSON(f.stdout, all)
	}
	for _, v := range all {
		if _, err := f.stdout.Write(append(v, '\n')); err != nil {
			return err
		}
	}
	return nil
}
