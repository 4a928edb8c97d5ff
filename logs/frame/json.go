package frame

import (
	"encoding/binary"
	"unicode/utf8"

	"superd/internal/escape"
)

// AppendJSON appends s as the content of a JSON string, without quotes. Invalid UTF-8 becomes
// U+FFFD, and what would control a terminal becomes an escape.
func AppendJSON(dst, s []byte) []byte {
	done := 0
	for i := plain(s); i < len(s); i += plain(s[i:]) {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(append(dst, s[done:i]...), `\ufffd`...)
				done = i + 1
			case escape.Needed(r):
				dst = escape.AppendRune(append(dst, s[done:i]...), r)
				done = i + size
			}
			i += size
			continue
		}
		dst = append(dst, s[done:i]...)
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = escape.AppendRune(dst, rune(b))
		}
		i++
		done = i
	}
	return append(dst, s[done:]...)
}

// plain returns how many bytes at the start of s stand for themselves in a JSON string. It checks
// eight at a time: the masks set the top bit of each byte that does not.
//
// Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks by Sean Eron Anderson.
func plain(s []byte) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, backslash, del := w^each*'"', w^each*'\\', w^each*0x7f
		if (w|(w-each*' ')|(quote-each)|(backslash-each)|(del-each))&top != 0 {
			break // one of these eight: a borrow comes only from a byte that is not plain
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// maxEscaped is how many bytes one byte becomes at most in a JSON string.
const maxEscaped = len(`\u0000`)
