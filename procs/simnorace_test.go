//go:build !race

package procs

const (
	usualHistories = 3000
	freshHistories = 2000
	plantDefects   = true
)
