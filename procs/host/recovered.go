package host

import (
	"fmt"
	"strconv"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
)

// A RecoveredProcess is what a predecessor has recorded of one instance, for [Host.Adopt].
type RecoveredProcess struct {
	Instance string
	Program  *config.Program // for its limits
	Tree     Tree
	Process  pidfd.Identity // main process or hook; zero: none
	PidFD    int            // its pidfd; -1 if the keeper had none. Host.Adopt owns it
	Outputs  []RecoveredOutput

	NotifySocket string // path of the run's notify socket; empty: none
	NotifyFD     int    // the notify socket; -1 if the keeper had none: Host.Adopt makes another
	ReadyNumber  int    // the process's descriptor number of its readiness pipe; 0: none
	// read end of that pipe; -1 if the keeper had none: Host.Adopt opens it through the process
	ReadyFD int

	Found Process // nil: the process is gone
	Ended bool    // it has ended, perhaps before the read ends were opened
	Err   error   // cause why it is unknown whether the process lives
}

// A RecoveredOutput is a FIFO of a predecessor.
type RecoveredOutput struct {
	Stream logs.Stream // or input
	FIFO   string      // its path
	ReadFD int         // its read end; -1 if the keeper had none: Host.Adopt opens the FIFO

	Gap bool  // the keeper had none
	Err error // why the FIFO can't be opened; ReadFD is then -1
}

// A LookupRequest asks for a started process of which only the run is known.
type LookupRequest struct {
	Instance string
	Run      string // invocation id
	After    uint64 // lower bound of its start time, in clock ticks since boot

	Found pidfd.Identity // zero: not found
}

// A Leftover is a process that a predecessor has started and whose role in its instance is unknown.
type Leftover struct {
	Pid      int
	Command  string // its name, as in ps(1)
	Instance string
	Run      string // invocation id
	Leads    bool   // session leader, as is each process that superd started itself

	// Eldest is the identity of the process if all other session leaders of its run descend from
	// it; otherwise zero.
	Eldest pidfd.Identity
}

// LeftoverText returns a list of the processes that quarantine an instance.
func LeftoverText(leftovers []Leftover) string {
	const shown = 5
	if len(leftovers) == 0 {
		return "in its process tree" // it has no environment tags that the search could find
	}
	text := ""
	for i, leftover := range leftovers {
		if i == shown {
			return text + fmt.Sprintf(" and %d more", len(leftovers)-shown)
		}
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(leftover.Pid) + " (" + leftover.Command + ")"
	}
	return text
}
