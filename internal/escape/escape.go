// Package escape knows which characters change how a terminal shows other text, and writes them as
// escapes in JSON. It has the only list of them. Text for people uses it through terminal.Sanitize;
// all JSON written by superd uses [JSON], [Marshal] or [AppendRune].
package escape

import (
	"encoding/json"
	"unicode"
	"unicode/utf8"
)

const (
	lastC0         = 0x1f
	del            = 0x7f
	nonJoiner      = '\u200c'
	joiner         = '\u200d'
	firstSurrogate = 0xd800
	lowSurrogate   = 0xdc00
	beyondBMP      = 0x10000 // first character encoded as two surrogates

	// Between these, only the soft hyphen is to be escaped.
	lastC1     = 0x9f
	softHyphen = 0xad
	arabic     = 0x600
	// Between these, nothing is.
	lastPunctuation = 0x206f
	byteOrderMark   = 0xfeff
)

// Needed reports whether r is a control character (C0, DEL, C1), a line separator or an invisible
// format character. Such characters change how other text is shown: some reverse its direction,
// others begin a sequence that a terminal executes.
//
// The joiners U+200C and U+200D are not among them. Scripts and emoji need them, and they affect
// only their neighbours.
func Needed(r rune) bool {
	switch {
	case r <= lastC0, r == del:
		return true
	case r < utf8.RuneSelf, r == nonJoiner, r == joiner:
		return false
	case r > lastC1 && r < arabic: // most scripts need no search in tables
		return r == softHyphen
	case r > lastPunctuation && r < byteOrderMark:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Marshal is [json.Marshal] with the result of [JSON].
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return JSON(text), err
}

// JSON returns text, which is encoded JSON, with an escape for each character for which [Needed]
// holds. C0 characters stay: in valid JSON they are only between values. The result has the same
// meaning, and is text itself if there is nothing to escape.
func JSON(text []byte) []byte {
	i := next(text, 0)
	if i == len(text) {
		return text
	}
	escaped := make([]byte, 0, len(text)+len(text)/4)
	done := 0
	for ; i < len(text); i = next(text, i) {
		r, size := utf8.DecodeRune(text[i:])
		escaped = AppendRune(append(escaped, text[done:i]...), r)
		i += size
		done = i
	}
	return append(escaped, text[done:]...)
}

// AppendRune appends the JSON escape of r: \u202e, or a pair of surrogates if r is above U+FFFF.
func AppendRune(dst []byte, r rune) []byte {
	if r < beyondBMP {
		return appendUnit(dst, r)
	}
	r -= beyondBMP
	return appendUnit(appendUnit(dst, firstSurrogate+r>>10), lowSurrogate+r&0x3ff)
}

func appendUnit(dst []byte, u rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[u>>12], digits[u>>8&0xf], digits[u>>4&0xf], digits[u&0xf])
}

// next returns the index of the first character to escape, from i on, or the length of text.
func next(text []byte, i int) int {
	for i < len(text) {
		if b := text[i]; b < utf8.RuneSelf {
			if b == del {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if Needed(r) {
			return i
		}
		i += size
	}
	return i
}
