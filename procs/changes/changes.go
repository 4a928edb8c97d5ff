// Package changes says what the difference between two configurations concerns.
package changes

import (
	"fmt"
	"slices"
	"strings"

	"superd/config"
)

// Summary counts the changes of programs, by kind, and names those of superd.
func Summary(diff *config.Diff) string {
	var parts []string
	for _, kind := range []config.ChangeKind{config.ProgramAdded, config.ProgramRemoved, config.AppliedLive, config.RestartNeeded} {
		if n := len(diff.Names(kind)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	for _, k := range diff.Superd {
		parts = append(parts, k.String())
	}
	return strings.Join(parts, ", ")
}

// ConcernGraph reports whether a difference may change the dependency graph.
func ConcernGraph(diff config.Diff) bool {
	return slices.ContainsFunc(diff.Programs, func(c config.Change) bool {
		switch c.Kind {
		case config.Unchanged:
			return false
		case config.ProgramAdded, config.ProgramRemoved:
			return true
		case config.AppliedLive, config.RestartNeeded: // depends on the keys
		}
		return c.Key("requires") != nil || c.Key("after") != nil || c.Key("replicas") != nil || c.Key("type") != nil ||
			len(c.Program.Invalid) > 0 ||
			slices.ContainsFunc(c.Keys, func(k config.KeyChange) bool { return k.Corrected })
	})
}
