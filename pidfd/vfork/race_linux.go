//go:build race && (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

// RaceDetector reports a build with the race detector, whose atomic operations need one of Go's
// processors. With -cover the compiler adds such operations everywhere, also around the clone. So
// under the race detector a clone keeps its processor.
const RaceDetector = true
