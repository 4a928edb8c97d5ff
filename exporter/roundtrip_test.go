package exporter_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/config"
	"superd/exporter"
	"superd/exporter/definition"
	"superd/exporter/manifest"
	"superd/importer"
	"superd/importer/draft"
)

// A way is an export with the import of its result.
type way struct {
	format exporter.Format
	name   string // of the format of superd import
	file   string // to import; "": the directory
	whole  bool
}

func ways(t *testing.T) (all []way) {
	t.Helper()
	for _, w := range []way{
		{name: "nomad", file: "shop.nomad.hcl"}, {name: "kubernetes", file: "shop.yaml"},
		{name: "systemd"}, {name: "compose", file: "compose.yaml"},
		{name: "nomad", file: "shop.nomad.hcl", whole: true}, {name: "kubernetes", file: "shop.yaml", whole: true},
		{name: "compose", file: "compose.yaml", whole: true},
	} {
		f, err := exporter.Find(w.name)
		if err != nil {
			t.Fatal(err)
		}
		w.format = f
		all = append(all, w)
	}
	return all
}

// there exports a configuration and imports the result.
func (w way) there(t *testing.T, c *config.Config) (*config.Config, *manifest.Export, *draft.Document) {
	t.Helper()
	export := w.format.Export
	if w.whole {
		export = w.format.Whole
	}
	e, err := export(c, options)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range e.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, w.file)
	if w.name == "nomad" {
		path = filepath.Join(dir, e.Files[0].Name) // a one-shot alone has its own
	}
	format, err := importer.Find(w.name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := importer.Import(format, path, dir)
	if err != nil {
		t.Fatalf("%s: import: %v\n%s", w.name, err, text(e))
	}
	back, err := config.ExamineEdited(c.Path, c.Path, doc.TOML())
	if err != nil {
		t.Fatalf("%s: load: %v\n%s", w.name, err, doc.TOML())
	}
	for _, mistake := range back.Errors {
		t.Errorf("%s: %v\n%s", w.name, mistake, doc.TOML())
	}
	return back, e, doc
}

// TestExportedBack: a mark gives back every key of every program and socket.
func TestExportedBack(t *testing.T) {
	c := readCase(t, "testdata/shop.toml")
	for _, w := range ways(t) {
		if w.name == "systemd" || w.name == "compose" && !w.whole {
			continue
		}
		back, _, doc := w.there(t, c)
		if got, want := meaning(t, back), meaning(t, c); got != want {
			t.Errorf("%s: the import is\n%s\nwant\n%s", w.name, got, want)
		}
		for _, n := range doc.Notes {
			if !w.whole {
				t.Errorf("%s: an unchanged file has the note %v", w.name, n)
			}
		}
	}
}

// meaning returns a configuration as one file, without [superd].
func meaning(t *testing.T, c *config.Config) string {
	t.Helper()
	d, err := definition.New(c)
	if err != nil {
		t.Fatal(err)
	}
	_, all, _ := strings.Cut(d.Text("log"), "\n\n")
	return all
}

// TestEveryKeyBack: what another importer makes of an export has each key as it was, or the export
// or the import has said so.
func TestEveryKeyBack(t *testing.T) {
	dir := t.TempDir()
	notes := map[string]int{} // of the import without the key
	for _, k := range config.Describe() {
		key := k.Name
		if k.Table == "socket" {
			key = "socket." + k.Name
		}
		s, ok := samples[key]
		if !ok {
			continue
		}
		with := loadText(t, dir, s.configuration(true))
		for _, w := range ways(t)[2:4] { // the others have a mark
			if excused[key+" "+w.name] {
				continue
			}
			back, e, doc := w.there(t, with)
			if was, is := valueOf(with, key), valueOf(back, key); was == is || told(key, e) {
				continue
			}
			base := s.configuration(false) + w.name
			if _, known := notes[base]; !known {
				_, _, before := w.there(t, loadText(t, dir, s.configuration(false)))
				notes[base] = len(before.Notes)
			}
			if len(doc.Notes) == notes[base] {
				t.Errorf("%s by %s: %s became %s, and nothing says so:\n%s\n%s", key, w.name, valueOf(with, key),
					valueOf(back, key), text(e), doc.TOML())
			}
		}
	}
}

// excused are keys that an export has in another way.
var excused = map[string]bool{
	"inherit_environment compose": true, // no container inherits an environment
	"hooks_user compose":          true, // the services of the hooks have the user
	"environment systemd":         true, // the import has the PATH of systemd, too
	"sandbox.preset systemd":      true, // the unit has what it stands for
	"sockets systemd":             true, // the socket has the name of the program
}

// valueOf returns the value of a key of the program p, or of its socket.
func valueOf(c *config.Config, key string) string {
	p := c.Program("p")
	if p == nil {
		return "no program"
	}
	keys := p.SetKeys()
	if name, ofSocket := strings.CutPrefix(key, "socket."); ofSocket {
		key = name
		if p.Sockets == nil {
			return "no socket"
		}
		for _, s := range c.Sockets {
			if p.Sockets.Has(s.Name) {
				keys = s.SetKeys()
			}
		}
	}
	for _, k := range keys {
		if k.Name == key {
			return k.Value
		}
	}
	return "the default"
}

// told reports whether a note of the export is about the key, or about all sockets.
func told(key string, e *manifest.Export) bool {
	for _, n := range e.Notes {
		if strings.HasSuffix(n.Key, "."+key) || strings.HasPrefix(key, "socket.") && n.Key == "program.p.sockets" ||
			strings.HasPrefix(n.Key, "socket.") && strings.HasSuffix(n.Key, strings.TrimPrefix(key, "socket")) {
			return true
		}
	}
	return false
}
