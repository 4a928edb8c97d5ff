package top

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// Sequences of xterm, which all common terminals support or ignore.
const (
	askBackground = "\x1b]11;?\x07" // the answer is a message of bubbletea

	// Alternate screen, no cursor, no line wrap, reports of focus, pasted text in brackets
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1004h\x1b[?2004h\x1b[H\x1b[2J"
	leaveScreen = mouseOff + "\x1b[?2004l\x1b[?1004l\x1b[?7h\x1b[?25h\x1b[?1049l"

	mouseOn  = "\x1b[?1002h\x1b[?1006h"
	mouseOff = "\x1b[?1002l\x1b[?1006l"

	beginFrame = "\x1b[?2026h" // the terminal shows a frame when it is complete
	endFrame   = "\x1b[?2026l"
	clearAll   = "\x1b[H\x1b[2J"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// A frame is what the screen is to show.
type frame struct {
	lines  []string // none is wider than the screen
	cursor int      // column of the cursor in the last line; -1: it is hidden
	mouse  bool
}

// A screen is the terminal while the program has it. It writes only lines that have changed.
//
// The renderer of bubbletea is not used: it wakes the process for each frame that it could draw,
// ten times a second, also when nothing changes.
type screen struct {
	out   io.Writer
	fd    int // of the terminal; -1: none
	usual *term.State

	open  bool
	clear bool // what the terminal shows is unknown
	last  frame
}

// enter takes the terminal.
func (s *screen) enter() error {
	if s.fd >= 0 {
		usual, err := term.MakeRaw(s.fd)
		if err != nil {
			return fmt.Errorf("set terminal to raw mode: %w", err)
		}
		s.usual = usual
	}
	s.open, s.clear = true, true
	s.last = frame{cursor: -1}
	_, err := io.WriteString(s.out, enterScreen+askBackground)
	return err
}

// leave gives the terminal back as it was. It may be called twice.
func (s *screen) leave() {
	if !s.open {
		return
	}
	s.open = false
	// An error means that the terminal is gone.
	_, _ = io.WriteString(s.out, leaveScreen)
	s.restore()
}

// restore restores the settings of the terminal only.
func (s *screen) restore() {
	if s.usual != nil {
		_ = term.Restore(s.fd, s.usual)
	}
}

// copy passes text to the clipboard of the terminal, which may refuse it.
func (s *screen) copy(text string) {
	_, _ = fmt.Fprintf(s.out, "\x1b]52;c;%s\x07", base64.StdEncoding.EncodeToString([]byte(text)))
}

// draw shows a frame.
func (s *screen) draw(f frame) {
	if !s.open {
		return
	}
	var b strings.Builder
	if s.clear || len(f.lines) != len(s.last.lines) {
		b.WriteString(clearAll)
		s.last.lines = nil
	}
	for i, line := range f.lines {
		if i < len(s.last.lines) && s.last.lines[i] == line || s.last.lines == nil && line == "" {
			continue
		}
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K%s", i+1, line)
	}
	if f.mouse != s.last.mouse {
		if f.mouse {
			b.WriteString(mouseOn)
		} else {
			b.WriteString(mouseOff)
		}
	}
	switch {
	case f.cursor >= 0 && (b.Len() > 0 || f.cursor != s.last.cursor):
		fmt.Fprintf(&b, "\x1b[%d;%dH"+showCursor, len(f.lines), f.cursor+1)
	case f.cursor < 0 && s.last.cursor >= 0:
		b.WriteString(hideCursor)
	}
	s.last, s.clear = f, false
	if b.Len() > 0 {
		// An error means that the terminal is gone, which the input tells, too.
		_, _ = io.WriteString(s.out, beginFrame+b.String()+endFrame)
	}
}
