// Package schema makes a JSON Schema of the configuration from its table of keys, for editors and
// other tools.
//
// The schema says what a file looks like: tables, keys, types, choices. It accepts whatever superd
// accepts. superd check knows more, such as which keys go together and what the host has.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"superd/config"
	"superd/config/codec"
)

// A document is the schema of a whole file. The fields of draft-07 that values do not have come
// first.
type document struct {
	Version string `json:"$schema"`
	Title   string `json:"title"`
	codec.Schema
	Definitions map[string]*codec.Schema `json:"definitions"`
}

// names are the patterns of names of programs and sockets.
const names = `^[A-Za-z0-9_][A-Za-z0-9._-]*$`

// JSON returns the schema, draft-07.
func JSON() ([]byte, error) {
	tables := map[string]*codec.Schema{"": table(""),
		"superd":  table("superd itself."),
		"control": table("Who may use the control socket."),
		"compat":  table("Clients of other supervisors."),
		"web":     table("The pages of `superd web`."),
		"program": table("A program, or with `[defaults]` the values of all programs that do not set a key themselves."),
		"socket":  table("A socket that superd holds for programs."),
		"notify":  table("A receiver of alerts: who is told what of programs."),
	}
	for _, k := range config.Describe() {
		if err := add(tables[k.Table], k); err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.Name, err)
		}
	}
	tables["socket"].Required = []string{"listen"}
	tables["notify"].OneOf = []any{&codec.Schema{Required: []string{"exec"}}, &codec.Schema{Required: []string{"webhook"}}}
	top := document{Version: "http://json-schema.org/draft-07/schema#", Title: "Configuration of superd",
		Schema: *tables[""], Definitions: map[string]*codec.Schema{}}
	for _, name := range []string{"superd", "control", "compat", "web"} {
		top.Properties[name] = tables[name]
	}
	for _, name := range []string{"program", "socket", "notify"} {
		top.Definitions[name] = tables[name]
	}
	top.Properties["defaults"] = reference("program")
	top.Properties["program"] = named("Programs, by name: `[program.web]`.", "program")
	top.Properties["socket"] = named("Sockets, by name: `[socket.http]`.", "socket")
	top.Properties["notify"] = named("Receivers of alerts, by name: `[notify.ops]`.", "notify")

	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return text.Bytes(), nil
}

// table returns the schema of a table without keys.
func table(description string) *codec.Schema {
	return &codec.Schema{Description: description, Type: codec.Types{"object"},
		Properties: map[string]*codec.Schema{}, AdditionalProperties: false}
}

func reference(definition string) *codec.Schema {
	return &codec.Schema{Ref: "#/definitions/" + definition}
}

// named returns the schema of a table of tables with names.
func named(description, definition string) *codec.Schema {
	return &codec.Schema{Description: description, Type: codec.Types{"object"},
		PropertyNames: &codec.Schema{Pattern: names}, AdditionalProperties: reference(definition)}
}

// add adds a key to its table, and the tables between both that are missing.
func add(to *codec.Schema, k config.Described) error {
	path := strings.Split(k.Name, ".")
	for i, name := range path[:len(path)-1] {
		if to.Properties[name] == nil {
			to.Properties[name] = table("`" + strings.Join(path[:i+1], ".") + "`: see docs/reference.md.")
		}
		to = to.Properties[name]
	}
	s := k.Schema
	s.Description = readable(k.Meaning)
	switch {
	case k.Instead != "":
		s.Description += "\n\nDefault: " + readable(k.Instead) + "."
	case k.Default != "":
		var read struct{ Value any }
		if _, err := toml.Decode("Value = "+k.Default, &read); err != nil {
			return fmt.Errorf("read default %s: %w", k.Default, err)
		}
		s.Default = read.Value
		s.Description += "\n\nDefault: `" + k.Default + "`."
	}
	to.Properties[path[len(path)-1]] = s
	return nil
}

// link returns what matches a link into the reference, or another page of docs. Other commands do
// not need it.
var link = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[([^\]]+)\]\((?:#[^)]*|([a-z]+\.md)(?:#[^)]*)?)\)`)
})

// readable returns text with links as words: an editor does not know where they lead.
func readable(text string) string {
	return link().ReplaceAllStringFunc(text, func(found string) string {
		parts := link().FindStringSubmatch(found)
		return "*" + parts[1] + "* in docs/" + cmp.Or(parts[2], "reference.md")
	})
}
