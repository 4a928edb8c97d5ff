// Command copyright prints the copyright file of a package of superd, in Debian's format: the licence
// of superd, and those of all modules that its commands link, with their notices.
//
// Usage, in the folder of this module:
//
//	go run ./copyright [-dir folder] > copyright
//
// A module without a file of its licence, or without a line of copyright in it, is an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	dir := flag.String("dir", "..", "`folder` of superd")
	flag.Parse()
	if err := run(os.Stdout, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "copyright:", err)
		os.Exit(1)
	}
}

// A module is what a licence is for.
type module struct {
	Path, Version, Dir string
}

func run(w io.Writer, dir string) error {
	modules, err := linked(dir)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	modules = slices.Concat([]module{{Path: "superd", Dir: dir}}, modules,
		[]module{{Path: "Go", Version: runtime.Version(), Dir: strings.TrimSpace(string(goroot))}})
	fmt.Fprint(w, "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"+
		"Upstream-Name: superd\n"+
		"Comment: The binaries are linked statically. Each Files: after the first names a Go module in them.\n")
	for _, m := range modules {
		text, err := stanza(m)
		if err != nil {
			return err
		}
		fmt.Fprint(w, "\n"+text)
	}
	return nil
}

// linked returns the modules that the commands link on any of the architectures of the packages,
// without superd.
func linked(dir string) ([]module, error) {
	found := map[string]module{}
	for _, arch := range []string{"amd64", "arm64"} {
		list := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/superd", "./cmd/superd-exec", "./cmd/superd-ui")
		list.Dir = dir
		list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list modules: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *module }
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("list modules: %w", err)
			}
			if m := p.Module; m != nil && m.Version != "" {
				found[m.Path] = *m
			}
		}
	}
	var modules []module
	for _, path := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, found[path])
	}
	return modules, nil
}

// stanza returns the paragraph on a module.
func stanza(m module) (string, error) {
	texts, err := notices(m.Dir)
	if err != nil {
		return "", fmt.Errorf("find licence of %s: %w", m.Path, err)
	}
	holders := copyrights(texts)
	if len(holders) == 0 {
		if holders = owners[m.Path]; len(holders) == 0 {
			return "", fmt.Errorf("find licence of %s: no line of copyright in %s: enter its owner", m.Path, m.Dir)
		}
	}
	files, name := m.Path+"/*", strings.ReplaceAll(m.Path, "/", "-")
	if m.Path == "superd" {
		files = "*"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Files: %s\nCopyright: %s\nLicense: %s\n", files, strings.Join(holders, "\n "), name)
	for line := range strings.Lines(texts) {
		if line = strings.TrimRight(line, " \t\r\n\f"); line == "" {
			line = "."
		}
		b.WriteString(" " + line + "\n")
	}
	if m.Version != "" {
		b.WriteString("Comment: " + m.Version + "\n")
	}
	return b.String(), nil
}

// owners are the authors of modules whose licence does not name them.
var owners = map[string][]string{
	// As in their files
	"github.com/kylelemons/godebug": {"2013 Google Inc."},
	"github.com/spf13/cobra":        {"2013-2023 The Cobra Authors"},
}

// notices returns the licence in dir, and a notice beside it.
func notices(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var all []string
	licensed := false
	for _, e := range entries {
		base := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".md"), ".txt"))
		isLicence := slices.Contains([]string{"LICENSE", "LICENCE", "COPYING"}, base) || strings.HasPrefix(base, "LICENSE-") || strings.HasPrefix(base, "LICENSE.")
		if e.IsDir() || !isLicence && base != "NOTICE" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		all = append(all, strings.TrimSpace(string(text))+"\n")
		licensed = licensed || isLicence
	}
	if !licensed {
		return "", errors.New("there is no file LICENSE or COPYING in " + dir)
	}
	return strings.Join(all, "\n"), nil
}

// copyrights returns who holds the copyright, from the lines of a licence that say so.
func copyrights(text string) (holders []string) {
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\r\n*#-")
		rest, ok := strings.CutPrefix(line, "Copyright ")
		// The licences themselves have lines such as "Copyright [yyyy] [name]", "copyright notice".
		if !ok || strings.ContainsAny(rest, "[{") || strings.HasPrefix(rest, "License") || strings.HasPrefix(rest, "notice") {
			continue
		}
		rest = strings.TrimSpace(strings.NewReplacer("(c)", "", "(C)", "", "©", "").Replace(rest))
		rest = strings.TrimSuffix(rest, " All rights reserved.")
		if !slices.Contains(holders, rest) {
			holders = append(holders, rest)
		}
	}
	return holders
}
