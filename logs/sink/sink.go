// Package sink sends records to journald, syslog, loggers and superd's own standard output.
//
// A [Set] owns what programs share there: a connection for each address, the input of each logger,
// and standard output. A [Sink] belongs to one log. A put waits while the receiver stalls, until
// the log is closed; only for standard output does it take a thread. What was put is in the
// receiver's hands: nothing is kept here.
package sink

import (
	"errors"
	"fmt"
	"time"
)

// A Kind is what lines go to instead of a file.
type Kind string

// The sinks; "" is a file.
const (
	Journald  Kind = "journald" // by its native protocol
	Syslog    Kind = "syslog"   // RFC 5424
	OwnStdout Kind = "stdout"   // superd's own standard output
	Command   Kind = "command"  // the standard input of a logger, a FIFO whose path is the address
)

// Destination returns the name for log messages of a sink at an address.
func (k Kind) Destination(address string) string {
	switch k {
	case OwnStdout:
		return "superd's standard output"
	case Command:
		return "its logger"
	default:
		return fmt.Sprintf("%s at %s", k, address)
	}
}

// A Sink takes records. It belongs to one collector, and is used by one goroutine at a time.
type Sink interface {
	// Put writes records, and before them dropRecord if it is not nil; it sets dropRecord to nil
	// when that is written. It returns how many bytes are delivered: whole records, even after an
	// error. It ends early when stop is closed.
	Put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error)
	Close()
}

// DefaultAddress returns the address of a sink if the options have none.
func DefaultAddress(k Kind) string {
	switch k {
	case Journald:
		return "/run/systemd/journal/socket"
	case Syslog:
		return "/dev/log"
	default:
		return ""
	}
}

var errClosed = errors.New("the output is closed")

// sendTimeout is how long one attempt to send a message takes. After the first one the stall is
// logged.
const sendTimeout = time.Second
