package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"superd/config/environ"
)

// seedConfigs adds the files of all golden cases to the corpus.
func seedConfigs(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n=== ") {
			_, text, _ = strings.Cut(text, "\n")
			text, _, _ = strings.Cut(text, "---\n")
			for file := range strings.SplitSeq(text, ">>> ") {
				f.Add([]byte(file))
			}
		}
	}
}

func FuzzLoad(f *testing.F) {
	seedConfigs(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		files := map[string]string{
			"superd.toml":   string(data),
			"conf.d/a.toml": "[program.a]\ncommand = \"x\"\n[program.b]\ncommand = 5\n",
			"web.env":       "A=1\nB='2'\n",
		}
		c, err := load("superd.toml", memory(files))
		second, secondErr := load("superd.toml", memory(files))
		if !reflect.DeepEqual(c, second) || !reflect.DeepEqual(err, secondErr) {
			t.Fatalf("a second load differs: %v\n%v", err, secondErr)
		}
		if err != nil {
			mistakes, ok := errors.AsType[Errors](err)
			if !ok {
				t.Fatalf("the error is a %T, want Errors: %v", err, err)
			}
			checkMistakes(t, files, mistakes)
			return
		}
		checkMistakes(t, files, c.Errors)
		checkMistakes(t, files, c.Warnings)
		checkArchive(t, c)
		if diff := Compare(c, second); diff.Differs() {
			t.Fatalf("compare finds a difference to itself: %+v", diff)
		}
		for _, s := range c.Sockets {
			if len(s.Invalid) == 0 && (len(s.Listen) == 0 || s.Backlog < 1 || s.FDName == "") {
				t.Fatalf("a valid socket has values out of bounds: %+v", s)
			}
		}
		for _, p := range c.Programs {
			if len(p.Invalid) == 0 && p.Sockets != nil && !p.Sockets.Accept && len(p.Sockets.FDs()) == 0 {
				t.Fatalf("a valid program has sockets without addresses: %+v", p.Sockets)
			}
			if len(p.Invalid) == 0 && (len(p.Command) == 0 || p.Backoff.Initial <= 0 || p.Backoff.Max < p.Backoff.Initial ||
				p.StartTimeout <= 0 || p.StopTimeout < 0 || p.StopSignal <= 0 || p.Replicas < 1) {
				t.Fatalf("a valid program has values out of bounds: %+v", p)
			}
			argv, _, dir, err := p.Resolve(environ.Inherited([]string{"HOME=/root"}), nil, nil, nil)
			if err == nil && len(p.Invalid) == 0 && (len(argv) == 0 || !filepath.IsAbs(dir)) {
				t.Fatalf("resolve(%+v) = %q in %q", p, argv, dir)
			}
		}
	})
}

// checkMistakes checks that each mistake has a place that exists and a message of one line.
func checkMistakes(t *testing.T, files map[string]string, mistakes Errors) {
	t.Helper()
	for _, e := range mistakes {
		if e.File == "" || e.Err == nil || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
			t.Fatalf("mistake is not one line: %q", e.Error())
		}
		if e.Line == 0 {
			continue
		}
		lines := strings.Split(files[strings.TrimPrefix(e.File, "/etc/superd/")], "\n")
		if e.Line > len(lines) || e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
			t.Fatalf("%v: there is no such place", e)
		}
	}
}
