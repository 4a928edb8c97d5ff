package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A span is text of one style in a row, which stays once it has come. Rows and columns count from
// 0, and rows go on below the screen.
type span struct {
	row, column int
	text, style string // style: parameters of SGR, such as "31"
	at          float64
	typedUntil  float64 // when its last key came, of what was typed key by key; else 0
}

func (s *span) width() int { return utf8.RuneCountInString(s.text) }

// A screen is all that a recording shows: its spans, and how far they are scrolled.
type screen struct {
	spans   []span
	scrolls []scroll
}

// A scroll is when a row became the first one that is seen.
type scroll struct {
	at  float64
	top int
}

// play writes a recording to a screen.
func play(c *cast) (*screen, error) {
	s := &screen{scrolls: []scroll{{}}}
	row, column, style := 0, 0, ""
	for _, e := range c.events {
		for text := e.text; text != ""; {
			switch rest, found := strings.CutPrefix(text, "\x1b["); {
			case found:
				parameters, after, ok := strings.Cut(rest, "m")
				if !ok || strings.Trim(parameters, "0123456789;") != "" {
					return nil, fmt.Errorf("%q: only colours can be drawn", text)
				}
				style, text = strings.TrimPrefix(parameters, "0"), after
				if style != "" && colours[style] == "" {
					return nil, fmt.Errorf("%q: an unknown colour", "\x1b["+parameters+"m")
				}
			case text[0] == '\r':
				column, text = 0, text[1:]
			case text[0] == '\n':
				row, text = row+1, text[1:]
			case text[0] < ' ':
				return nil, fmt.Errorf("%q: a control character that can't be drawn", text)
			default:
				n := strings.IndexFunc(text, func(r rune) bool { return r < ' ' })
				if n < 0 {
					n = len(text)
				}
				for _, r := range text[:n] {
					if column == c.Width {
						row, column = row+1, 0
					}
					s.put(row, column, r, style, e.at, utf8.RuneCountInString(e.text) == 1)
					column++
				}
				text = text[n:]
			}
			if top := row - c.Height + 1; top > s.scrolls[len(s.scrolls)-1].top {
				s.scrolls = append(s.scrolls, scroll{e.at, top})
			}
		}
	}
	return s, nil
}

// put writes a character. One that continues the last span becomes part of it.
func (s *screen) put(row, column int, r rune, style string, at float64, typed bool) {
	if n := len(s.spans); n > 0 {
		last := &s.spans[n-1]
		if last.row == row && last.column+last.width() == column && last.style == style {
			switch {
			case typed && last.typedUntil > 0:
				last.text, last.typedUntil = last.text+string(r), at
				return
			case !typed && last.typedUntil == 0 && last.at == at:
				last.text += string(r)
				return
			}
		}
	}
	now := span{row: row, column: column, text: string(r), style: style, at: at}
	if typed {
		now.typedUntil = at
	}
	s.spans = append(s.spans, now)
}
