// Package mark puts a configuration into an exported file, as comments, so that it can be imported
// again with all that the file itself can't say.
//
// The mark is the lines between [begin] and [end]. Behind begin stands what else the export was
// made from, as JSON.
package mark

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"superd/exporter/manifest"
)

// The first and the last line of a mark. Each may be indented.
const (
	begin = "# superd export: begin "
	end   = "# superd export: end"
)

// Labels of a service of Docker Compose, by which it is imported as what it was.
const (
	GroupLabel = "superd.group." // followed by the name of a group of the program
	TypeLabel  = "superd.type"
)

// A Mark is what an exported file was made from.
type Mark struct {
	Format string
	Whole  bool   `json:",omitempty"` // superd itself reads the text
	Path   string // of the configuration
	manifest.Options
	TOML string `json:"-"`
}

// New returns the mark for an export.
func New(format string, s *manifest.Source) (Mark, error) {
	path, err := filepath.Abs(s.Path)
	return Mark{Format: format, Path: path, Options: s.Options, TOML: s.Definition.Text("")}, err
}

// NewWhole returns the mark for an export with superd itself. Its log files are in logDir.
func NewWhole(format string, s *manifest.Source, logDir string) (Mark, error) {
	m, err := New(format, s)
	m.Whole, m.TOML = true, s.Definition.Text(logDir)
	return m, err
}

// Comment returns the mark as lines of a comment.
func (m Mark) Comment() string {
	return m.first() + "# superd import reads this configuration; an edit above it changes nothing in it.\n" +
		Comment(strings.Split(strings.TrimSuffix(m.TOML, "\n"), "\n")) + end + "\n"
}

// Text returns the mark as the text of a configuration.
func (m Mark) Text() string { return m.first() + m.TOML + end + "\n" }

func (m Mark) first() string {
	header, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has only strings
	}
	return begin + string(header) + "\n"
}

// Comment returns lines as a comment of YAML, HCL or a unit.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	return b.String()
}

// Begins reports whether a mark begins with the line.
func Begins(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), begin) }

// Find returns the mark of a file; ok is false if it has none.
func Find(text string) (m Mark, ok bool, err error) {
	var lines []string
	inside, first := false, 0
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		header, begins := strings.CutPrefix(trimmed, begin)
		switch {
		case begins && !ok:
			inside, ok, first = true, true, i+1
			if err := json.Unmarshal([]byte(header), &m); err != nil {
				return m, true, fmt.Errorf("line %d: the mark of superd export can't be read: %w", first, err)
			}
		case inside && trimmed == end:
			m.TOML = unindent(lines)
			return m, true, nil
		case inside:
			lines = append(lines, line)
		}
	}
	if inside {
		return m, true, fmt.Errorf("line %d: the mark of superd export has no end: a line %q", first, end)
	}
	return m, false, nil
}

// unindent returns the lines of a mark without what stands before each one.
func unindent(lines []string) string {
	commented := true
	for _, line := range lines {
		commented = commented && strings.HasPrefix(strings.TrimSpace(line), "#")
	}
	var b strings.Builder
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if commented {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
			if i == 0 {
				continue // the explanation
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
