// Package manifest is what exporters make of a configuration: files for another supervisor or for a
// cluster, and notes on each key that has no counterpart there or means something else.
//
// An exporter has a rule for every key of a program ([Rules]), which says what becomes of it. What
// it writes for a key is its own business.
package manifest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/config"
	"superd/config/document"
	"superd/exporter/definition"
)

// Options are what an export needs and a configuration does not have.
type Options struct {
	Name     string            `json:",omitempty"` // of a job, unit or stack as a whole
	Images   map[string]string `json:",omitempty"` // of containers, by program; "" for all others
	TimeZone string            `json:",omitempty"` // of schedules, as in "Europe/Berlin"
	Binary   string            `json:",omitempty"` // path of superd, where it runs all programs
}

// A Note says of a key that it has no counterpart, or means something else.
type Note struct {
	File string
	Line int
	Key  string // program.web.umask
	Text string // what, and what to do
}

func (n Note) String() string { return fmt.Sprintf("%s:%d: %s: %s", n.File, n.Line, n.Key, n.Text) }

// A File is one file of an export.
type File struct{ Name, Text string }

// An Export is the result.
type Export struct {
	Files []File
	Notes []Note
}

// A Source is a configuration to export.
type Source struct {
	*config.Config
	Options
	Definition *definition.Definition
	Programs   []*Program
	Notes      []Note // on what belongs to no program
}

// A Program is a program to export.
type Program struct {
	*config.Program
	Source *Source
	ID     string // its name there
	Notes  []Note
	set    []config.SetKey
}

// New returns the source for a configuration without mistakes. id returns the valid name that is
// nearest to one of superd; names that become equal get numbers.
func New(c *config.Config, o Options, id func(string) string) (*Source, error) {
	s, err := NewWhole(c, o, id)
	if err == nil {
		s.noteTables()
	}
	return s, err
}

// NewWhole returns the source for an export with superd itself, which needs no notes on keys.
func NewWhole(c *config.Config, o Options, id func(string) string) (*Source, error) {
	d, err := definition.New(c)
	if err != nil {
		return nil, err
	}
	c = d.Config
	s := &Source{Config: c, Options: o, Definition: d}
	taken := map[string]bool{}
	for _, p := range c.Programs {
		if p.LoggerOf != "" {
			continue // it is part of log.command
		}
		name := id(p.Name)
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", id(p.Name), n)
		}
		taken[name] = true
		s.Programs = append(s.Programs, &Program{Program: p, Source: s, ID: name, set: d.Keys(p)})
	}
	return s, nil
}

// noteTables notes the tables that concern superd itself.
func (s *Source) noteTables() {
	note := func(line int, file, key, text string) {
		s.Notes = append(s.Notes, Note{file, line, key, text})
	}
	for _, k := range s.SetKeys() {
		note(1, s.Path, k.Table+"."+k.Name, "superd does not run there; --whole exports it with superd")
	}
	for _, r := range s.Receivers {
		for _, k := range r.SetKeys() {
			note(r.Line, r.File, "notify."+r.Name+"."+k.Name,
				"superd does not run there, so nobody is told: --whole exports it with superd")
		}
	}
}

// Named returns the program of that name, nil if it is not exported.
func (s *Source) Named(name string) *Program {
	i := slices.IndexFunc(s.Programs, func(p *Program) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.Programs[i]
}

// Socket returns the socket of that name.
func (s *Source) Socket(name string) *config.Socket {
	i := slices.IndexFunc(s.Sockets, func(one *config.Socket) bool { return one.Name == name })
	return s.Sockets[i] // the configuration has no mistakes
}

// Result returns the export with these files, and the notes of all programs.
func (s *Source) Result(files ...File) *Export {
	e := &Export{Files: files, Notes: s.Notes}
	for _, p := range s.Programs {
		e.Notes = append(e.Notes, p.Notes...)
	}
	e.Notes = slices.Compact(e.Notes)
	return e
}

// Comments returns the notes on what belongs to no program, as lines of a comment.
func (s *Source) Comments() []string { return comments(s.Notes, "") }

// Image returns the image of a program's container. Without one it has the name of the program,
// and a note.
func (p *Program) Image() string {
	for _, key := range []string{p.Name, ""} {
		if image, ok := p.Source.Images[key]; ok {
			return image
		}
	}
	p.Note("command", "the image that has it is not known, and %s stands for it: name it by --image %s=IMAGE",
		p.ID, p.Name)
	return p.ID
}

// WholeImage returns the image of superd with all programs. Without one it has the name, and a
// note.
func (s *Source) WholeImage(name string) string {
	for _, key := range []string{"superd", ""} {
		if image, ok := s.Images[key]; ok {
			return image
		}
	}
	s.Notes = append(s.Notes, Note{s.Path, 1, "program", fmt.Sprintf("the image that has superd and all programs is "+
		"not known, and %s stands for it: name it by --image IMAGE", name)})
	return name
}

// OwnDirectory reports whether the program has a directory of its own choice, not that of its file.
func (p *Program) OwnDirectory() bool {
	file, err := filepath.Abs(p.File)
	return err != nil || p.Directory != document.EscapeDollars(filepath.Dir(file))
}

// Note adds a note on a key.
func (p *Program) Note(key, format string, args ...any) {
	n := Note{p.File, p.Line, "program." + p.Name + "." + key, fmt.Sprintf(format, args...)}
	if !slices.Contains(p.Notes, n) {
		p.Notes = append(p.Notes, n)
	}
}

// Comments returns the notes on the program as lines of a comment.
func (p *Program) Comments() []string { return comments(p.Notes, "program."+p.Name+".") }

// commentWidth is the longest line of a comment, without what is before it.
const commentWidth = 94

func comments(notes []Note, prefix string) (lines []string) {
	for i := 0; i < len(notes); {
		text, line, keys := notes[i].Text, "", []string{}
		for ; i < len(notes) && notes[i].Text == text; i++ { // one comment for all
			keys = append(keys, strings.TrimPrefix(notes[i].Key, prefix))
		}
		for _, word := range strings.Fields(strings.Join(keys, ", ") + ": " + text) {
			word = document.Printable(word)
			if line != "" && len(line)+1+len(word) > commentWidth {
				lines = append(lines, line)
				line = " "
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}
