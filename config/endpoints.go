package config

import (
	"fmt"

	"superd/config/document"
)

// checkEndpoints warns of variables in addresses of ready and health that superd does not know. Of
// variables that are set outside the program's own environment, known reports whether superd knows
// one, and below whether the program's processes get it.
func (d *builder) checkEndpoints(known, below func(name string) bool) {
	if r := d.Ready; r != nil {
		d.checkEndpoint("ready.tcp", r.TCP, known, below)
		d.checkEndpoint("ready.http", r.HTTP, known, below)
	}
	if h := d.Health; h != nil {
		d.checkEndpoint("health.tcp", h.TCP, known, below)
		d.checkEndpoint("health.http", h.HTTP, known, below)
	}
}

// checkEndpoint is checkEndpoints for one key. The program's own variables may refer to others.
func (d *builder) checkEndpoint(key, address string, known, below func(name string) bool) {
	expanded, reported := map[string]bool{}, map[string]bool{}
	var visit func(template, of string)
	visit = func(template, of string) {
		_, needed := document.References(template)
		for _, name := range needed {
			value, own := d.Environment[name]
			switch {
			case own && name != of: // in its own value a variable refers to the one below
				if !expanded[name] {
					expanded[name] = true
					visit(value, name)
				}
			case known(name), reported[name]:
			case of != "" && !below(name): // checkReferences warns of it
			default:
				reported[name] = true
				through := ""
				if of != "" {
					through = fmt.Sprintf(" in environment.%s", of)
				}
				d.mistakeAt(key).Warn("superd does not know ${%s}%s, even if the program's processes get it: set environment.%s to its value, or write ${%s:-default}",
					name, through, name, name)
			}
		}
	}
	visit(address, "")
}
