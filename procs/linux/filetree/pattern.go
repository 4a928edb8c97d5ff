package filetree

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A pattern is one line of a .gitignore.
//
// Source: gitignore(5).
type pattern struct {
	glob    string // of doublestar
	negated bool   // what matches is not ignored
	dirOnly bool
	byName  bool // the last name of a path is matched, at any depth
}

// parse returns the patterns of lines.
func parse(lines []string) (all []pattern) {
	for i, line := range lines {
		if i == 0 {
			line = strings.TrimPrefix(line, "\ufeff") // as editors of Windows write it
		}
		if p, ok := parseLine(line); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseLine returns the pattern of a line. There is none in a comment.
func parseLine(line string) (p pattern, ok bool) {
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	line, p.negated = strings.CutPrefix(line, "!")
	line = trimSpaces(line)
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.byName = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if below, found := strings.CutSuffix(line, "/**"); found {
		line = below + "/**/*" // not the directory itself
	}
	names := strings.Split(withoutAlternatives(line), "/")
	for i, name := range names {
		if names[i] = stars.ReplaceAllStringFunc(name, single); names[i] == "*" && len(name) > 1 {
			names[i] = "**"
		}
	}
	p.glob = strings.Join(names, "/")
	return p, line != ""
}

// stars matches asterisks that mean a single one, unless they are all of a name, and what is
// escaped.
var stars = regexp.MustCompile(`\\.|\*{2,}`)

func single(found string) string {
	if found[0] == '*' {
		return "*"
	}
	return found
}

// trimSpaces removes spaces at the end of a line, except one after a backslash.
func trimSpaces(line string) string {
	short := strings.TrimRight(line, " ")
	escapes := len(short) - len(strings.TrimRight(short, `\`))
	if len(short) < len(line) && escapes%2 == 1 {
		return short + " "
	}
	return short
}

// withoutAlternatives escapes the braces, which doublestar takes for alternatives.
func withoutAlternatives(glob string) string {
	if !strings.ContainsAny(glob, "{}") {
		return glob
	}
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\' && i+1 < len(glob):
			b.WriteByte(c)
			i++
		case c == '{' || c == '}':
			b.WriteByte('\\')
		}
		b.WriteByte(glob[i])
	}
	return b.String()
}

// matches reports whether a path below the directory of the file matches. A malformed pattern
// matches nothing.
func (p *pattern) matches(path string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if p.byName {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	ok, err := doublestar.Match(p.glob, path)
	return ok && err == nil
}

// A decision is what patterns say of a path.
type decision uint8

const (
	undecided decision = iota
	ignored
	counted
)

// match returns what the last of the patterns that matches says.
func match(patterns []pattern, path string, isDir bool) decision {
	for _, p := range slices.Backward(patterns) {
		switch {
		case !p.matches(path, isDir):
		case p.negated:
			return counted
		default:
			return ignored
		}
	}
	return undecided
}
