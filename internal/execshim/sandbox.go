package execshim

import (
	"encoding/json"
	"strings"

	"superd/sandbox"
)

// A Sandbox restricts the program. Its methods are called in this order, on the thread that
// executes the program. Its errors are a [sandbox.Failure].
type Sandbox interface {
	// Isolate changes namespaces, mounts and the root.
	Isolate() error
	// Bound takes away what only a privileged thread may take away.
	Bound() error
	// KeepsCapabilities reports whether the thread must keep its capabilities when it changes its
	// user.
	KeepsCapabilities() bool
	// Restrict follows the change of the user.
	Restrict() error
	// LoadFilter is the last step before the exec.
	LoadFilter() error
	// Warnings returns what could not be enforced and does not have to be.
	Warnings() []sandbox.Failure
}

// warningMark begins the line of a warning in the report.
const warningMark = '?'

// warningLines returns warnings in the form that [Result] reads.
func warningLines(warnings []sandbox.Failure) (lines []byte) {
	for _, w := range warnings {
		text, err := json.Marshal(w)
		if err != nil {
			continue // it has strings and a number only
		}
		lines = append(append(append(lines, warningMark), text...), '\n')
	}
	return lines
}

// readWarnings splits a report into its warnings and the rest.
func readWarnings(report string) (warnings []sandbox.Failure, rest string) {
	for strings.HasPrefix(report, string(warningMark)) {
		line, after, _ := strings.Cut(report[1:], "\n")
		var w sandbox.Failure
		if json.Unmarshal([]byte(line), &w) == nil {
			warnings = append(warnings, w)
		}
		report = after
	}
	return warnings, report
}
