package control

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// readBriefs reads the answer to a brief status.
//
// In the form in which superd writes it, without spaces and escapes, it is cut up here, in a tenth of the time that encoding/json takes: of a
// thousand instances that is a fifth of the whole command. Any other form is left to encoding/json.
func readBriefs(body []byte) ([]Brief, error) {
	if all, ok := cutBriefs(string(body), bytes.Count(body, []byte("{"))); ok {
		return all, nil
	}
	var all []Brief
	err := json.Unmarshal(body, &all)
	return all, err
}

// cutBriefs cuts an answer with about so many instances up, if it has the form that superd gives it.
func cutBriefs(text string, count int) (all []Brief, ok bool) {
	const name, state, pid = `{"name":"`, `","state":"`, `","pid":`
	text, ok = strings.CutPrefix(strings.TrimSuffix(text, "\n"), "[")
	if !ok {
		return nil, false
	}
	all = make([]Brief, 0, count)
	pids := make([]int, count)
	for len(all) < count {
		var b Brief
		var number string
		var found [4]bool
		text, found[0] = strings.CutPrefix(text, name)
		b.Name, text, found[1] = strings.Cut(text, state)
		b.State, text, found[2] = strings.Cut(text, pid)
		number, text, found[3] = strings.Cut(text, "}")
		if found != [4]bool{true, true, true, true} || !isPlain(b.Name) || !isPlain(b.State) {
			return nil, false
		}
		if number != "null" {
			n, err := strconv.Atoi(number)
			if err != nil || n < 0 || number[0] == '0' || number[0] == '+' {
				return nil, false
			}
			pids[len(all)] = n
			b.Pid = &pids[len(all)]
		}
		all = append(all, b)
		if rest, more := strings.CutPrefix(text, ","); more {
			text = rest
			continue
		}
		return all, text == "]"
	}
	return nil, false
}

// isPlain tells whether text is nothing but printable ASCII without a backslash and a quote: then what is between quotes is what it means.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}
