package terminal

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is the number of bytes from which a line is shown in pieces, to bound memory.
const maxLine = 16 << 10

// A LinePrinter shows the output of several programs on one writer, with the program's name before
// each line. Lines of two programs never mix: each write to the writer is a number of whole lines.
type LinePrinter struct {
	mu      sync.Mutex // guards all fields, held during a write
	w       io.Writer
	output  Output
	palette *Palette
	width   int // width of the widest name so far
	buf     []byte
}

// NewLinePrinter returns a printer to w, whose properties are o.
func NewLinePrinter(w io.Writer, o Output) *LinePrinter {
	return &LinePrinter{w: w, output: o, palette: NewPalette()}
}

// Expect announces a program with that name: lines are aligned to the widest name so far, and the
// first names get different colours.
func (p *LinePrinter) Expect(name string) { p.expect(name) }

func (p *LinePrinter) expect(name string) Colour {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.width = max(p.width, Width(name))
	return p.palette.Colour(name)
}

// Program returns a writer for the output of the program with that name.
func (p *LinePrinter) Program(name string) *ProgramLines {
	return &ProgramLines{printer: p, name: name, colour: p.expect(name)}
}

// print writes whole lines of a program.
func (p *LinePrinter) print(name string, c Colour, lines []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	prefix := name + spaces(p.width-Width(name)) + " |"
	if p.output.Colour {
		prefix = c.Paint(prefix)
	}
	p.buf = p.buf[:0]
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		p.buf = append(append(p.buf, prefix...), ' ')
		switch {
		case p.output.Coloured:
			p.buf = append(p.buf, SanitizeColoured(string(line))...)
		case p.output.Terminal:
			p.buf = append(p.buf, Sanitize(string(line))...)
		default:
			p.buf = append(p.buf, line...)
		}
		p.buf = append(p.buf, '\n')
	}
	_, err := p.w.Write(p.buf)
	return err
}

// ProgramLines assembles the output of one program into lines.
type ProgramLines struct {
	printer *LinePrinter
	name    string
	colour  Colour
	partial []byte
}

// Write shows the lines that chunk completes. An incomplete line is kept.
func (l *ProgramLines) Write(chunk []byte) (int, error) {
	n := len(chunk)
	if end := bytes.LastIndexByte(chunk, '\n') + 1; end > 0 {
		l.partial = append(l.partial, chunk[:end]...)
		chunk = chunk[end:]
		if err := l.flush(); err != nil {
			return 0, err
		}
	}
	for len(l.partial)+len(chunk) >= maxLine {
		piece := maxLine - len(l.partial)
		l.partial = append(l.partial, chunk[:piece]...)
		chunk = chunk[piece:]
		if err := l.flush(); err != nil {
			return 0, err
		}
	}
	l.partial = append(l.partial, chunk...)
	return n, nil
}

// EndLine shows a last line without a line end: the program has ended and won't complete it.
func (l *ProgramLines) EndLine() error {
	if len(l.partial) == 0 {
		return nil
	}
	return l.flush()
}

func (l *ProgramLines) flush() error {
	err := l.printer.print(l.name, l.colour, l.partial)
	l.partial = l.partial[:0]
	return err
}
