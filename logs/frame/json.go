package frame

import (
	"encoding/binary"
	"math/bits"
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
// 32 at a time, but eight first: in much text the next quote is near.
func plain(s []byte) int {
	n := len(s)
	if n < 8 {
		for i, b := range s {
			if b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
				return i
			}
		}
		return n
	}
	if m := notPlain(s); m != 0 {
		return bits.TrailingZeros64(m) / 8
	}
	i := 8
	for ; i+32 <= n; i += 32 {
		b := s[i : i+32 : i+32]
		if notPlain(b)|notPlain(b[8:])|notPlain(b[16:])|notPlain(b[24:]) != 0 {
			break
		}
	}
	for i < n {
		at := min(i, n-8) // the last eight may have been checked in part
		if m := notPlain(s[at:]); m != 0 {
			return at + bits.TrailingZeros64(m)/8
		}
		i = at + 8
	}
	return n
}

// notPlain sets the top bit of the first byte of s that does not stand for itself in a JSON string,
// among the first eight; 0 if there is none. Bits of later bytes may be wrong, as a borrow or carry
// comes from a byte that is not plain.
//
// Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks by Sean Eron Anderson.
func notPlain(s []byte) uint64 {
	const each, top = 0x0101010101010101, 0x8080808080808080
	w := binary.LittleEndian.Uint64(s)
	// The first term finds DEL and what is not ASCII. With ' ' exchanged for '"', and '!' for '#',
	// controls and the quote are those up to ' '. The last one finds the backslash.
	return ((w + each) | ((w ^ each*(' '^'"')) - each*(' '+1)) | ((w ^ each*'\\') - each)) & top
}

// maxEscaped is how many bytes one byte becomes at most in a JSON string.
const maxEscaped = len(`\u0000`)
