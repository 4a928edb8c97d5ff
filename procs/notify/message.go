// Package notify receives what programs report about themselves: messages of sd_notify(3) on a
// socket of each run, and the newline that s6 programs write to a descriptor.
//
// All of it comes from programs and is not trusted. The kernel names the sender, sizes are bounded,
// text is made safe for terminals, and no program can keep the loop busy.
package notify

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"superd/internal/terminal"
)

// A Message is the contents of one datagram. Fields that it does not set are zero.
type Message struct {
	Ready, Reloading, Stopping bool
	Watchdog                   bool // watchdog ping
	// The program requests the reaction to a missed watchdog deadline
	WatchdogTrigger bool
	Barrier         bool // the sender waits until earlier messages are handled
	HasStatus       bool
	// One line, safe for a terminal, at most maxStatus columns; "" for none
	Status         string
	MainPID        int
	ExtendTimeout  time.Duration // counted from now
	WatchdogPeriod time.Duration // new period
	Monotonic      time.Duration // when Reloading began, on the scale of [loop.Loop.Now]
	Errno          syscall.Errno
}

const (
	maxMessage = 4096 // bytes of a datagram, as in systemd
	maxStatus  = 200  // columns
)

// Parse parses a datagram: one assignment per line, of which the first of each name counts. Unknown
// names are skipped, such as those of systemd's descriptor store. Invalid values are skipped, too:
// err names the first, and the message has the other assignments. A datagram that contains a NUL is
// invalid.
//
// Source: sd_notify(3), systemd:src/core/service.c.
func Parse(datagram []byte) (m Message, err error) {
	datagram = bytes.TrimSuffix(datagram, []byte{0})
	if bytes.IndexByte(datagram, 0) >= 0 {
		return Message{}, fmt.Errorf("parse message: it contains a NUL byte")
	}
	seen := make(map[string]bool)
	for line := range strings.SplitSeq(string(datagram), "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || seen[name] {
			continue
		}
		assign := assignments[name]
		if assign == nil {
			continue
		}
		seen[name] = true
		if !assign(&m, value) && err == nil {
			err = fmt.Errorf("parse message: %s is not a value of %s", strconv.QuoteToASCII(value[:min(len(value), 40)]), name)
		}
	}
	return m, err
}

// assignments store a value in a message, and return false if it is invalid.
var assignments = map[string]func(m *Message, value string) bool{
	"READY":     flag(func(m *Message) { m.Ready = true }),
	"RELOADING": flag(func(m *Message) { m.Reloading = true }),
	"STOPPING":  flag(func(m *Message) { m.Stopping = true }),
	"BARRIER":   flag(func(m *Message) { m.Barrier = true }),
	"WATCHDOG": func(m *Message, value string) bool {
		m.Watchdog, m.WatchdogTrigger = value == "1", value == "trigger"
		return m.Watchdog || m.WatchdogTrigger
	},
	"STATUS": func(m *Message, value string) bool {
		m.HasStatus, m.Status = true, sanitizeStatus(value)
		return true
	},
	"MAINPID": func(m *Message, value string) bool {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n < 2 {
			return false
		}
		m.MainPID = int(n)
		return true
	},
	"ERRNO": func(m *Message, value string) bool {
		n, err := strconv.ParseUint(value, 10, 12) // at most 4095
		if err != nil {
			return false
		}
		m.Errno = syscall.Errno(n)
		return true
	},
	"EXTEND_TIMEOUT_USEC": microseconds(func(m *Message) *time.Duration { return &m.ExtendTimeout }),
	"WATCHDOG_USEC":       microseconds(func(m *Message) *time.Duration { return &m.WatchdogPeriod }),
	"MONOTONIC_USEC":      microseconds(func(m *Message) *time.Duration { return &m.Monotonic }),
}

// flag returns an assignment that calls set if the value is 1, and ignores other values.
func flag(set func(*Message)) func(*Message, string) bool {
	return func(m *Message, value string) bool {
		if value == "1" {
			set(m)
		}
		return true
	}
}

func microseconds(field func(*Message) *time.Duration) func(*Message, string) bool {
	return func(m *Message, value string) bool {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || n > math.MaxInt64/uint64(time.Microsecond) {
			return false
		}
		*field(m) = time.Duration(n) * time.Microsecond
		return true
	}
}

// sanitizeStatus returns a status as it is shown: truncated and safe for a terminal.
func sanitizeStatus(s string) string {
	if most := 4 * maxStatus; len(s) > most { // more bytes would take no column
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return terminal.Cut(terminal.Sanitize(strings.TrimSpace(s)), maxStatus)
}
