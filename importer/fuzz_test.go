package importer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// fuzz imports any text as a format: the result is an error or TOML.
func fuzz(f *testing.F, name string) {
	format, err := Find(name)
	if err != nil {
		f.Fatal(err)
	}
	file := map[string]string{"procfile": "Procfile", "compose": "compose.yaml",
		"process-compose": "process-compose.yaml", "systemd": "web.service", "s6": "web/run",
		"pm2": "ecosystem.config.js", "supervisord": "supervisord.conf"}[name]
	cases, err := filepath.Glob(filepath.Join("testdata", name, "*.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range cases {
		for _, source := range readCase(f, path) {
			f.Add(source.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := []sourceFile{{file, text}}
		path := filepath.Join(root, file)
		switch name {
		case "s6": // the text is also that of other files of the directory
			path = filepath.Join(root, "web")
			for _, other := range []string{"type", "notification-fd", "down-signal", "timeout-kill", "dependencies"} {
				if strings.Contains(text, other) {
					files = append(files, sourceFile{"web/" + other, text})
				}
			}
		case "systemd":
			files = append(files, sourceFile{"web.socket", text}, sourceFile{"web.timer", text})
			if strings.Contains(text, "[Timer]") {
				path = filepath.Join(root, "web.timer")
			}
		case "supervisord":
			files = append(files, sourceFile{"conf.d/a.conf", text})
		case "procfile", "compose":
			files = append(files, sourceFile{".env", text})
		}
		doc, err := format.Import(systemOf(files), path, "")
		if err != nil {
			return
		}
		var decoded map[string]any
		if _, err := toml.Decode(doc.TOML(), &decoded); err != nil {
			t.Errorf("%q becomes no TOML: %v\n%s", text, err, doc.TOML())
		}
	})
}

func FuzzSupervisord(f *testing.F)    { fuzz(f, "supervisord") }
func FuzzProcfile(f *testing.F)       { fuzz(f, "procfile") }
func FuzzSystemd(f *testing.F)        { fuzz(f, "systemd") }
func FuzzCompose(f *testing.F)        { fuzz(f, "compose") }
func FuzzProcessCompose(f *testing.F) { fuzz(f, "process-compose") }
func FuzzPM2(f *testing.F)            { fuzz(f, "pm2") }
func FuzzS6(f *testing.F)             { fuzz(f, "s6") }
