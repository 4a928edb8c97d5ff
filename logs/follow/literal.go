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
	next     []int // where each literal is found next in the text; -1: not searched yet
	escaped  bool  // one of them is written otherwise in JSON
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
	all := literalsIn(tree)
	if len(all) == 0 {
		return nil
	}
	s := &literalSearch{literals: all, next: make([]int, len(all))}
	for _, literal := range all {
		s.escaped = s.escaped || !bytes.Equal(frame.AppendJSON(nil, literal), literal)
	}
	s.reset()
	return s
}

// reset begins a search in another text.
func (s *literalSearch) reset() {
	for i := range s.next {
		s.next[i] = -1
	}
}

// find returns where in text, from begin on, the first of the literals is; len(text) if there is
// none. begin must not decrease until reset.
func (s *literalSearch) find(text []byte, begin int) int {
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

// literalsIn returns literals one of which is in each match; none if there need not be one.
func literalsIn(re *syntax.Regexp) (all [][]byte) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 && !bytes.ContainsRune([]byte(string(re.Rune)), utf8.RuneError) {
			return [][]byte{[]byte(string(re.Rune))} // U+FFFD also matches what is not UTF-8
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literalsIn(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalsIn(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if found := literalsIn(sub); shortest(found) > shortest(all) {
				all = found
			}
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			found := literalsIn(sub)
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

// shortest returns the length of the shortest literal, 0 if there is none.
func shortest(all [][]byte) (n int) {
	for i, literal := range all {
		if i == 0 || len(literal) < n {
			n = len(literal)
		}
	}
	return n
}
