package logs

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// A Sink is where lines go instead of a file.
type Sink string

// The sinks; "" is a file.
const (
	Journald  Sink = "journald" // by its native protocol
	Syslog    Sink = "syslog"   // RFC 5424
	OwnStdout Sink = "stdout"   // superd's own standard output
	Command   Sink = "command"  // the standard input of a logger, a FIFO whose path is the address
)

// A sink takes records. It belongs to one collector, and is used by one goroutine at a time.
type sink interface {
	// put writes records, and before them dropRecord if it is not nil; it sets dropRecord to nil
	// when that is written. It returns how many bytes are delivered: whole records, even after an
	// error. It ends early when stop is closed.
	put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error)
	close()
}

// newSink returns the sink of the options, nil for a file.
func (s *Store) newSink(o *setting) sink {
	switch o.Sink {
	case Journald, Syslog:
		return &messenger{transport: s.transports.get(o.Address)}
	case OwnStdout:
		return &ownOutput{s.stdout}
	case Command:
		return s.loggerInputs.get(o.Address)
	}
	return nil
}

// defaultAddress returns the address of a sink if the options have none.
func defaultAddress(s Sink) string {
	switch s {
	case Journald:
		return "/run/systemd/journal/socket"
	case Syslog:
		return "/dev/log"
	default:
		return ""
	}
}

// A dialAddress is an address in the form of package net.
type dialAddress struct{ network, address string }

// parseAddress returns how a sink is reached. An address is the path of a datagram socket,
// udp://HOST:PORT or tcp://HOST:PORT.
func parseAddress(address string) dialAddress {
	if network, rest, ok := strings.Cut(address, "://"); ok {
		return dialAddress{network, rest}
	}
	return dialAddress{"unixgram", address}
}

// frame stores the length of a message before it. The record begins in dst at start, with room for
// the length.
func frame(dst []byte, start int) []byte {
	binary.NativeEndian.PutUint32(dst[start:], uint32(len(dst)-start-frameHead))
	return dst
}

const frameHead = 4 // bytes of the length before a message

// messages calls yield with each message in records, and with the end of its record.
func messages(records []byte, yield func(message []byte, end int) bool) {
	for at := 0; at+frameHead <= len(records); {
		n := int(binary.NativeEndian.Uint32(records[at:]))
		end := at + frameHead + n
		if !yield(records[at+frameHead:end], end) {
			return
		}
		at = end
	}
}

type messenger struct{ transport *transport }

func (m *messenger) put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error) {
	if *dropRecord != nil {
		messages(*dropRecord, func(message []byte, _ int) bool {
			err = m.transport.send(message, stop)
			return err == nil
		})
		if err != nil {
			return 0, err
		}
		*dropRecord = nil
	}
	messages(records, func(message []byte, end int) bool {
		if err = m.transport.send(message, stop); err == nil {
			written = end
		}
		return err == nil
	})
	return written, err
}

func (m *messenger) close() { m.transport.release() }

// destination returns the name of the sink or file for log messages.
func (o *setting) destination() string {
	switch {
	case o.Sink == OwnStdout:
		return "superd's standard output"
	case o.Sink == Command:
		return "its logger"
	case o.Sink != "":
		return fmt.Sprintf("%s at %s", o.Sink, o.Address)
	}
	return o.Path
}
