package config

import "superd/config/codec"

// A Described is a key of the configuration for who describes it to others.
type Described struct {
	// One of superd, control, program (also of [defaults]) and socket; "": the top of the file
	Table   string
	Name    string        // dotted below its table
	Meaning string        // as Markdown; links lead into docs/reference.md
	Default string        // as TOML; "" for none
	Instead string        // default in words, as Markdown; "": see Default
	Schema  *codec.Schema // of its values
}

// Describe returns all keys, in the order of the reference.
func Describe() []Described {
	all, base := make([]Described, len(keys())), builtin()
	for i, k := range keys() {
		all[i] = Described{k.table, k.name, k.doc, k.shown(base), k.defaultText, k.shape()}
	}
	return all
}
