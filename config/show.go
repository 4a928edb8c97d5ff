package config

import (
	"fmt"
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
	for _, k := range setKeys("program", p.builder()) {
		switch {
		case k.Name == "autostart" && p.Enablement != "":
			continue // below
		case k.Name == "environment":
			k.Value = variables(p.Environment, func(string) string { return hiddenValue })
		case k.Value == "":
			continue
		}
		fmt.Fprintf(&b, "%s = %s\n", k.Name, k.Value)
	}
	if p.Enablement != "" {
		fmt.Fprintf(&b, "autostart = %t # %s by the operator\n", p.Autostart, p.Enablement)
	}
	for _, mistake := range p.Invalid {
		fmt.Fprintf(&b, "# mistake: %s\n", document.Printable(mistake.Error()))
	}
	return b.String()
}
