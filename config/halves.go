package config

import (
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// minHalved is how long a text is that is decoded in two halves, in bytes: some hundred programs.
const minHalved = 8 << 10

// decode returns what a text says. root is what [locate] makes of it, which comes first.
func decode(text string, root *node) (table map[string]any, err error) {
	if len(text) >= minHalved {
		if table, ok := decodeHalves(text, root); ok {
			return table, nil
		}
	}
	_, err = toml.Decode(text, &table)
	return table, err
}

// decodeHalves decodes a text of programs' tables in two halves at the same time. ok is false where that does not tell what they say together.
//
// Each half is a whole document, or it would not have been decoded. So of the rules of TOML those alone remain that forbid to define something twice: the second
// half may define nothing but programs, of which the first one has none, and the table of programs must be one that headers may add to, and have no header of its
// own there.
func decodeHalves(text string, root *node) (table map[string]any, ok bool) {
	cut := middleProgram(text, root)
	if place := root.kid("program").key; cut < 0 || place == 0 || place >= cut || text[place-1] != '[' {
		return nil, false
	}
	var second map[string]any
	var err1, err2 error
	var other sync.WaitGroup
	other.Go(func() { _, err2 = toml.Decode(text[cut:], &second) })
	_, err1 = toml.Decode(text[:cut], &table)
	other.Wait()
	programs, ok1 := table["program"].(map[string]any)
	more, ok2 := second["program"].(map[string]any)
	if err1 != nil || err2 != nil || !ok1 || !ok2 || len(second) > 1 {
		return nil, false
	}
	for name, program := range more {
		if _, twice := programs[name]; twice {
			return nil, false
		}
		programs[name] = program
	}
	return table, true
}

// middleProgram returns where the header of a program's table begins its line, as near to the middle of the text as there is one; -1 where there is none.
func middleProgram(text string, root *node) int {
	const before = "[program."
	distance := func(at int) int { return max(at-len(text)/2, len(text)/2-at) }
	best := -1
	for _, program := range root.kid("program").kids {
		at := program.key - len(before)
		if at > 0 && text[at-1] == '\n' && strings.HasPrefix(text[at:], before) && (best < 0 || distance(at) < distance(best)) {
			best = at
		}
	}
	return best
}
