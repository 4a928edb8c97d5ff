// Command site lays out the pages of the repository for mkdocs. It copies them with their pictures,
// and makes a page of each other file or directory of the repository that they link to. It adds an
// index of keys, by whose headings the search finds a key before all that mentions it.
//
//	go -C tools run ./site DIRECTORY
package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site DIRECTORY")
		os.Exit(2)
	}
	if err := run("..", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run lays out the pages of the repository in a directory below to.
func run(root, to string) error {
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list files of the repository: %w", err)
	}
	s := site{tree: os.DirFS(root), to: to, directories: map[string][]string{}, made: map[string]bool{}}
	var pages []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		for dir, below := path.Dir(name), name; ; dir, below = path.Dir(dir), dir {
			s.add(dir, below)
			if dir == "." {
				break
			}
		}
		if path.Ext(name) == ".md" && !strings.Contains(name, "testdata/") {
			pages = append(pages, name)
		}
	}
	for _, page := range pages {
		if err := s.page(page); err != nil {
			return fmt.Errorf("lay out %s: %w", page, err)
		}
	}
	return s.keys()
}

// A site is a layout that is being made.
type site struct {
	tree        fs.FS
	to          string
	directories map[string][]string // what is in a directory, as git knows it
	made        map[string]bool     // files and directories that have a page
}

// add notes that a file or directory is in another one.
func (s *site) add(dir, name string) {
	known := s.directories[dir]
	if len(known) == 0 || known[len(known)-1] != name { // git lists them in order
		s.directories[dir] = append(known, name)
	}
}

var (
	link  = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
)

// page copies a page. Its links to other files lead to the pages of these.
func (s *site) page(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	// Fenced blocks stay as they are
	var out strings.Builder
	rest := string(text)
	for rest != "" {
		before, block := rest, ""
		if at := fence.FindStringIndex(rest); at != nil {
			before, block = rest[:at[0]], rest[at[0]:at[1]]
		}
		rest = rest[len(before)+len(block):]
		linked, err := s.links(name, before)
		if err != nil {
			return err
		}
		out.WriteString(linked + block)
	}
	return s.write(name, out.String())
}

// links replaces the links in a part of a page.
func (s *site) links(page, text string) (string, error) {
	var failed error
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		m := link.FindStringSubmatch(found)
		target, anchor := m[1], m[2]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			return found
		}
		instead, err := s.target(path.Join(path.Dir(page), target))
		if err != nil && failed == nil {
			failed = err
		}
		relative, err := filepath.Rel(path.Dir(page), instead)
		if err != nil && failed == nil {
			failed = err
		}
		return "](" + relative + anchor + ")"
	})
	return text, failed
}

// target returns the path on the site of what a page links to, and makes a page of it if it is none.
func (s *site) target(name string) (string, error) {
	info, err := fs.Stat(s.tree, name)
	if err != nil {
		return "", err
	}
	switch ext := path.Ext(name); {
	case ext == ".md":
		return name, nil
	case info.IsDir():
		return s.directory(name)
	case ext == ".png", ext == ".svg":
		return name, s.once(name, func() error { return s.file(name) })
	}
	to := name + ".md"
	return to, s.once(to, func() error {
		text, err := fs.ReadFile(s.tree, name)
		if err != nil {
			return err
		}
		lang := strings.TrimPrefix(path.Ext(name), ".")
		return s.write(to, fmt.Sprintf("# %s\n\n````%s\n%s\n````\n", name, lang, strings.TrimSuffix(string(text), "\n")))
	})
}

// directory returns the page of a directory: its README, or else a list.
func (s *site) directory(name string) (string, error) {
	readme := path.Join(name, "README.md")
	if _, err := fs.Stat(s.tree, readme); err == nil {
		return readme, nil
	}
	to := path.Join(name, "index.md")
	return to, s.once(to, func() error {
		list := "# " + name + "\n\n"
		for _, below := range s.directories[name] {
			base := path.Base(below)
			if !strings.HasPrefix(name, "examples") {
				list += "- `" + base + "`\n"
				continue
			}
			target, err := s.target(below)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(name, target)
			if err != nil {
				return err
			}
			list += "- [" + base + "](" + relative + ")\n"
		}
		return s.write(to, list)
	})
}

// keyRow is the row of a key in the reference: table and name, name, type, default, meaning.
var keyRow = regexp.MustCompile("(?m)^\\| <a id=\"([^\"]+)\"></a>`([^`]+)` \\| .* \\| (.*) \\|$")

// keys makes the index of keys.
func (s *site) keys() error {
	const name = "docs/reference.md"
	reference, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	rows := keyRow.FindAllStringSubmatch(string(reference), -1)
	if len(rows) == 0 {
		return fmt.Errorf("find keys: %s has none", name)
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[2], b[2]) })
	index := "# Keys\n\n"
	for _, row := range rows {
		table, _, ok := strings.Cut(row[1], ".")
		if !ok {
			table = "the top of the file"
		}
		meaning, err := s.links(name, strings.ReplaceAll(row[3], "](#", "](reference.md#"))
		if err != nil {
			return err
		}
		index += fmt.Sprintf("## %s\n\nA key of [%s](reference.md#%s). %s\n\n", row[2], table, row[1], meaning)
	}
	return s.write(path.Join(path.Dir(name), "keys.md"), index)
}

// once makes a page that has not been made.
func (s *site) once(name string, make func() error) error {
	if s.made[name] {
		return nil
	}
	s.made[name] = true
	return make()
}

// file copies a file as it is.
func (s *site) file(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	return s.write(name, string(text))
}

func (s *site) write(name, text string) error {
	to := filepath.Join(s.to, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o644)
}
