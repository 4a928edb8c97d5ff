package codec

import (
	"encoding/json"
	"regexp"
	"strings"

	"superd/internal/signame"
)

// A Schema is a JSON Schema (draft-07) of the values of a [Codec]. It accepts all that the codec
// accepts. A codec may refuse more: what depends on the host, or what no pattern can say.
type Schema struct {
	Description string `json:"description,omitempty"`
	Type        Types  `json:"type,omitempty"`
	Default     any    `json:"default,omitempty"`

	Enum    []any   `json:"enum,omitempty"`
	AnyOf   []any   `json:"anyOf,omitempty"` // of *Schema
	OneOf   []any   `json:"oneOf,omitempty"` // likewise
	Not     *Schema `json:"not,omitempty"`
	Ref     string  `json:"$ref,omitempty"`
	Minimum any     `json:"minimum,omitempty"` // a number
	Maximum any     `json:"maximum,omitempty"`

	Pattern   string `json:"pattern,omitempty"` // of strings, as ECMA-262 and RE2 both know it
	MinLength int    `json:"minLength,omitempty"`
	MaxLength int    `json:"maxLength,omitempty"`

	Items    *Schema `json:"items,omitempty"`
	MinItems int     `json:"minItems,omitempty"`

	Properties    map[string]*Schema `json:"properties,omitempty"`
	PropertyNames *Schema            `json:"propertyNames,omitempty"`
	// False or a *Schema
	AdditionalProperties any      `json:"additionalProperties,omitempty"`
	MinProperties        int      `json:"minProperties,omitempty"`
	Required             []string `json:"required,omitempty"`
}

// Types are types of JSON. The keywords of one type do not concern values of the others, so that a
// schema may say what a string looks like and how large an integer is.
type Types []string

// MarshalJSON returns a single type as a string, which more tools know than an array.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// The types of most values.
var (
	ofString        = Types{"string"}
	ofInteger       = Types{"integer"}
	stringOrInteger = Types{"string", "integer"}
	stringOrArray   = Types{"string", "array"}
)

// with returns k with another schema.
func (k Codec[T]) with(schema func() *Schema) Codec[T] {
	k.Schema = schema
	return k
}

// Shaped returns k with the schema s.
func (k Codec[T]) Shaped(s Schema) Codec[T] {
	k.Schema = func() *Schema { return &s }
	return k
}

// Matching returns k, which reads strings, with the pattern of those that it accepts.
func (k Codec[T]) Matching(pattern string) Codec[T] {
	return k.Shaped(Schema{Type: ofString, Pattern: pattern})
}

// enum returns words as the values of an enumeration.
func enum(words []string) []any {
	values := make([]any, len(words))
	for i, word := range words {
		values[i] = word
	}
	return values
}

// plain is the schema of a string that must not be empty.
func plain() *Schema { return &Schema{Type: ofString, MinLength: 1} }

// number is the pattern of a number without a sign.
const number = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`

// durations returns the schema of durations: also of those that are 0 if zero is set.
func durations(zero bool) *Schema {
	s := &Schema{Type: ofString, Pattern: `^\+?(` + number + `(ns|us|µs|μs|ms|s|m|h))+$`}
	if !zero {
		s.Not = &Schema{Type: ofString, Pattern: `^[^1-9]*$`}
	}
	return s
}

// sizePattern is the pattern of a size without what stands around it.
const sizePattern = `\s*` + number + `\s*(([kKmMgGtT][iI]?)?[bB])?`

// signals returns the schema of signals. The names of signals come first, for editors that complete
// them; the pattern has all other forms.
func signals() *Schema {
	var letters []string
	for _, name := range signame.All() {
		letters = append(letters, anyCase(strings.TrimPrefix(name, "SIG")))
	}
	pattern := `^\s*((` + anyCase("SIG") + `)?(` + strings.Join(letters, "|") + `|` +
		anyCase("RTM") + `(` + anyCase("IN") + `|` + anyCase("AX") + `)([+-][0-9]+)?)|\+?[0-9]+)\s*$`
	return &Schema{AnyOf: []any{
		&Schema{Enum: enum(signame.All())},
		&Schema{Type: ofString, Pattern: pattern},
	}}
}

// anyCase returns the pattern of a word in upper or lower case.
func anyCase(word string) string {
	var b strings.Builder
	for _, r := range word {
		upper, lower := strings.ToUpper(string(r)), strings.ToLower(string(r))
		if upper == lower {
			b.WriteString(regexp.QuoteMeta(upper))
			continue
		}
		b.WriteString("[" + upper + lower + "]")
	}
	return b.String()
}

// rlimits returns the schema of limits with values of the schema one.
func rlimits(one *Schema) *Schema {
	value := `\+?[0-9]+`
	if one.Pattern != "" {
		value += "|" + strings.TrimSuffix(strings.TrimPrefix(one.Pattern, "^"), "$")
	}
	value = `(` + value + `|` + infinity + `)`
	single := *one
	single.Type, single.Not = nil, nil
	for _, t := range one.Type {
		if t != "string" {
			single.Type = append(single.Type, t)
		}
	}
	single.Pattern = ""
	all := &Schema{Type: ofString, Pattern: `^` + value + `(:` + value + `)?$`}
	if len(single.Type) == 0 {
		return all
	}
	all.Type = append(all.Type, single.Type...)
	all.Minimum, all.Maximum = single.Minimum, single.Maximum
	return all
}
