// Package frame makes records of lines, and finds the lines in records.
//
// A [Format] is how lines are written: as they are, as records of a file, or as messages to a sink.
// A [Recorder] makes records of text that is the beginning of what a pipe has; which of it is a
// whole line, [Next] decides. The package is pure: it owns no descriptor and reads no clock.
package frame

// A Format is how output is written to its file.
type Format string

// The formats. A record is a line of the file. A line of output longer than 16 KiB becomes several
// records, of which all but the last are marked as partial.
const (
	Raw Format = "raw" // byte for byte
	// Direct is as raw, but the program writes to the file itself, which is not rotated.
	Direct Format = "direct"
	// Text has records: time, stream, line, separated by blanks. A + after the stream means that
	// the line is partial.
	Text Format = "text"
	JSON Format = "json" // records: objects as in [Record]
)

// Records reports whether lines are written as records of a file.
func (f Format) Records() bool { return f == Text || f == JSON }

// Messages reports whether records are messages, each preceded by its length.
func (f Format) Messages() bool { return f == Journal || f == Syslog }

// The formats of messages to sinks.
const (
	Journal Format = "journald"
	Syslog  Format = "syslog"
)

// A Record is what the format json writes for a line.
type Record struct {
	Time     string `json:"time"` // when superd read it: RFC 3339 with microseconds, UTC
	Program  string `json:"program"`
	Instance string `json:"instance"`
	Run      string `json:"run"`     // the SUPERD_INVOCATION_ID of the run
	Stream   string `json:"stream"`  // stdout; stderr; superd for a drop record
	Partial  bool   `json:"partial"` // the line continues in the next record of the stream
	Line     string `json:"line"`    // invalid UTF-8 becomes U+FFFD
}

// The names of streams in records.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

const (
	MaxLine = 16 << 10 // bytes of a line in one record
	// BufferBytes is how much is written at a time. The longest record is less than half of it.
	BufferBytes = 256 << 10
)

// TimeLayout is a time layout whose results sort as text.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// DropStream is the stream of superd's own messages about an output.
const DropStream = "superd"
