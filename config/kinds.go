package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/environ"
)

// programRef reads the name of another program; its existence is checked when all programs are
// known.
var programRef = codec.Text("string", "the name of a program", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf(`is empty: write the name of a program`)
	}
	return s, nil
}, strconv.Quote)

var groupName = codec.Text("string", "the name of a group", func(s string) (string, error) { return s, checkName("group", s) }, strconv.Quote)

// compression reads false, true or the name of a compression.
var compression = codec.Codec[Compression]{
	Name:   `boolean, "gzip" or "zstd"`,
	Schema: func() *codec.Schema { return &codec.Schema{Enum: []any{false, true, "gzip", "zstd"}} },
	Show: func(c Compression) string {
		if c == CompressNot {
			return "false"
		}
		return strconv.Quote(string(c))
	},
	Read: func(v codec.Value) (Compression, bool) {
		switch v.Raw {
		case false:
			return CompressNot, true
		case true, string(CompressGzip):
			return CompressGzip, true
		case string(CompressZstd):
			return CompressZstd, true
		}
		v.Fail(`must be false, true, "gzip" or "zstd", got %s`, v.Describe())
		return "", false
	},
}

var environment = codec.Codec[map[string]string]{
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
			if environ.IsOfRun(name) {
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
