package host

import "time"

// A MainProcess is the main process of an instance, the root of its tree.
type MainProcess struct {
	Instance string
	Pid      int // 0: none
}

// A TreeUsage is the usage of an instance's processes other than its main process, as far as they
// are found.
type TreeUsage struct {
	CPU time.Duration // user and system time, including children that were waited for
	RSS int64         // bytes of resident memory; shared memory counts for each process

	Processes int
}
