//go:build !race && (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

const RaceDetector = false
