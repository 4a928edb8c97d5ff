//go:build !race

package pidfd

const raceDetector = false
