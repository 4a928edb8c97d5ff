package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reserve is the number of descriptors that a process needs beside those of its connections.
const reserve = 32

// A limitError reports that the limit of descriptors does not allow so many connections.
type limitError struct {
	connections int
	limit       uint64 // of descriptors
}

func (e *limitError) Error() string {
	need := e.connections + reserve
	return fmt.Sprintf("%d connections need %d descriptors, and the limit of this process is %d: raise it with ulimit -Hn %d (as root), or LimitNOFILE= of a unit",
		e.connections, need, e.limit, need)
}

// needDescriptors raises the soft limit of descriptors to the hard limit. It returns a [limitError]
// if that is not enough for n connections.
func needDescriptors(n int) error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if lim.Cur < lim.Max {
		lim.Cur = lim.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			return fmt.Errorf("raise the limit of descriptors: %w", err)
		}
	}
	if uint64(n+reserve) > lim.Cur {
		return &limitError{n, lim.Cur}
	}
	return nil
}

// usage returns the processor time of this process and its peak resident memory.
func usage() (cpu time.Duration, memoryBytes int64, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0, fmt.Errorf("read resource usage: %w", err)
	}
	// Not u.Maxrss: that includes the process before its exec.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, 0, fmt.Errorf("read VmHWM in /proc/self/status: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), kib << 10, nil
}
