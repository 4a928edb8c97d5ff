// Package importer makes a configuration of superd from the files of other supervisors.
//
// Each format is a package below this one, which makes a [draft.Document]: programs with the
// comments of the source, and notes on each key that has no counterpart, means something else, or
// is ignored by the other supervisor itself.
package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"superd/importer/compose"
	"superd/importer/draft"
	"superd/importer/exported"
	"superd/importer/pm2"
	"superd/importer/processcompose"
	"superd/importer/procfile"
	"superd/importer/s6"
	"superd/importer/supervisord"
	"superd/importer/systemd"
)

// A Format is a kind of file that can be imported.
type Format struct {
	Name, Description string
	// Import reads the file at path. dir is as in [draft.Document].
	Import func(system draft.System, path, dir string) (*draft.Document, error)
}

// Formats returns all formats.
func Formats() []Format {
	return []Format{
		{"supervisord", "supervisord.conf, with the files that it includes", supervisord.Import},
		{"procfile", "a Procfile, with the .env beside it", procfile.Import},
		{"process-compose", "process-compose.yaml", processcompose.Import},
		{"compose", "compose.yaml of Docker", compose.Import},
		{"systemd", "a unit: NAME.service, with NAME.socket, NAME.timer and NAME.service.d beside it",
			systemd.Import},
		{"s6", "a service directory of s6 or runit, or a directory of those, or of s6-rc", s6.Import},
		{"pm2", "ecosystem.config.js, .json or .yml of pm2", pm2.Import},
		{"nomad", "a job of Nomad that superd export has written", exported.Import},
		{"kubernetes", "manifests of Kubernetes that superd export has written", exported.Import},
	}
}

// Find returns the format of a name.
func Find(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("%q is no format: write one of %s", name, strings.Join(names, ", "))
}

// Detect returns the format of a file by its name, else by what it contains.
func Detect(path string) (Format, error) {
	name, err := detect(path)
	if err != nil {
		return Format{}, err
	}
	if name == "" {
		return Format{}, fmt.Errorf("can't tell the format of %s: name it before the file", path)
	}
	return Find(name)
}

// names are the beginnings and ends of file names by which a format is known.
var names = []struct{ prefix, suffix, format string }{
	{"procfile", "", "procfile"},
	{"supervisord", ".conf", "supervisord"},
	{"supervisord", ".ini", "supervisord"},
	{"process-compose", ".yaml", "process-compose"},
	{"process-compose", ".yml", "process-compose"},
	{"docker-compose", ".yaml", "compose"},
	{"docker-compose", ".yml", "compose"},
	{"compose", ".yaml", "compose"},
	{"compose", ".yml", "compose"},
	{"", ".service", "systemd"},
	{"", ".socket", "systemd"},
	{"", ".timer", "systemd"},
	{"ecosystem", ".js", "pm2"},
	{"ecosystem", ".cjs", "pm2"},
	{"ecosystem", ".json", "pm2"},
	{"ecosystem", ".yml", "pm2"},
	{"ecosystem", ".yaml", "pm2"},
	{"", ".config.js", "pm2"},
	{"pm2", ".json", "pm2"},
	{"", ".nomad.hcl", "nomad"},
	{"", ".nomad", "nomad"},
}

// marks are lines and parts of lines by which a format is known, the most telling ones first.
var marks = []struct{ text, format string }{
	{"\n[supervisord]", "supervisord"},
	{"\n[program:", "supervisord"},
	{"\n[Service]", "systemd"},
	{"\n[Socket]", "systemd"},
	{"\nprocesses:", "process-compose"},
	{"\nservices:", "compose"},
	{"\napps:", "pm2"},
	{"module.exports", "pm2"},
	{`"apps"`, "pm2"},
	{"\napiVersion: apps/", "kubernetes"},
	{"\napiVersion: batch/", "kubernetes"},
}

func detect(path string) (format string, err error) {
	info, err := os.Stat(path)
	if err != nil && strings.HasSuffix(path, ".service") && strings.Contains(filepath.Base(path), "@") {
		return "systemd", nil // an instance of a template
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "s6", nil
	}
	base := strings.ToLower(filepath.Base(path))
	for _, n := range names {
		if strings.HasPrefix(base, n.prefix) && strings.HasSuffix(base, n.suffix) {
			return n.format, nil
		}
	}
	text, err := draft.Machine().ReadFile(path)
	if err != nil {
		return "", err
	}
	for _, m := range marks {
		if strings.Contains("\n"+string(text), m.text) {
			return m.format, nil
		}
	}
	return "", nil
}

// Import reads the file at path. The TOML will be in the directory target; if that is not the one
// of the file, relative paths become absolute.
func Import(f Format, path, target string) (*draft.Document, error) {
	// A unit may be an instance of a template.
	if _, err := os.Stat(path); err != nil && (f.Name != "systemd" || !strings.Contains(filepath.Base(path), "@")) {
		return nil, fmt.Errorf("read %s: %w", path, cause(err))
	}
	source, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(source); err == nil && !info.IsDir() {
		source = filepath.Dir(source)
	}
	target, err = filepath.Abs(target)
	if err != nil {
		return nil, err
	}
	dir := source
	if same(source, target) {
		dir = ""
	}
	system, mode := draft.Machine(), fs.FileMode(0o644)
	read, isRead := system.ReadFile, map[string]bool{}
	var notes []draft.Note
	system.ReadFile = func(path string) ([]byte, error) {
		text, err := read(path)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil {
			mode &= info.Mode() | 0o200
		}
		if !isRead[path] {
			isRead[path] = true
			notes = append(notes, encoding(path, text)...)
		}
		return text, nil
	}
	importFile := f.Import
	if text, err := system.ReadFile(path); err == nil && exported.Marked(string(text)) {
		importFile = exported.Import // whatever its format is
	}
	doc, err := importFile(system, path, dir)
	if err != nil && len(notes) > 0 {
		return nil, fmt.Errorf("%w (%s)", err, notes[0])
	}
	if err != nil {
		return nil, err
	}
	doc.Mode, doc.Notes = mode, append(doc.Notes, notes...)
	if dir != "" && !doc.Defaults.Has("directory") && len(doc.Programs) > 0 {
		doc.Defaults.Set("directory", dir)
	}
	doc.SortNotes()
	return doc, nil
}

// encoding notes the first line that is no UTF-8, and the first one with a NUL byte.
func encoding(path string, text []byte) (notes []draft.Note) {
	noteAt := func(at int, what string) {
		line := 1 + bytes.Count(text[:at], []byte("\n"))
		notes = append(notes, draft.Note{Place: draft.Place{File: path, Line: line}, Text: what})
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		noteAt(0, "it seems to be UTF-16: save it as UTF-8")
		return notes
	}
	if valid := len(bytes.ToValidUTF8(text, nil)); valid < len(text) {
		at := 0
		for r, size := utf8.DecodeRune(text); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(text[at:]) {
			at += size
		}
		noteAt(at, "the line is not UTF-8, which TOML is: \uFFFD stands for what is not")
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		noteAt(at, "the line has a NUL byte, which no argument and no variable can have")
	}
	return notes
}

func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
