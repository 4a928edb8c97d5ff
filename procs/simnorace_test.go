//go:build !race

package procs

const (
	usualHistories = 3000
	plantDefects   = true
)
