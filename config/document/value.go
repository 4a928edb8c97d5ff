package document

import (
	"fmt"
	"slices"
)

// A Value is a value of a document with its position.
type Value struct {
	*Document
	Key []string // path from the top of the file
	Raw any      // the value as the TOML decoder returns it

	at *node
}

// Top returns the whole document as a value, a table.
func (d *Document) Top() Value { return Value{Document: d, Raw: d.table, at: d.root} }

// Entry returns the entry of a table.
func (v Value) Entry(name string) Value {
	table, _ := v.Raw.(map[string]any)
	v.Key = append(slices.Clip(v.Key), name)
	v.at = v.at.entry(name)
	v.Raw = table[name]
	return v
}

// Items returns the elements of an array. ok is false if v is not an array.
func (v Value) Items() (items []Value, ok bool) {
	var raws []any
	switch raw := v.Raw.(type) {
	case []any:
		raws = raw
	case []map[string]any:
		for _, table := range raw {
			raws = append(raws, table)
		}
	default:
		return nil, false
	}
	items = make([]Value, len(raws))
	for i, raw := range raws {
		items[i] = v
		items[i].at, items[i].Raw = v.at.item(i), raw
	}
	return items, true
}

// Mistake returns a mistake at the position of the value.
func (v Value) Mistake(format string, args ...any) *KeyError {
	return v.mistakeAt(v.at.value, format, args...)
}

// KeyMistake returns a mistake at the position of the key.
func (v Value) KeyMistake(format string, args ...any) *KeyError {
	return v.mistakeAt(v.at.key, format, args...)
}

func (v Value) mistakeAt(offset int, format string, args ...any) *KeyError {
	e := v.mistake(offset, fmt.Errorf(format, args...))
	e.Key = Dotted(v.Key)
	return e
}

// Line returns the line of the value's key, counted from 1.
func (v Value) Line() int {
	line, _ := v.lines.position(v.at.key)
	return line
}

// Text returns the text of the file from the value on.
func (v Value) Text() string { return v.text[v.at.value:] }
