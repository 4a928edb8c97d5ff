//go:build !race

package procs

const (
	defaultHistories = 3000
	freshHistories   = 2000
	plantDefects     = true
)
