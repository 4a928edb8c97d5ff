package codec

import (
	"strconv"

	"superd/config/document"
)

// Template reports whether the references in s are well-formed.
func (v Value) Template(s string) bool {
	if err := document.CheckTemplate(s); err != nil {
		v.Fail("%w", err)
		return false
	}
	return true
}

// Command reads arguments, or a string that is split into arguments as a shell would do.
var Command = Codec[[]string]{
	Name: "array of strings, or a string",
	Schema: func() *Schema {
		return &Schema{Type: stringOrArray, MinLength: 1, MinItems: 1, Items: &Schema{Type: ofString}}
	},
	Show: func(args []string) string {
		if len(args) == 0 {
			return ""
		}
		return List("", argument).Show(args)
	},
	Read: readCommand,
}

// argument shows an argument, which may be empty.
var argument = Codec[string]{Show: strconv.Quote}

func readCommand(v Value) ([]string, bool) {
	var args []string
	switch raw := v.Raw.(type) {
	case string:
		if _, ok := v.Str("a string", AnyString); !ok {
			return nil, false
		}
		var unquoted string
		var err error
		if args, unquoted, err = document.SplitCommand(raw); err != nil {
			v.Fail("split %s: %w", document.Quote(raw), err)
			return nil, false
		}
		if unquoted != "" {
			remedy := "quote it to keep it so"
			if unquoted[0] == '$' {
				remedy = "write ${NAME} for a variable"
			}
			v.Warn(`%q is passed literally, since no shell runs this command: %s, or write ["sh", "-c", "…"]`, unquoted, remedy)
		}
	default:
		items, ok := v.Items()
		if !ok {
			v.Fail("must be an array of strings or a string, got %s", v.Describe())
			return nil, false
		}
		for _, item := range items {
			arg, itemOK := item.Str("a string", AnyString)
			ok = ok && itemOK && item.Template(arg)
			args = append(args, arg)
		}
		if !ok {
			return nil, false
		}
	}
	if len(args) == 0 || args[0] == "" {
		v.Fail(`names no program: write ["/path/to/program", "argument"]`)
		return nil, false
	}
	for _, arg := range args {
		if _, isString := v.Raw.(string); isString && !v.Template(arg) {
			return nil, false
		}
	}
	return args, true
}
