//go:build linux

package main

import (
	"log/slog"
	"runtime"

	"superd/control/server"
	"superd/internal/threads"
	"superd/logs"
	"superd/logs/read"
	"superd/procs/eventlog"
	"superd/procs/journal"
	"superd/procs/linux"
)

// supervisorThreads is how many goroutines of the supervisor may block in the kernel at a time. The
// last four take signals, show lines, make the log directory, and make room for descriptors.
const supervisorThreads = linux.Threads + logs.Threads + eventlog.Threads + journal.Threads + server.Threads + 4

// keeperThreads is the same for the keeper. Its goroutines take signals, write its messages, start
// a supervisor, talk to it, and make room for descriptors.
const keeperThreads = 5

// prepareThreads makes all threads that superd will need, so that a limit of processes can't stop
// it later. Go gets a processor for each worker that moves output, beside those of the machine.
func prepareThreads() error {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + read.Workers())
	return threads.Reserve(supervisorThreads)
}

// reserveMore returns a function that makes threads beside those of prepareThreads.
func reserveMore(log *slog.Logger) func(more int) {
	return func(more int) {
		if err := threads.Reserve(supervisorThreads + more); err != nil {
			log.Warn("a limit of processes may end superd", "error", err)
		}
	}
}
