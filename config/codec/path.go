package codec

import (
	"strings"

	"superd/config/document"
)

// FilePath reads a path. A relative one begins at the directory of its file.
var FilePath = Codec[string]{
	Name: "path",
	Show: QuoteSet,
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
	Name: "path",
	Show: QuoteSet,
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
