package terminal

import (
	"fmt"
	"io"
	"strings"
)

// A Screen is a terminal's alternate screen, on which each frame is drawn over the previous one.
// Close brings back what the terminal showed before.
type Screen struct{ w io.Writer }

// Sequences of xterm, which all common terminals support.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J" // alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	startFrame  = "\x1b[H"
	clearLine   = "\x1b[2K"
	clearBelow  = "\x1b[J" // the rest of this line and of the screen
)

// OpenScreen switches to the alternate screen of the terminal w.
func OpenScreen(w io.Writer) *Screen {
	_, _ = io.WriteString(w, enterScreen)
	return &Screen{w}
}

// Draw shows lines, at most o.Height; if there are more, the last line says how many are left out.
// It makes one write and clears nothing ahead of drawing, to avoid flicker.
func (s *Screen) Draw(o Output, lines []string) error {
	if o.Height > 0 && len(lines) > o.Height {
		hidden := len(lines) - o.Height + 1
		lines = append(lines[:o.Height-1:o.Height-1], Cut(fmt.Sprintf("… and %d more", hidden), max(o.Width, 1)))
	}
	var b strings.Builder
	b.WriteString(startFrame)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		// Clear first: after a line of full width the cursor is still on its last column.
		if i < len(lines)-1 {
			b.WriteString(clearLine)
		} else {
			b.WriteString(clearBelow)
		}
		b.WriteString(line)
	}
	_, err := io.WriteString(s.w, b.String())
	return err
}

// Close switches back to the normal screen.
func (s *Screen) Close() error {
	_, err := io.WriteString(s.w, leaveScreen)
	return err
}
