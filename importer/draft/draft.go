// Package draft is what importers make of another supervisor's files: programs with their keys and
// comments, and notes on what could not be taken over as it was. It writes them as TOML that a
// person could have written.
//
// It knows the notation of superd.toml, not its keys: package config checks those.
package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"superd/internal/words"
)

// A Document is a configuration of superd under construction.
type Document struct {
	Superd   *Table
	Compat   *Table
	Defaults *Table
	Sockets  []*Table
	Programs []*Table
	Extends  string   // path of the file that this one extends; empty: none
	Head     []string // comments at the beginning and at the end
	Tail     []string
	Notes    []Note

	// Text is the text of the configuration, where the source has it as a whole. Then the tables
	// above mean nothing.
	Text string

	// Dir is the directory in which the source's relative paths begin. Empty: the TOML file will be
	// in that directory, and relative paths stay.
	Dir string

	// Mode has who may read all the files that were read, and so the result, which may have their
	// passwords.
	Mode fs.FileMode
}

// New returns an empty document; see [Document.Dir].
func New(dir string) *Document {
	return &Document{Superd: &Table{}, Compat: &Table{}, Defaults: &Table{}, Dir: dir}
}

// A Place is a line of a source, counted from 1; 0: the file as a whole.
type Place struct {
	File string
	Line int
}

// A Note says of a key of the source that it has no counterpart, means something else, or was
// ignored by the supervisor that the file is for.
type Note struct {
	Place
	Key  string // as the source has it, with its section: "program:web.priority"
	Text string // what, and what to do
}

func (n Note) String() string {
	place := n.File
	if n.Line > 0 {
		place = fmt.Sprintf("%s:%d", n.File, n.Line)
	}
	if n.Key == "" {
		return place + ": " + n.Text
	}
	return place + ": " + n.Key + ": " + n.Text
}

// Note adds a note.
func (d *Document) Note(at Place, key, format string, args ...any) {
	d.Notes = append(d.Notes, Note{at, key, fmt.Sprintf(format, args...)})
}

// SortNotes sorts the notes by file, in the order in which the files have their first note, and by
// line. Equal notes become one.
func (d *Document) SortNotes() {
	order := map[string]int{}
	for _, n := range d.Notes {
		if _, known := order[n.File]; !known {
			order[n.File] = len(order)
		}
	}
	slices.SortStableFunc(d.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	d.Notes = slices.Compact(d.Notes)
}

// Path returns a path of the source as the TOML file has to name it.
func (d *Document) Path(path string) string {
	if path == "" || filepath.IsAbs(path) || d.Dir == "" || strings.HasPrefix(path, "${") {
		return path
	}
	return filepath.Join(d.Dir, path)
}

// Program adds a program. The name is made valid and unique; the result has it.
func (d *Document) Program(name string) *Table {
	p := &Table{Name: unique(Name(name), d.Programs)}
	d.Programs = append(d.Programs, p)
	return p
}

// Socket adds a socket likewise.
func (d *Document) Socket(name string) *Table {
	s := &Table{Name: unique(Name(name), d.Sockets)}
	d.Sockets = append(d.Sockets, s)
	return s
}

// unique returns name, or name with a number if a table has it.
func unique(name string, all []*Table) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(t *Table) bool { return t.Name == name })
	}
	if !taken(name) {
		return name
	}
	for n := 2; ; n++ {
		if numbered := fmt.Sprintf("%s-%d", name, n); !taken(numbered) {
			return numbered
		}
	}
}

// maxName is the length of the longest name of a program.
const maxName = 100

// Name returns the valid name of a program, group or socket that is nearest to s.
func Name(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '-'
	}, s)
	name = strings.TrimLeft(name, ".-")
	if len(name) > maxName-3 { // room for the number of unique
		name = name[:maxName-3]
	}
	if name == "" {
		return "program"
	}
	return name
}

// Groups removes from the groups of all programs what is also the name of a program, which superd
// does not allow. rename gives the other name, and says so to the user.
func (d *Document) Groups(rename func(group, instead string)) {
	isProgram := func(name string) bool {
		return slices.ContainsFunc(d.Programs, func(p *Table) bool { return p.Name == name })
	}
	renamed := map[string]string{}
	for _, p := range d.Programs {
		groups, _ := p.Get("groups").([]string)
		for i, group := range groups {
			if !isProgram(group) {
				continue
			}
			instead, known := renamed[group]
			if !known {
				instead = group + "-group"
				for isProgram(instead) {
					instead += "-group"
				}
				renamed[group] = instead
				rename(group, instead)
			}
			groups[i] = instead
		}
	}
}

// Unknown is the text of a note on a key that rival ignores. known are the keys that it has.
func Unknown(rival, key string, known []string) string {
	text := rival + " ignores it, since it knows no such key"
	if nearest := words.Nearest(key, known); nearest != "" && nearest != key {
		text += fmt.Sprintf("; did you mean %s?", nearest)
	}
	return text
}
