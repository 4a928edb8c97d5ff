// Package follow reads logs: the last lines, lines of a time or a run, and what is appended.
//
// It reads the files of a [Log], never a FIFO, and never on the loop. A slow reader blocks nothing:
// what was removed before it was read is reported as missing. A [Reading] merges several logs by
// time. Each function reads on the goroutine of its caller; what readers share is [Readers].
package follow

import "superd/logs/segment"

// A Log is one log of a program, as its writer shows it to readers. A program has two if standard
// error has a file of its own. Values of Log are comparable, and safe for concurrent use.
type Log interface {
	Name() string    // of the instance
	Program() string // by now
	OfStderr() bool  // it is standard error's own log

	// Segments returns the files that are written to by now, nil while nothing was written there,
	// and whether they are final.
	Segments() (segs *segment.Log, final bool)
	Unwritten() *segment.Log // of the path, for a log whose Segments are nil

	Notify(f func()) (cancel func()) // calls f after each append, and when the writer is closed
	MinFree() int64                  // bytes that remain free where a reader unpacks files
	Readers() *Readers

	Destination() string                // where output goes instead of a file; "": nowhere else
	OutageText() string                 // why output does not get into it; "": it does
	RecentLine() (line string, ok bool) // the newest line, of output that goes elsewhere
}
