// Package prompt reads command lines from a person at a terminal, with completion and a history,
// and runs each.
//
// The terminal is in raw mode only while a line is read. A command has it as the shell gave it, and
// Ctrl-C ends the command, not the prompt.
package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"superd/config/document"
)

// A Prompt is a dialogue at a terminal.
type Prompt struct {
	Stdin  *os.File // a terminal
	Stdout *os.File // a terminal
	Text   string   // shown before each line

	// Run runs a command and prints its errors. Its context is done at Ctrl-C.
	Run func(ctx context.Context, words []string)
	// Complete returns what the last of words, which may be empty, can become.
	Complete func(ctx context.Context, words []string) []Candidate

	history term.History
}

// A Candidate is what a word can become.
type Candidate struct {
	Word        string
	Description string // may be empty
	Continues   bool   // no space follows
}

// Loop runs commands until the person ends the dialogue: exit, quit or Ctrl-D.
func (p *Prompt) Loop(ctx context.Context) error {
	// All the time: a Ctrl-C between a command and the next line must not end this process
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	for {
		line, err := p.read(ctx)
		switch {
		case errors.Is(err, errInterrupted):
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(p.Stdout)
			return nil
		case err != nil:
			return fmt.Errorf("read command: %w", err)
		}
		words, err := document.SplitWords(line)
		switch {
		case err != nil:
			fmt.Fprintf(p.Stdout, "superd: %v\n", err)
		case len(words) == 0:
		case len(words) == 1 && (words[0] == "exit" || words[0] == "quit"):
			return nil
		default:
			p.run(ctx, words, interrupts)
		}
	}
}

// run runs a command until it ends or Ctrl-C is typed.
func (p *Prompt) run(ctx context.Context, words []string, interrupts <-chan os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-interrupts: // of an earlier command
	default:
	}
	go func() {
		select {
		case <-interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	p.Run(ctx, words)
}

// errInterrupted reports that Ctrl-C was typed instead of a line.
var errInterrupted = errors.New("interrupted")

// read reads a line.
func (p *Prompt) read(ctx context.Context) (string, error) {
	usual, err := term.MakeRaw(int(p.Stdin.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(p.Stdin.Fd()), usual) }()
	keys := &keyboard{from: p.Stdin}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, p.Stdout}, p.Text)
	if p.history != nil {
		t.History = p.history
	}
	p.history = t.History
	if width, height, err := term.GetSize(int(p.Stdout.Fd())); err == nil && width > 0 {
		_ = t.SetSize(width, height) // it only fails to redraw
	}
	t.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		begin, shown := p.complete(ctx, line[:at])
		if shown != "" {
			_, _ = io.WriteString(t, shown) // the terminal is gone, which the next read finds
		}
		return begin + line[at:], len(begin), true
	}
	line, err := t.ReadLine()
	if errors.Is(err, io.EOF) && keys.interrupted {
		fmt.Fprint(p.Stdout, "^C\r\n")
		return "", errInterrupted
	}
	return line, err
}

// A keyboard reads keys one by one, so that what is typed ahead is left for the command, and notes
// a Ctrl-C.
type keyboard struct {
	from        io.Reader
	interrupted bool
}

func (k *keyboard) Read(b []byte) (int, error) {
	n, err := k.from.Read(b[:1])
	k.interrupted = k.interrupted || bytes.IndexByte(b[:n], interruptKey) >= 0
	return n, err
}

const interruptKey = 3 // Ctrl-C

// complete returns the line up to the cursor with its last word completed as far as it is certain,
// and the candidates as text if there are several.
func (p *Prompt) complete(ctx context.Context, line string) (completed, shown string) {
	words, err := document.SplitWords(line)
	if err != nil {
		return line, "" // within quotes
	}
	last := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	if !strings.HasSuffix(line, last) {
		return line, "" // the word is quoted
	}
	candidates := p.Complete(ctx, append(slices.Clone(words), last))
	candidates = slices.DeleteFunc(candidates, func(c Candidate) bool { return !strings.HasPrefix(c.Word, last) })
	if len(candidates) == 0 {
		return line, ""
	}
	begin := strings.TrimSuffix(line, last)
	if len(candidates) == 1 {
		end := " "
		if candidates[0].Continues {
			end = ""
		}
		return begin + candidates[0].Word + end, ""
	}
	if common := commonPrefix(candidates); common != last {
		return begin + common, ""
	}
	return line, list(candidates)
}

// commonPrefix returns what all candidates begin with.
func commonPrefix(candidates []Candidate) string {
	common := candidates[0].Word
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c.Word, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	return common
}

// list returns a line for each candidate.
func list(candidates []Candidate) string {
	width := 0
	for _, c := range candidates {
		width = max(width, utf8.RuneCountInString(c.Word))
	}
	var b strings.Builder
	for _, c := range candidates {
		line := fmt.Sprintf("%-*s  %s", width, c.Word, c.Description)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
