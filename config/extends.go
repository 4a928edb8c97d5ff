package config

import (
	"maps"

	"superd/config/codec"
)

// readExtended reads the file that the key extends of the main file names, if there is one. What
// the main file has is read later, and overrides it key by key: see [builder.override].
func (l *loader) readExtended(main codec.Value) {
	if _, ok := main.Raw.(map[string]any)[extends]; !ok {
		return
	}
	entry := main.Entry(extends)
	l.root.decodeKey(entry, findKey("", extends))
	if l.root.extends == "" {
		return // refused
	}
	doc, mistake := l.reader.Open(l.root.extends)
	if mistake != nil {
		entry.Add(mistake)
		return
	}
	l.overriding = main.Name
	l.tablesOf(l.fileValue(doc))
}

// extends is the key that names the file whose values this one overrides.
const extends = "extends"

// override reads a table that changes what an earlier table of another file has set.
func (d *builder) override(table codec.Value) {
	earlier := d.Environment
	both := d.isSet("environment")
	d.decode(table, "program", "")
	if both {
		own := d.Environment
		d.Environment = maps.Clone(earlier)
		maps.Copy(d.Environment, own)
	}
}
