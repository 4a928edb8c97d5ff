package follow

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"superd/logs/frame"
)

// maxLiterals is how many literals a literalSearch has at most.
const maxLiterals = 8

// A literalSearch finds where a match of a regular expression may be: at literals one of which is
// in each match. That is many times faster than the expression, and most lines have none.
type literalSearch struct {
	literals [][]byte
	next     []int  // where each literal is found next in the text; -1: not searched yet
	escaped  bool   // one of them is written otherwise in JSON
	fold     bool   // a match may have them in either case
	lower    []byte // the text in lower case, with fold; empty: not made yet
}

// newLiteralSearch returns a search for re, nil if a match need not have a literal.
func newLiteralSearch(re *regexp.Regexp) *literalSearch {
	if re == nil {
		return nil
	}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil
	}
	s := new(literalSearch)
	if s.literals = s.literalsIn(tree); len(s.literals) == 0 {
		return nil
	}
	s.next = make([]int, len(s.literals))
	for i, literal := range s.literals {
		s.escaped = s.escaped || !bytes.Equal(frame.AppendJSON(nil, literal), literal)
		if s.fold {
			s.literals[i] = appendLower(nil, literal)
		}
	}
	s.reset()
	return s
}

// reset begins a search in another text.
func (s *literalSearch) reset() {
	s.lower = s.lower[:0]
	for i := range s.next {
		s.next[i] = -1
	}
}

// find returns where in text, from begin on, the first of the literals is; len(text) if there is
// none. begin must not decrease until reset.
func (s *literalSearch) find(text []byte, begin int) int {
	if s.fold {
		if len(s.lower) == 0 {
			s.lower = appendLower(s.lower, text)
		}
		text = s.lower
	}
	first := len(text)
	for i, literal := range s.literals {
		if s.next[i] < begin {
			s.next[i] = len(text)
			if n := bytes.Index(text[begin:], literal); n >= 0 {
				s.next[i] = begin + n
			}
		}
		first = min(first, s.next[i])
	}
	return first
}

// literalsIn returns literals one of which is in each match; none if there need not be one. It sets
// fold if one of them may be in either case.
func (s *literalSearch) literalsIn(re *syntax.Regexp) (all [][]byte) {
	switch re.Op {
	case syntax.OpLiteral:
		literal := []byte(string(re.Rune))
		if re.Flags&syntax.FoldCase != 0 {
			literal = foldable(re.Rune)
		}
		// U+FFFD also matches what is not UTF-8
		if len(literal) > 0 && !bytes.ContainsRune(literal, utf8.RuneError) {
			s.fold = s.fold || re.Flags&syntax.FoldCase != 0
			return [][]byte{literal}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return s.literalsIn(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return s.literalsIn(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if found := s.literalsIn(sub); shortest(found) > shortest(all) {
				all = found
			}
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			found := s.literalsIn(sub)
			if len(found) == 0 || len(all)+len(found) > maxLiterals {
				return nil
			}
			all = append(all, found...)
		}
	default: // it may match without a literal
		return nil
	}
	return all
}

// foldable returns the longest part of a literal whose upper and lower case are one ASCII byte
// each. The letters k and s are not: they also match U+212A and U+017F.
func foldable(literal []rune) []byte {
	var longest, part []byte
	for _, r := range literal {
		if r >= utf8.RuneSelf || r|0x20 == 'k' || r|0x20 == 's' {
			part = nil
			continue
		}
		if part = append(part, byte(r)); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// appendLower appends text with ASCII letters in lower case.
func appendLower(dst, text []byte) []byte {
	begin := len(dst)
	dst = append(dst, text...)
	for i, b := range dst[begin:] {
		if b-'A' < 26 {
			dst[begin+i] = b | 0x20
		}
	}
	return dst
}

// shortest returns the length of the shortest literal, 0 if there is none.
func shortest(all [][]byte) (n int) {
	for i, literal := range all {
		if i == 0 || len(literal) < n {
			n = len(literal)
		}
	}
	return n
}
