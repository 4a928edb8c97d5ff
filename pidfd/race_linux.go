//go:build race

package pidfd

// raceDetector reports a build with the race detector, whose atomic operations need one of Go's
// processors. With -cover the compiler adds such operations everywhere, also around the clone. So
// under the race detector a clone keeps its processor.
const raceDetector = true
