//go:build !race

package linux

const underRace = false
