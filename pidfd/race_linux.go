//go:build race

package pidfd

// raceDetector: what it does at each atomic operation needs one of Go's processors. With -cover the compiler puts such operations everywhere, also where a
// birth goes on. So under the race detector a birth keeps its processor.
const raceDetector = true
