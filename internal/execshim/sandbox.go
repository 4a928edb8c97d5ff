package execshim

import (
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

// warningMark precedes each warning in a report.
const warningMark = "?"

// reportWarnings returns warnings in the form that [Result] reads.
func reportWarnings(warnings []sandbox.Failure) (report string) {
	for i := range warnings {
		report += warningMark + warnings[i].Report()
	}
	return report
}

// readWarnings splits a report into its warnings and the rest.
func readWarnings(report string) (warnings []sandbox.Failure, rest string) {
	for {
		text, found := strings.CutPrefix(report, warningMark)
		w, rest, ok := sandbox.ReadFailure(text)
		if !found || !ok {
			return warnings, report
		}
		warnings, report = append(warnings, w), rest
	}
}
