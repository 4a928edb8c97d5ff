// Package supervisord imports configuration files of supervisord 4.2.5.
//
// It reads them as supervisord does, with its traps, in three steps: ini.go is Python's
// configparser as supervisord sets it up, resolve.go makes processes of it, with the checks and
// expansions of supervisord, and convert.go makes programs of superd. make test-switch compares the
// first two with supervisord itself.
package supervisord

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// An option is a key of a section.
type option struct {
	name  string // in lower case
	value string
	file  string
	line  int

	comments []string // full lines above it
	cut      []cut    // inline comments of its lines
}

// A cut is an inline comment, and the text of the line with it.
type cut struct {
	mark    byte   // ';' or '#'
	kept    string // value of the line without the comment
	comment string
	full    string // value of the line with it
}

// A section is a table of options, in the order in which they first appeared.
type section struct {
	name     string
	file     string
	line     int
	comments []string
	options  []*option
}

func (s *section) find(name string) *option {
	for _, o := range s.options {
		if o.name == name {
			return o
		}
	}
	return nil
}

// defaultSection holds values for all sections.
const defaultSection = "DEFAULT"

// A parser is what supervisord's UnhosedConfigParser knows after reading files.
type parser struct {
	sections []*section
	defaults *section
	tail     []string // comments at the end of the last file
	repeated []repeated
}

// A repeated option or section is one that a file has twice: the later one counts.
type repeated struct {
	at        option // its place, and its name; "" for a section
	section   string
	firstLine int
}

func newParser() *parser { return &parser{defaults: &section{name: defaultSection}} }

func (p *parser) find(name string) *section {
	for _, s := range p.sections {
		if s.name == name {
			return s
		}
	}
	return nil
}

// get returns an option of a section, or the one of [DEFAULT].
func (p *parser) get(section, name string) *option {
	if s := p.find(section); s != nil {
		if o := s.find(name); o != nil {
			return o
		}
	}
	return p.defaults.find(name)
}

// A parseError is a mistake for which supervisord refuses the whole file.
type parseError struct {
	file string
	line int
	text string
}

// quote returns a text as an error has it, at most 60 characters of it.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return strconv.Quote(text)
}

func (e *parseError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.text) }

// noComment means that a line has no comment.
const noComment = math.MaxInt

// read reads one more file. Its sections add to those that exist.
//
// Source: RawConfigParser._read of Python 3.11, with inline_comment_prefixes (';', '#') and
// strict=False. It reads on after a line that it does not understand; the first one is returned.
func (p *parser) read(file, text string) error {
	var (
		current  *section
		opt      *option
		lines    []string // of the value of opt
		indent   int
		first    error
		comments []string
		seen     = map[string]int{} // the line of each section and option of this file
	)
	finish := func() {
		if opt != nil {
			opt.value = pyRightStrip(strings.Join(lines, "\n"))
		}
		opt, lines = nil, nil
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	number := 0
	for line := range strings.Lines(text) {
		number++
		start := commentStart(line)
		value := pyStrip(line)
		if start != noComment {
			value = pyStrip(line[:start])
		}
		if value == "" {
			switch {
			case start != noComment:
				comments = append(comments, commentText(line))
			case opt != nil:
				lines = append(lines, "")
			}
			continue
		}
		var inline *cut
		if start != noComment {
			inline = &cut{line[start], value, commentText(line[start:]), pyStrip(line)}
		}
		indented := strings.IndexFunc(line, func(r rune) bool { return !isSpace(r) })
		if current != nil && opt != nil && indented > indent {
			lines = append(lines, value)
			if inline != nil {
				opt.cut = append(opt.cut, *inline)
			}
			opt.comments = append(opt.comments, comments...)
			comments = nil
			continue
		}
		indent = indented
		if name, ok := sectionName(value); ok {
			finish()
			current = p.open(name, file, number)
			current.comments = append(current.comments, comments...)
			comments = nil
			if before, again := seen[name]; again {
				p.repeated = append(p.repeated, repeated{option{file: file, line: number}, name, before})
			}
			seen[name] = number
			continue
		}
		if current == nil {
			return &parseError{file, number, quote(value) + " stands before the first section"}
		}
		at := strings.IndexAny(value, "=:")
		if at < 0 || pyStrip(value[:at]) == "" {
			if first == nil {
				first = &parseError{file, number, quote(value) + " is neither a section nor a key"}
			}
			if at < 0 {
				continue
			}
		}
		finish()
		name := strings.ToLower(pyRightStrip(value[:at]))
		if opt = current.find(name); opt == nil {
			opt = &option{name: name}
			current.options = append(current.options, opt)
		}
		*opt = option{name: name, file: file, line: number, comments: append(opt.comments, comments...)}
		comments = nil
		if inline != nil {
			opt.cut = []cut{*inline}
		}
		lines = []string{pyStrip(value[at+1:])}
		key := current.name + "\x00" + name
		if before, again := seen[key]; again {
			p.repeated = append(p.repeated, repeated{*opt, current.name, before})
		}
		seen[key] = number
	}
	finish()
	p.tail = comments
	return first
}

// open returns the section of a header.
func (p *parser) open(name, file string, line int) *section {
	if name == defaultSection {
		return p.defaults
	}
	if s := p.find(name); s != nil {
		return s
	}
	s := &section{name: name, file: file, line: line}
	p.sections = append(p.sections, s)
	return s
}

// sectionName returns the name in a header: anything between the first bracket and the last one.
func sectionName(value string) (name string, ok bool) {
	end := strings.LastIndexByte(value, ']')
	if !strings.HasPrefix(value, "[") || end < 2 {
		return "", false
	}
	return value[1:end], true
}

// commentStart returns where the comment of a line begins.
//
// An inline comment begins at a mark behind a blank, also within quotes. Both marks are looked for
// in rounds: the first round that finds a comment decides, even if a later one would find one
// further to the left.
func commentStart(line string) int {
	start := noComment
	index := map[byte]int{';': -1, '#': -1}
	for start == noComment && len(index) > 0 {
		next := map[byte]int{}
		for mark, from := range index {
			found := strings.IndexByte(line[from+1:], mark)
			if found < 0 {
				continue
			}
			found += from + 1
			next[mark] = found
			if found == 0 || endsInSpace(line[:found]) {
				start = min(start, found)
			}
		}
		index = next
	}
	if stripped := pyStrip(line); strings.HasPrefix(stripped, "#") || strings.HasPrefix(stripped, ";") {
		start = 0
	}
	return start
}

func endsInSpace(s string) bool { return s != pyRightStrip(s) }

// commentText returns a comment without its marks and with its indentation behind them.
func commentText(line string) string {
	text := pyRightStrip(strings.TrimLeft(pyStrip(line), ";#"))
	return strings.TrimPrefix(text, " ")
}

// isSpace is str.isspace of Python.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func pyStrip(s string) string      { return strings.TrimFunc(s, isSpace) }
func pyRightStrip(s string) string { return strings.TrimRightFunc(s, isSpace) }

// expandHere replaces %(here)s in all values.
func (p *parser) expandHere(here string) {
	for _, s := range append([]*section{p.defaults}, p.sections...) {
		for _, o := range s.options {
			o.value = strings.ReplaceAll(o.value, "%(here)s", here)
		}
	}
}
