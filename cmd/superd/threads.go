package main

import (
	"runtime"

	"superd/control/server"
	"superd/logs"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/journal"
	"superd/threads"
)

// waiting is how many goroutines of superd may wait in the kernel at a time; four of them are the one that takes signals, the
// one that shows lines, the one that looks whether there is a log directory and the one that makes room for descriptors.
const waiting = procs.Threads + logs.Threads + eventlog.Threads + journal.Threads + server.Threads + 4

// keeperWaiting is the same for the keeper: one goroutine for signals, one for its messages, one that starts a supervisor, one that
// talks to it and one that makes room for descriptors.
const keeperWaiting = 5

// prepareThreads has superd do without new threads from here on. Go gets processors for those who move output, beside those of the machine for all others.
func prepareThreads() error {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + logs.Hands())
	return threads.Reserve(waiting)
}
