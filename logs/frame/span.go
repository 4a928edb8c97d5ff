package frame

import (
	"bytes"
	"unicode/utf8"
)

// An Ending is what the end of the visible text means, if it is not the end of a line.
type Ending uint8

const (
	AwaitMore    Ending = iota // more of the line will become visible
	WritePartial               // more may come, but what is there has to be written now
	LineComplete               // the line is complete without a newline
)

// A recordSpan is the part of the text that becomes one record.
type recordSpan struct {
	line    int  // bytes of the line
	taken   int  // line, and the newline if there is one
	partial bool // the line continues in the next record
}

// Next returns the first span of text, if text has all of it.
func Next(text []byte, end Ending) (s recordSpan, ok bool) {
	if n := bytes.IndexByte(text[:min(len(text), MaxLine+1)], '\n'); n >= 0 {
		return recordSpan{n, n + 1, false}, true
	}
	switch n := WholeRunes(text[:min(len(text), MaxLine)]); {
	case len(text) > MaxLine || end == WritePartial && len(text) > 0:
		return recordSpan{n, n, true}, true
	case end == LineComplete && len(text) > 0:
		return recordSpan{len(text), len(text), false}, true
	}
	return recordSpan{}, false
}

// WholeRunes returns the length of text without a truncated character at its end; all of it if it
// has nothing else.
func WholeRunes(text []byte) int {
	for i := len(text) - 1; i > 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// TakenBy returns how many bytes of text went into its first records.
func TakenBy(records int, text []byte, end Ending) (taken int) {
	for ; records > 0; records-- {
		s, _ := Next(text[taken:], end)
		taken += s.taken
	}
	return taken
}
