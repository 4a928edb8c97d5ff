package attach

import (
	"bytes"
	"fmt"
	"strings"
)

// parseKeys parses detach keys: "ctrl-p,ctrl-q", with keys that are characters or ctrl-X.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	for word := range strings.SplitSeq(text, ",") {
		letter, ctrl := strings.CutPrefix(word, "ctrl-")
		switch {
		case len(letter) != 1 || letter[0] <= ' ' || letter[0] > '~':
			return nil, fmt.Errorf(`parse detach keys: %q is no key: write characters or ctrl-X, with commas between them, such as "ctrl-p,ctrl-q"`, word)
		case ctrl:
			upper := strings.ToUpper(letter)[0]
			if upper < '@' || upper > '_' {
				return nil, fmt.Errorf(`parse detach keys: no terminal sends %q: write ctrl- and a letter`, word)
			}
			keys = append(keys, upper&0x1f)
		default:
			keys = append(keys, letter[0])
		}
	}
	return keys, nil
}

// A matcher finds the detach keys in what is typed.
type matcher struct {
	keys []byte
	held int // how many of the keys were typed last
}

// pass returns what of the typed text goes to the program, and whether the detach keys follow it.
// Keys with which the detach keys begin are held back until the next ones.
func (m *matcher) pass(typed []byte) (text []byte, detach bool) {
	for _, b := range typed {
		seen := append(bytes.Clone(m.keys[:m.held]), b)
		for m.held = min(len(seen), len(m.keys)); !bytes.HasSuffix(seen, m.keys[:m.held]); {
			m.held--
		}
		if m.held == len(m.keys) {
			return text, true
		}
		text = append(text, seen[:len(seen)-m.held]...)
	}
	return text, false
}
