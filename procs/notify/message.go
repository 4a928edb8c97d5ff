// Package notify hears what programs tell superd of themselves: messages of sd_notify(3) on a socket of each run, and the newline that
// s6 programs write to a descriptor.
//
// All of it comes from programs and is not to be trusted: who sends is told by the kernel, what is sent is bounded, what is shown is
// harmless in a terminal, and no program can keep the loop busy.
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

	"superd/terminal"
)

// A Message is what one datagram says. What it doesn't say is zero.
type Message struct {
	Ready, Reloading, Stopping bool
	Watchdog                   bool // the program lives
	WatchdogTrigger            bool // the program asks to be treated as if it had missed its deadline
	Barrier                    bool // the sender waits until the messages before this one are dealt with
	HasStatus                  bool
	Status                     string // one line, fit for a terminal, at most maxStatus columns; "" to show none
	MainPID                    int
	ExtendTimeout              time.Duration // from now
	WatchdogPeriod             time.Duration // the new one
	Monotonic                  time.Duration // when Reloading began, as [loop.Loop.Now] counts
	Errno                      syscall.Errno
}

const (
	maxMessage = 4096 // bytes of a datagram, as with systemd
	maxStatus  = 200  // columns
)

// Parse reads a datagram: assignments, a line each, of which the first of each name counts. Names that superd does not know are
// passed over, those of systemd's descriptor store among them. So are values that can't be: err names the first of them,
// and the message has the others. A datagram with a NUL within says nothing.
//
// Source: sd_notify(3), systemd:src/core/service.c.
func Parse(datagram []byte) (m Message, err error) {
	datagram = bytes.TrimSuffix(datagram, []byte{0})
	if bytes.IndexByte(datagram, 0) >= 0 {
		return Message{}, fmt.Errorf("parse message: it has a NUL in it")
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

// assignments report whether the value is one.
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
		m.HasStatus, m.Status = true, harmless(value)
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
		n, err := strconv.ParseUint(value, 10, 12) // 4095 is the greatest
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

// flag sets a field if the value is 1. Others say nothing.
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

// harmless returns as much of a status as is shown.
func harmless(s string) string {
	if most := 4 * maxStatus; len(s) > most { // beyond it are bytes that take no column
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return terminal.Cut(terminal.Sanitize(strings.TrimSpace(s)), maxStatus)
}
