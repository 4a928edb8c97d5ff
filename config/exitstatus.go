package config

import (
	"slices"
	"syscall"

	"superd/config/codec"
)

// An ExitStatus is how a process ends.
type ExitStatus = codec.ExitStatus

// KilledBy returns the ExitStatus of a process that the signal has ended.
func KilledBy(sig syscall.Signal) ExitStatus { return codec.KilledBy(sig) }

// sortedSet returns the values in order, each once.
func sortedSet[T int | ExitStatus](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}
