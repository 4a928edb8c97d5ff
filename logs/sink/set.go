package sink

import (
	"io"
	"log/slog"
	"time"
)

// A Set has the sinks of a process: its connections, its loggers and its standard output. It is
// safe for concurrent use.
type Set struct {
	transports   transports
	loggerInputs loggerInputs
	stdout       *sharedOutput
}

// Init prepares s, which is zero. It logs to log when a receiver stalls, and when it reads again.
func (s *Set) Init(log *slog.Logger, now func() time.Time) {
	s.transports.log, s.transports.now, s.loggerInputs.log = log, now, log
	s.SetStdout(stdoutFD)
}

// SetStdout sets the descriptor of standard output, before there are sinks.
func (s *Set) SetStdout(fd int) { s.stdout = newSharedOutput(fd) }

// Open returns the sink of a kind at an address, nil for a file.
func (s *Set) Open(k Kind, address string) Sink {
	switch k {
	case Journald, Syslog:
		return &messenger{transport: s.transports.get(address)}
	case OwnStdout:
		return &ownOutput{s.stdout}
	case Command:
		return s.loggerInputs.get(address)
	}
	return nil
}

// BetweenRecords returns a writer to w, which has the same target as superd's own standard output.
// Each write waits until no record is being written there, so that writes to w cut none.
func (s *Set) BetweenRecords(w io.Writer) io.Writer { return &interleavedWriter{s.stdout, w} }
