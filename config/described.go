package config

import (
	"superd/config/codec"
	"superd/config/receiver"
)

// A Described is a key of the configuration for who describes it to others.
type Described struct {
	// One of superd, control, compat, web, program (also of [defaults]), socket and notify; "": the
	// top of the file
	Table   string
	Name    string        // dotted below its table
	Type    string        // how its values are written, in words
	Meaning string        // as Markdown; links lead into docs/reference.md
	Default string        // as TOML; "" for none
	Instead string        // default in words, as Markdown; "": see Default
	Schema  *codec.Schema // of its values
}

// Describe returns all keys, in the order of the reference.
func Describe() []Described {
	var all []Described
	base := builtin()
	for _, k := range keys() {
		all = append(all, Described{k.table, k.name, k.codec, k.doc, k.shown(base), k.defaultText, k.shape()})
	}
	for _, k := range receiver.Keys() {
		all = append(all, Described{receiver.Table, k.Name, k.Codec, k.Doc, k.Default, k.Instead, k.Schema()})
	}
	return all
}
