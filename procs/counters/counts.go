// Package counters counts what happens to instances, for metrics. It is pure: it reads no clock and
// no process.
//
// [Counts] are in the record of their instance, so a successor has them together with what they
// count. [Totals] are of what changes without a record: bytes of output and processor time. They
// are recorded when a client gets them, so a total that was reported never decreases.
package counters

import (
	"encoding/json"
	"iter"
	"time"

	"superd/procs/fsm"
)

// Counts counts the runs of an instance.
type Counts struct {
	Starts     Starts `json:"starts,omitzero"`
	NotStarted uint32 `json:"not_started,omitempty"` // starts that failed
	Exits      Exits  `json:"exits,omitzero"`
	// Processor time of the main processes that ended
	CPU time.Duration `json:"cpu,omitempty"`
}

// Exit counts the end of a main process.
func (c *Counts) Exit(r Result, cpu time.Duration) {
	c.Exits[r]++
	c.CPU += cpu
}

// startReasons are the reasons of starts. The last one stands for all others.
var startReasons = [...]fsm.ReasonKind{
	fsm.ReasonStarted, fsm.ReasonRestarted, fsm.ReasonDependencyBack, fsm.ReasonScheduleDue,
	fsm.ReasonScheduleMadeUp, fsm.ReasonSlowRetry, fsm.ReasonOther,
}

// Starts counts the starts of main processes, in the order of startReasons.
type Starts [len(startReasons)]uint32

// StartedOnce returns the count of a single start by request.
func StartedOnce() Starts { return Starts{1} }

// Add counts a start.
func (s *Starts) Add(reason fsm.ReasonKind) {
	for i, kind := range startReasons {
		if kind == reason || i == len(startReasons)-1 {
			s[i]++
			return
		}
	}
}

// All yields the names of the reasons with their counts, without zeros.
func (s Starts) All() iter.Seq2[string, uint32] { return named(s[:], reasonName) }

func reasonName(i int) string { return startReasons[i].String() }

// MarshalJSON returns an object with the names of the reasons.
func (s Starts) MarshalJSON() ([]byte, error) { return marshal(s[:], reasonName) }

// UnmarshalJSON reads the result of MarshalJSON.
func (s *Starts) UnmarshalJSON(text []byte) error { return unmarshal(text, s[:], reasonName) }

// A Result is how a main process ended.
type Result uint8

// The results.
const (
	Success Result = iota // with an exit code that counts as success
	Failure               // with another exit code
	Signal                // by a signal
	Stopped               // superd has stopped it
	Unknown               // superd could not see how
	resultCount
)

var resultNames = [resultCount]string{"success", "failure", "signal", "stopped", "unknown"}

// ResultOf returns the result of an exit. stopping reports whether superd was stopping the process.
func ResultOf(e fsm.Exit, successCodes []int, stopping bool) Result {
	switch {
	case !e.Known:
		return Unknown
	case stopping:
		return Stopped
	case e.Signal != 0:
		return Signal
	case e.Success(successCodes):
		return Success
	}
	return Failure
}

// Exits counts the ends of main processes by their result.
type Exits [resultCount]uint32

// All yields the names of the results with their counts, without zeros.
func (e Exits) All() iter.Seq2[string, uint32] { return named(e[:], resultName) }

func resultName(i int) string { return resultNames[i] }

// MarshalJSON returns an object with the names of the results.
func (e Exits) MarshalJSON() ([]byte, error) { return marshal(e[:], resultName) }

// UnmarshalJSON reads the result of MarshalJSON.
func (e *Exits) UnmarshalJSON(text []byte) error { return unmarshal(text, e[:], resultName) }

func named(counts []uint32, name func(int) string) iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for i, n := range counts {
			if n > 0 && !yield(name(i), n) {
				return
			}
		}
	}
}

func marshal(counts []uint32, name func(int) string) ([]byte, error) {
	values := map[string]uint32{}
	for name, n := range named(counts, name) {
		values[name] = n
	}
	return json.Marshal(values)
}

// unmarshal ignores names of another version of superd.
func unmarshal(text []byte, counts []uint32, name func(int) string) error {
	var values map[string]uint32
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	for i := range counts {
		counts[i] = values[name(i)]
	}
	return nil
}
