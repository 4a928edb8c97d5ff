package eventlog

import (
	"bytes"
	"encoding/json"
	"slices"
)

// kinds are the kinds of events that are written. [Gap] is not among them.
var kinds = [...]Kind{
	State, Start, NoStart, Exit, Health, Output, Print, Outage, Skip, Flapping, Command, Reload, Socket, Roll, Shutdown, Superd,
}

// Totals are how many events of each kind were written, in the order of kinds.
//
// A file begins with the totals of all files before it. So they continue in a successor, and a
// number that was reported is never greater than one that is read back.
type Totals [len(kinds)]uint64

// All yields the kinds with their totals.
func (t Totals) All(yield func(Kind, uint64) bool) {
	for i, n := range t {
		if !yield(kinds[i], n) {
			return
		}
	}
}

// add counts the event on a line. Kinds of another version of superd do not count.
func (t *Totals) add(line []byte) {
	_, rest, _ := bytes.Cut(line, []byte(`"kind":"`)) // a key: quotes within a value are escaped
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	if i := slices.Index(kinds[:], Kind(name)); i >= 0 {
		t[i]++
	}
}

// A header is the first line of a file.
type header struct {
	Totals map[Kind]uint64 `json:"totals"`
}

// headerPrefix begins a header, and no event.
const headerPrefix = `{"totals":`

// encode returns the totals as a header, with its line end.
func (t *Totals) encode() []byte {
	h := header{map[Kind]uint64{}}
	for i, n := range t {
		if n > 0 {
			h.Totals[kinds[i]] = n
		}
	}
	line, _ := json.Marshal(h) // no error: it has only strings and numbers
	return append(line, '\n')
}

// decodeTotals returns the totals of a header; ok is false if the line is none.
func decodeTotals(line []byte) (t Totals, ok bool) {
	var h header
	if !bytes.HasPrefix(line, []byte(headerPrefix)) || json.Unmarshal(line, &h) != nil {
		return t, false
	}
	for i, k := range kinds {
		t[i] = h.Totals[k]
	}
	return t, true
}
