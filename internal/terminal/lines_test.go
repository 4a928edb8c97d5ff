package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// writes records each write on its own.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func TestLinePrinterPrefixesWholeLines(t *testing.T) {
	var w writes
	p := NewLinePrinter(&w, Output{Terminal: true})
	a, b := p.Program("a"), p.Program("long")
	for _, step := range []struct {
		to    io.Writer
		chunk string
	}{
		{a, "one\ntwo\nthr"}, {b, "x\x1b[2J\n"}, {a, "ee\n"}, {b, "no end"},
	} {
		if _, err := io.WriteString(step.to, step.chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.EndLine(), b.EndLine()); err != nil {
		t.Fatal(err)
	}
	want := []string{"a    | one\na    | two\n", "long | x\\x1b[2J\n", "a    | three\n", "long | no end\n"}
	if fmt.Sprintf("%q", w.all) != fmt.Sprintf("%q", want) {
		t.Errorf("writes are %q, want %q", w.all, want)
	}
}

func TestLinePrinterIsExactWhereNoTerminalIs(t *testing.T) {
	var buf bytes.Buffer
	p := NewLinePrinter(&buf, Output{})
	if _, err := p.Program("a").Write([]byte("\x1b[2J\xff\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := buf.String(), "a | \x1b[2J\xff\r\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLinePrinterColoursNames(t *testing.T) {
	var buf bytes.Buffer
	p := NewLinePrinter(&buf, Output{Terminal: true, Colour: true})
	if _, err := p.Program("a").Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := buf.String(), NewPalette().Colour("a").Paint("a |")+" x\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLinePrinterBoundsLongLines(t *testing.T) {
	var buf bytes.Buffer
	p := NewLinePrinter(&buf, Output{})
	w := p.Program("a")
	chunk := bytes.Repeat([]byte("x"), 100_000)
	for range 10 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if len(w.partial) >= maxLine {
			t.Fatalf("%d bytes of a line are kept, want less than %d", len(w.partial), maxLine)
		}
	}
	w.EndLine()
	if got := strings.Count(buf.String(), "x"); got != 1_000_000 {
		t.Errorf("%d bytes shown, want 1000000", got)
	}
}

func TestLinePrinterNeverMixesLines(t *testing.T) {
	var buf bytes.Buffer
	p := NewLinePrinter(&buf, Output{})
	var wg sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprint("p", i)
		w := p.Program(name)
		wg.Go(func() {
			for range 500 {
				for _, piece := range []string{name[:1], name[1:] + "\n" + name[:1], name[1:] + "\n"} {
					_, _ = io.WriteString(w, piece)
				}
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	if len(lines) != 8*1000 {
		t.Fatalf("%d lines, want 8000", len(lines))
	}
	for _, line := range lines {
		if name, text, _ := strings.Cut(line, " | "); name != text {
			t.Fatalf("mixed line %q", line)
		}
	}
}
