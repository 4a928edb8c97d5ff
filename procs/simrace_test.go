//go:build race

package procs

// Under the race detector a history takes twenty times as long and can't contain a race: each has
// one goroutine.
const (
	defaultHistories = 300
	freshHistories   = 0
	plantDefects     = false
)
