package config

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata and docs/reference.md with what comes out")

// memory is a host whose files are in memory, below /etc/superd, and whose environment holds HOME, PATH and
// NOTIFY_SOCKET.
func memory(files map[string]string) host {
	clean := func(path string) string {
		path, _ = strings.CutPrefix(path, "/etc/superd/")
		return filepath.Clean(path)
	}
	return host{
		environ: []string{"HOME=/root", "PATH=/usr/bin:/bin", "NOTIFY_SOCKET=/run/notify"},
		abs:     func(path string) (string, error) { return filepath.Join("/etc/superd", clean(path)), nil },
		read: func(path string) ([]byte, error) {
			text, ok := files[clean(path)]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
		glob: func(pattern string) ([]string, error) {
			var matches []string
			for name := range files {
				if ok, err := filepath.Match(pattern, name); err != nil {
					return nil, err
				} else if ok {
					matches = append(matches, name)
				}
			}
			return matches, nil
		},
	}
}

// outcome lists what Load says: one line a mistake, those of the main file without its name.
func outcome(files map[string]string, hideLater bool) string {
	var b strings.Builder
	show := func(prefix string, mistakes Errors) {
		for _, e := range mistakes {
			if hideLater && strings.Contains(e.Err.Error(), "is not supported yet") {
				continue
			}
			fmt.Fprintf(&b, "%s%s\n", prefix, strings.TrimPrefix(e.Error(), "superd.toml:"))
		}
	}
	c, err := load("superd.toml", memory(files))
	if err != nil {
		b.WriteString("useless:\n")
		show("", err.(Errors))
		return b.String()
	}
	show("", c.Errors)
	show("warning: ", c.Warnings)
	for _, p := range c.Programs {
		var invalid Errors
		for _, e := range p.Invalid {
			if !hideLater || !strings.Contains(e.Err.Error(), "is not supported yet") {
				invalid = append(invalid, e)
			}
		}
		if len(invalid) > 0 {
			fmt.Fprintf(&b, "invalid: %s (%d)\n", p.Name, len(invalid))
		}
	}
	return b.String()
}

// TestGolden loads each case of testdata/*.txt and compares what comes out. A case is
//
//	=== what it shows
//	the file superd.toml
//	>>> another.toml
//	another file
//	---
//	what Load says
//
// The refusals of what is not supported yet are left out unless the case is about them.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(data), "=== ")
		rewritten := head
		for text := range strings.SplitSeq(rest, "\n=== ") {
			name, text, _ := strings.Cut(text, "\n")
			input, want, _ := strings.Cut(text, "---\n")
			files := map[string]string{}
			for i, file := range strings.Split(input, ">>> ") {
				name := "superd.toml"
				if i > 0 {
					name, file, _ = strings.Cut(file, "\n")
				}
				files[name] = file
			}
			got := outcome(files, !strings.Contains(name, "not supported"))
			rewritten += "=== " + name + "\n" + input + "---\n" + got + "\n"
			if *update {
				continue
			}
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				if strings.TrimSpace(got) != strings.TrimSpace(want) {
					t.Errorf("load gives\n%s\nwant\n%s", got, want)
				}
			})
		}
		if *update {
			if err := os.WriteFile(path, []byte(strings.TrimRight(rewritten, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestGoldenCoversEachKey(t *testing.T) {
	data, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		name := strings.TrimPrefix(k.table+"."+k.name+":", ".")
		name = strings.Replace(name, "program.", "program.web.", 1)
		if !strings.Contains(string(data), name) {
			t.Errorf("no case of testdata/keys.txt has a mistake in %s", name)
		}
	}
}
