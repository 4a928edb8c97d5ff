package environ

import (
	"maps"
	"path"
	"slices"

	"superd/config/codec"
	"superd/config/document"
)

// Table reads a table of variables. Names that superd itself sets are mistakes.
var Table = codec.Codec[map[string]string]{
	Name: "table of strings",
	Show: func(map[string]string) string { return "{}" },
	Schema: func() *codec.Schema {
		return &codec.Schema{Type: codec.Types{"object"}, AdditionalProperties: &codec.Schema{Type: codec.Types{"string"}}}
	},
	Read: func(v codec.Value) (map[string]string, bool) {
		table, ok := v.Raw.(map[string]any)
		if !ok {
			v.Fail(`must be a table such as { PORT = "8080" }, got %s`, v.Describe())
			return nil, false
		}
		vars := make(map[string]string, len(table))
		for _, name := range slices.Sorted(maps.Keys(table)) {
			entry := v.Entry(name)
			if err := document.CheckVariable(name); err != nil {
				entry.FailKey("%w", err)
				ok = false
			}
			if IsOfRun(name) {
				entry.FailKey("is set by superd itself: choose another name")
				ok = false
			}
			s, isString := entry.Str("a string", codec.AnyString)
			ok = isString && entry.Template(s) && ok
			vars[name] = s
		}
		return vars, ok
	},
}

// RunPath reads an absolute path that may have variables of the run, and no others.
var RunPath = codec.Codec[string]{
	Name:   "string",
	Show:   codec.QuoteSet,
	Schema: codec.Word.Matching(`^/`).Schema,
	Read: func(v codec.Value) (string, bool) {
		s, ok := codec.Word.Read(v)
		if !ok || !v.Template(s) {
			return "", false
		}
		if all, _ := document.References(s); slices.ContainsFunc(all, func(name string) bool { return !IsOfRun(name) }) {
			v.Fail("%q: only variables of superd, such as ${SUPERD_REPLICA}, are known when the file is read: write the value", s)
			return "", false
		}
		if !path.IsAbs(s) {
			v.Fail("%q is not an absolute path: write it as /run/%s", s, path.Base(s))
			return "", false
		}
		return s, true
	},
}
