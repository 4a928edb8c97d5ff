package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/internal/passwd"
	"superd/internal/rlimit"
	"superd/tests/golden"
)

// stat is the information about a file that has only a mode.
type stat struct{ mode fs.FileMode }

func (s stat) Name() string       { return "" }
func (s stat) Size() int64        { return 0 }
func (s stat) Mode() fs.FileMode  { return s.mode }
func (s stat) ModTime() time.Time { return time.Time{} }
func (s stat) IsDir() bool        { return s.mode.IsDir() }
func (s stat) Sys() any           { return nil }

// noRights allows what every user may do.
type noRights struct{}

func (noRights) Nice(n int) error { return belowOwn(n) }

func (noRights) OOMScoreAdj(n int) error { return belowOwn(n) }

func belowOwn(n int) error {
	if n < 0 {
		return fmt.Errorf("%d is below superd's own: raise it", n)
	}
	return nil
}

func (noRights) RealTime(priority int) error {
	return fmt.Errorf("real-time priority %d needs root: choose another policy", priority)
}

func (noRights) IORealTime() error {
	return errors.New("the class realtime needs root: choose best-effort")
}

// memory is a host whose files are in memory, below /etc/superd. Its environment has HOME, PATH and
// NOTIFY_SOCKET; its users are root and www-data; a limit may be a million at most. A name that
// begins with missing does not exist, and one that begins with plain is not executable.
func memory(files map[string]string) host {
	clean := func(path string) string {
		path, _ = strings.CutPrefix(path, "/etc/superd/")
		return filepath.Clean(path)
	}
	accounts := map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n",
		"/etc/group":  "root:x:0:\nwww-data:x:33:\nadm:x:4:www-data\nx:x:5:\n",
	}
	h := host{
		stat: func(path string) (fs.FileInfo, error) {
			switch base := filepath.Base(path); {
			case strings.HasPrefix(base, "missing"):
				return nil, fs.ErrNotExist
			case strings.HasPrefix(base, "plain"):
				return stat{0o644}, nil
			case strings.Contains(path, "/bin/"):
				return stat{0o755}, nil
			default:
				return stat{0o755 | fs.ModeDir}, nil
			}
		},
		machine: &machine{
			accounts: passwd.Files{UserFile: "/etc/passwd", GroupFile: "/etc/group", Read: func(path string) ([]byte, error) {
				return []byte(accounts[path]), nil
			}},
			setLimit: func(_ rlimit.Resource, value uint64) error {
				if value > 1_000_000 {
					return fmt.Errorf("%d is above the hard limit, 1000000: lower it", value)
				}
				return nil
			},
			rights: noRights{},
		},
		environ: []string{"HOME=/root", "PATH=/usr/bin:/bin", "NOTIFY_SOCKET=/run/notify"},
	}
	h.files.Abs = func(path string) (string, error) {
		return filepath.Join("/etc/superd",
			clean(path)), nil
	}
	h.files.Read = func(path string) (string, error) {
		text, ok := files[clean(path)]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	}
	h.files.ReadEnv = h.files.Read
	h.files.Glob = func(pattern string) ([]string, error) {
		var matches []string
		for name := range files {
			if ok, err := filepath.Match(clean(pattern), name); err != nil {
				return nil, err
			} else if ok {
				matches = append(matches, name)
			}
		}
		return matches, nil
	}
	return h
}

// outcome lists the results of Load: one line a mistake, those of the main file without its name.
func outcome(files map[string]string) string {
	var b strings.Builder
	show := func(prefix string, mistakes Errors) {
		for _, e := range mistakes {
			fmt.Fprintf(&b, "%s%s\n", prefix, strings.TrimPrefix(e.Error(), "superd.toml:"))
		}
	}
	c, err := load("superd.toml", memory(files))
	if err == nil {
		// It must be the same after a way through its archive.
		var restored *Config
		if restored, err = restore(c.Archive(), memory(nil)); err == nil {
			c = restored
		}
	}
	if err != nil {
		mistakes, ok := errors.AsType[Errors](err)
		if !ok {
			return fmt.Sprintf("%T, want Errors: %v", err, err)
		}
		b.WriteString("useless:\n")
		show("", mistakes)
		return b.String()
	}
	show("", c.Errors)
	show("warning: ", c.Warnings)
	for _, p := range c.Programs {
		if len(p.Invalid) > 0 {
			fmt.Fprintf(&b, "invalid: %s (%d)\n", p.Name, len(p.Invalid))
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
			got := outcome(files)
			rewritten += "=== " + name + "\n" + input + "---\n" + got + "\n"
			if golden.Update() {
				continue
			}
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				if strings.TrimSpace(got) != strings.TrimSpace(want) {
					t.Errorf("load gives\n%s\nwant\n%s", got, want)
				}
			})
		}
		if golden.Update() {
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
	for _, k := range keys() {
		name := strings.TrimPrefix(k.table+"."+k.name+":", ".")
		name = strings.Replace(name, "program.", "program.web.", 1)
		name = strings.Replace(name, "socket.", "socket.http.", 1)
		if !strings.Contains(string(data), name) {
			t.Errorf("no case of testdata/keys.txt has a mistake in %s", name)
		}
	}
}
