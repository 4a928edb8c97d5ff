package codec

import (
	"fmt"
	"path"
	"strings"

	"superd/config/document"
)

// FilePath reads a path. A relative one begins at the directory of its file.
var FilePath = Codec[string]{
	Name:   "path",
	Show:   QuoteSet,
	Schema: plain,
	Read: func(v Value) (string, bool) {
		s, ok := Word.Read(v)
		if !ok {
			return "", false
		}
		return v.Path(s), true
	},
}

// Directory reads a path that may hold references, and is not cleaned for that reason.
var Directory = Codec[string]{
	Name:   "path",
	Show:   QuoteSet,
	Schema: plain,
	Read: func(v Value) (string, bool) {
		s, ok := Word.Read(v)
		if !ok || !v.Template(s) {
			return "", false
		}
		switch {
		case strings.HasPrefix(s, "/"), strings.HasPrefix(s, "${"):
			return s, true
		case strings.Contains(s, "$"):
			return strings.TrimSuffix(document.EscapeDollars(v.Dir), "/") + "/" + s, true
		}
		return document.EscapeDollars(v.Path(s)), true
	},
}

// HostPath reads an absolute path, perhaps after a - .
var HostPath = absolute("/srv/data", func(string) bool { return true })

// PathInRoot is a HostPath other than the root.
var PathInRoot = absolute("/srv/data", func(bare string) bool { return path.Clean(bare) != "/" })

// RootPath reads the path of a directory that becomes the root.
var RootPath = Text("path", "a path", func(s string) (string, error) {
	if !strings.HasPrefix(s, "/") || path.Clean(s) == "/" {
		return "", fmt.Errorf(`must be the absolute path of a directory other than /, got %s: write "/srv/root"`, document.Quote(s))
	}
	return path.Clean(s), nil
}, QuoteSet).Matching(`^/`)

// absolute reads an absolute path that fits, perhaps after a - .
func absolute(example string, fits func(bare string) bool) Codec[string] {
	return Text("path", "a path", func(s string) (string, error) {
		bare, optional := strings.CutPrefix(s, "-")
		switch {
		case !strings.HasPrefix(bare, "/"):
			return "", fmt.Errorf("must be an absolute path, got %s: write %q", document.Quote(s), example)
		case !fits(bare):
			return "", fmt.Errorf("the program needs %s: name paths below it", document.Quote(s))
		case optional:
			return "-" + path.Clean(bare), nil
		}
		return path.Clean(bare), nil
	}, QuoteSet).Matching(`^-?/`)
}
