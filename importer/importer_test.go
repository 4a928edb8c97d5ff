package importer

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"superd/config"
	"superd/importer/draft"
	"superd/tests/golden"
)

// root is where the files of a case are, for the importer.
const root = "/srv/app"

// A sourceFile is one file of a case.
type sourceFile struct{ name, text string }

// readCase returns the files of a case: each begins with a line "-- NAME --". The first one is
// imported; a name that ends in "/" is imported as a directory, and has no text.
func readCase(t testing.TB, path string) (files []sourceFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			if name, ok = strings.CutSuffix(strings.TrimSpace(name), " --"); ok {
				files = append(files, sourceFile{name: name})
				continue
			}
		}
		files[len(files)-1].text += line
	}
	return files
}

// systemOf returns a system with these files below root, and a small environment.
func systemOf(files []sourceFile) draft.System {
	env := map[string]string{"HOME": "/root", "PATH": "/usr/bin:/bin", "STAGE": "test"}
	return draft.System{
		ReadFile: func(path string) ([]byte, error) {
			for _, f := range files {
				if filepath.Join(root, f.name) == filepath.Clean(path) && !strings.HasSuffix(f.name, "/") {
					return []byte(f.text), nil
				}
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		IsDir: func(path string) bool {
			return slices.ContainsFunc(files, func(f sourceFile) bool {
				return strings.HasPrefix(filepath.Join(root, f.name), filepath.Clean(path)+"/")
			})
		},
		Glob: func(pattern string) ([]string, error) {
			var found []string
			for _, f := range files {
				for path := filepath.Join(root, f.name); path != root && path != "/"; path = filepath.Dir(path) {
					ok, err := filepath.Match(pattern, path)
					if err != nil {
						return nil, err
					}
					if ok && !slices.Contains(found, path) {
						found = append(found, path)
					}
				}
			}
			slices.Sort(found)
			return found, nil
		},
		Getenv: func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		},
		Hostname: func() string { return "host1" },
	}
}

// TestGolden imports each case in testdata, for the directory of its files, and compares the
// configuration and the notes. superd has to accept every configuration.
func TestGolden(t *testing.T) {
	for _, f := range Formats() {
		cases, err := filepath.Glob(filepath.Join("testdata", f.Name, "*.txt"))
		if err != nil || len(cases) == 0 {
			t.Errorf("%s has no cases: %v", f.Name, err)
		}
		for _, path := range cases {
			name := strings.TrimSuffix(filepath.Base(path), ".txt")
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				files := readCase(t, path)
				doc, err := f.Import(systemOf(files), filepath.Join(root, files[0].name), "")
				if err != nil {
					golden.Check(t, f.Name+"/"+name+".golden", "error: "+err.Error()+"\n")
					return
				}
				doc.SortNotes()
				var notes strings.Builder
				for _, n := range doc.Notes {
					notes.WriteString(n.String() + "\n")
				}
				golden.Check(t, f.Name+"/"+name+".golden", doc.TOML()+"-- notes --\n"+notes.String())
				dir := t.TempDir()
				conf := accept(t, doc, dir, doc.TOML())
				if conf == nil || doc.Text != "" {
					return
				}
				notes.Reset()
				whole := len(doc.Notes)
				superd := doc.Superd
				if err := doc.Include("source"); err != nil {
					t.Fatal(err)
				}
				if len(doc.Notes) == whole && !superd.Empty() {
					t.Error("nothing is said of [superd]")
				}
				included := accept(t, doc, dir, "include = ['included.toml']\n")
				for _, p := range conf.Programs {
					changed := config.CompareProgram(p, included.Program(p.Name)).Keys
					changed = slices.DeleteFunc(changed, func(k config.KeyChange) bool {
						table, _, _ := strings.Cut(k.Key, ".") // without effect here
						return k.Key == "log.max_size" && p.Log.Sink != config.SinkFile ||
							p.Accepts() && (table == "backoff" || table == "start_limit")
					})
					if len(changed) > 0 {
						t.Errorf("%s is another program in a file that is included: %+v\n%s", p.Name, changed, doc.TOML())
					}
				}
			})
		}
	}
}

// accept checks that superd finds no mistake in a document, and returns its configuration; nil if
// it has no programs. main is the text of superd.toml in dir, the document is included.toml beside
// it.
func accept(t *testing.T, doc *draft.Document, dir, main string) *config.Config {
	t.Helper()
	if len(doc.Programs) == 0 {
		return nil
	}
	path := filepath.Join(dir, "superd.toml")
	for name, text := range map[string]string{"superd.toml": main, "included.toml": doc.TOML()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := config.Load(path)
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		t.Fatalf("superd refuses the configuration: %v\n%s", mistakes, doc.TOML())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range conf.Errors {
		t.Errorf("superd check: %v\n%s", mistake, doc.TOML())
	}
	return conf
}

// TestKeys writes the keys of a program in any order: the result parses, and has every one.
func TestKeys(t *testing.T) {
	var keys []string
	for _, k := range config.Describe() {
		if k.Table == "program" {
			keys = append(keys, k.Name)
		}
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		some := keys[:1+random.IntN(len(keys))]
		doc := draft.New("")
		program := doc.Program("p")
		for _, key := range some {
			program.Set(key, strings.Repeat("x", random.IntN(90)))
		}
		var decoded map[string]any
		meta, err := toml.Decode(doc.TOML(), &decoded)
		if err != nil {
			t.Fatalf("%q become no TOML: %v\n%s", some, err, doc.TOML())
		}
		for _, key := range some {
			if !meta.IsDefined(append([]string{"program", "p"}, strings.Split(key, ".")...)...) {
				t.Fatalf("%s of %q is lost:\n%s", key, some, doc.TOML())
			}
		}
	}
}

func TestDetect(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ file, text, want string }{
		{"Procfile", "", "procfile"},
		{"Procfile.dev", "", "procfile"},
		{"compose.yaml", "", "compose"},
		{"docker-compose.prod.yml", "", "compose"},
		{"process-compose.yaml", "", "process-compose"},
		{"web.service", "", "systemd"},
		{"ecosystem.config.js", "", "pm2"},
		{"supervisord.conf", "", "supervisord"},
		{"app.conf", "; mine\n[program:x]\ncommand=x\n", "supervisord"},
		{"stack.yml", "services:\n  web: {}\n", "compose"},
		{"dev.yml", "processes:\n  web: {}\n", "process-compose"},
		{"apps.json", `{"apps": []}`, "pm2"},
		{"notes.txt", "nothing\n", ""},
	}
	for _, tt := range tests {
		path := filepath.Join(dir, tt.file)
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := detect(path); got != tt.want || err != nil {
			t.Errorf("detect(%s) = %q, %v, want %q", tt.file, got, err, tt.want)
		}
	}
	if got, err := detect(dir); got != "s6" || err != nil {
		t.Errorf("detect of a directory = %q, %v, want s6", got, err)
	}
}

// TestPaths: relative paths stay in the directory of the source, and become absolute elsewhere.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "Procfile")
	if err := os.WriteFile(path, []byte("web: ./serve\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	format, err := Find("procfile")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{dir: "", t.TempDir(): dir} {
		doc, err := Import(format, path, target)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := doc.Defaults.Get("directory").(string); got != want {
			t.Errorf("for %s the directory is %q, want %q", target, got, want)
		}
	}
}
