// Package doctor finds out what superd can do on this machine: which system calls and rights it
// has, what it does without the missing ones, and which configuration keys it can't apply.
//
// Each finding is the result of a trial. Version numbers are not used, since seccomp filters,
// containers and rights matter, too.
package doctor

import (
	"fmt"
	"io"
	"strings"
)

// A Finding is the result of one trial.
type Finding struct {
	Name    string `json:"name"` // a system call, a feature of the kernel, or a right
	Works   bool   `json:"works"`
	Needed  bool   `json:"needed"`            // superd can't run without it
	For     string `json:"for"`               // what superd uses it for
	Error   string `json:"error,omitempty"`   // why it does not work
	Instead string `json:"instead,omitempty"` // what superd does without it
	// Configuration keys that superd can't apply without it
	Keys   []string `json:"keys,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
}

// A Report holds all findings.
type Report struct {
	OK       bool      `json:"ok"` // all that superd needs works
	Findings []Finding `json:"findings"`
}

func reportOf(findings []Finding) Report {
	r := Report{OK: true, Findings: findings}
	for _, f := range findings {
		r.OK = r.OK && (f.Works || !f.Needed)
	}
	return r
}

// Print writes the report for people: one line for each finding, and below it the consequences if
// it does not work.
func (r Report) Print(w io.Writer) error {
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Name))
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", f.state(), width, f.Name, f.For)
		for _, line := range f.consequences() {
			fmt.Fprintf(&b, "%-8s %-*s    %s\n", "", width, "", line)
		}
	}
	summary := "superd can run here"
	if !r.OK {
		summary = "superd can't run here: it needs what is MISSING"
	}
	fmt.Fprintln(&b, summary)
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Finding) state() string {
	switch {
	case f.Works:
		return "works"
	case f.Needed:
		return "MISSING"
	}
	return "lacks"
}

// consequences returns what a user should know about a finding that does not work.
func (f Finding) consequences() (lines []string) {
	if f.Works {
		return nil
	}
	if f.Error != "" {
		lines = append(lines, "because: "+f.Error)
	}
	if f.Instead != "" {
		lines = append(lines, "instead: "+f.Instead)
	}
	if len(f.Keys) > 0 {
		lines = append(lines, "no effect: "+strings.Join(f.Keys, ", "))
	}
	if f.Remedy != "" {
		lines = append(lines, "remedy: "+f.Remedy)
	}
	return lines
}

// A MissingError reports a finding that superd needs and that does not work.
type MissingError struct{ Finding }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: superd needs it to %s; %s (`superd doctor` lists what superd needs)",
		e.Finding.Error, e.For, e.Remedy)
}
