package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"superd/config/document"
)

// hiddenValue stands for the value of a variable, which may be a secret.
const hiddenValue = `"***"`

// Show returns the program's table as TOML: the keys whose values are not the built-in defaults, in
// the order of the reference, with what [defaults] sets. Values of variables are hidden. The first
// line says where the table begins.
func (p *Program) Show() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s:%d\n[program.%s]\n", p.File, p.Line, p.Name)
	own, usual := p.builder(), builtin()
	all := keys()
	for i := range all {
		k := &all[i]
		if k.table != "program" || reflect.DeepEqual(k.get(own), k.get(usual)) {
			continue
		}
		value := k.shown(own)
		switch {
		case k.name == "autostart" && p.Enablement != "":
			continue // below
		case k.name == "environment":
			value = hiddenVariables(p.Environment)
		case value == "":
			continue
		}
		fmt.Fprintf(&b, "%s = %s\n", k.name, value)
	}
	if p.Enablement != "" {
		fmt.Fprintf(&b, "autostart = %t # %s by the operator\n", p.Autostart, p.Enablement)
	}
	for _, mistake := range p.Invalid {
		fmt.Fprintf(&b, "# mistake: %s\n", document.Printable(mistake.Error()))
	}
	return b.String()
}

// hiddenVariables returns variables as TOML, without their values.
func hiddenVariables(variables map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		all = append(all, name+" = "+hiddenValue)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}
