//go:build race

package procs

// Under the race detector a history takes twenty times as long, and there is nothing for it to find: each has one goroutine.
const (
	usualHistories = 300
	plantDefects   = false
)
