// Package exported imports files that superd export has written: their mark has the configuration.
//
// It exports that configuration again and compares, so that nobody loses an edit of the file
// unawares: each has a note.
package exported

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kylelemons/godebug/diff"

	"superd/config"
	"superd/exporter"
	"superd/exporter/manifest"
	"superd/exporter/mark"
	"superd/importer/draft"
)

// Import reads a file, which is for one of the formats of superd export. Paths in a mark are
// absolute, so dir means nothing.
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, marked, err := mark.Find(string(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case !marked:
		return nil, fmt.Errorf("read %s: it has no mark of superd export, and only such files can be imported: write its "+
			"programs by hand, or import what it was made from", path)
	}
	doc := draft.New(dir)
	doc.Text = m.TOML
	if m.Whole {
		doc.Text = wholeText(m)
		doc.Note(draft.Place{File: path}, "superd.log_dir", "it is that of the export: check it")
		return doc, nil
	}
	return doc, compare(system, doc, path, string(text), m)
}

// Marked reports whether a file has the configuration, and is not made of fields that an importer
// of its format reads.
func Marked(text string) bool {
	m, ok, err := mark.Find(text)
	return ok && err == nil && (m.Whole || m.Format == "nomad" || m.Format == "kubernetes")
}

// wholeText returns the configuration of a whole export, without what its file escapes.
func wholeText(m mark.Mark) string {
	switch m.Format {
	case "nomad":
		return strings.NewReplacer("$${", "${", "%%{", "%{").Replace(m.TOML)
	case "compose":
		return strings.ReplaceAll(m.TOML, "$$", "$")
	}
	return m.TOML
}

// compare notes what differs from the export of the mark: in the file, and in others of the same
// export that are beside it.
func compare(system draft.System, doc *draft.Document, path, text string, m mark.Mark) error {
	format, err := exporter.Find(m.Format)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	conf, err := config.ExamineEdited(m.Path, m.Path, m.TOML)
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		err = mistakes
	}
	if err == nil && len(conf.Errors) > 0 {
		err = conf.Errors
	}
	if err != nil {
		return fmt.Errorf("read %s: its mark has a mistake: %w", path, err)
	}
	again, err := format.Export(conf, m.Options)
	if err != nil {
		return err
	}
	for i, file := range again.Files {
		if i == 0 {
			differences(doc, path, file, text)
			continue
		}
		beside := filepath.Join(filepath.Dir(path), file.Name)
		if other, err := system.ReadFile(beside); err == nil {
			differences(doc, beside, file, string(other))
		}
	}
	return nil
}

// maxShown is the length of the longest line that a note has.
const maxShown = 60

// differences notes the lines of a file that are not those of the export.
func differences(doc *draft.Document, path string, exported manifest.File, text string) {
	was, is := body(exported.Text), body(text)
	var deleted, inserted []string
	line := 1
	for _, chunk := range diff.DiffChunks(was, is) {
		deleted, inserted = append(deleted, chunk.Deleted...), append(inserted, chunk.Added...)
		if len(chunk.Equal) == 0 && len(chunk.Added) == 0 {
			continue // what is in its place follows
		}
		removed, added := shown(deleted), shown(inserted)
		at := draft.Place{File: path, Line: line}
		line += len(inserted) + len(chunk.Equal)
		deleted, inserted = nil, nil
		switch {
		case removed != "" && added != "":
			doc.Note(at, "", "%s is %s in the export: change the result accordingly", added, removed)
		case added != "":
			doc.Note(at, "", "%s is not in the export: change the result accordingly", added)
		case removed != "":
			doc.Note(at, "", "%s of the export is missing: change the result accordingly", removed)
		}
	}
}

// body returns the lines before the mark. Comments and indentation say nothing.
func body(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if mark.Begins(line) {
			break
		}
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			line = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// shown returns lines as one text, "" if they are empty.
func shown(lines []string) string {
	text := strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}
