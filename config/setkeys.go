package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"superd/config/document"
)

// A SetKey is a key whose value is not the built-in default.
type SetKey struct {
	Table, Name string // as in [Described]
	Value       string // as TOML
}

// setKeys returns the keys of a table that differ from the built-in defaults, in the order of the
// reference.
func setKeys(table string, own *builder) (all []SetKey) {
	usual := builtin()
	for _, k := range keys() {
		if k.table == table && !reflect.DeepEqual(k.get(own), k.get(usual)) {
			all = append(all, SetKey{table, k.name, k.shown(own)})
		}
	}
	return all
}

// SetKeys returns the keys of a program that have not the built-in default, with what [defaults]
// sets and the preset of the sandbox stands for. Values of variables may be secrets.
func (p *Program) SetKeys() []SetKey {
	all := setKeys("program", p.builder())
	for i, k := range all {
		if k.Name == "environment" {
			all[i].Value = variables(p.Environment, document.String)
		}
	}
	return all
}

// SetKeys returns the keys of a socket that have not the built-in default.
func (s *Socket) SetKeys() []SetKey { return setKeys("socket", s.builder()) }

// SetKeys returns the keys outside programs, sockets and receivers that have not the built-in
// default.
func (c *Config) SetKeys() (all []SetKey) {
	own := &builder{superd: c.Superd, control: c.Control, compat: c.Compat, web: c.Web}
	for _, table := range []string{"superd", "control", "compat", "web"} {
		all = append(all, setKeys(table, own)...)
	}
	return all
}

// variables returns variables as TOML, with what show makes of their values.
func variables(values map[string]string, show func(string) string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, fmt.Sprintf("%s = %s", document.Key(name), show(values[name])))
	}
	return "{ " + strings.Join(all, ", ") + " }"
}
