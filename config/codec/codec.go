// Package codec reads the values of a configuration, checks them, and shows them as TOML.
//
// A [Codec] knows one kind of value: durations, schedules, paths, lists of these. It knows no keys;
// package config says which key has which kind. A mistake goes with its position to the [Report] of
// the [Value].
package codec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"superd/config/document"
	"superd/internal/words"
)

// A Codec defines how a kind of value is read, checked and shown.
type Codec[T any] struct {
	Name string                  // as the reference shows it
	Read func(v Value) (T, bool) // reports mistakes through v.Fail
	Show func(T) string          // as TOML; "" for none

	Schema func() *Schema // of the values as they are written; each call returns another one
}

// Text reads a string that convert accepts or refuses.
func Text[T any](name, what string, convert func(string) (T, error), show func(T) string) Codec[T] {
	return Codec[T]{Name: name, Show: show, Schema: plain, Read: func(v Value) (T, bool) {
		var none T
		s, ok := v.Str(what, func(s string) bool {
			_, err := convert(s)
			return err == nil
		})
		if !ok {
			return none, false
		}
		converted, err := convert(s)
		if err != nil {
			v.Fail("%w", err)
			return none, false
		}
		return converted, true
	}}
}

// QuoteSet returns s as TOML, "" for an empty one.
func QuoteSet(s string) string {
	if s == "" {
		return ""
	}
	return document.String(s)
}

// Boolean reads true or false.
var Boolean = Codec[bool]{
	Name:   "boolean",
	Show:   strconv.FormatBool,
	Schema: func() *Schema { return &Schema{Type: Types{"boolean"}} },
	Read: func(v Value) (bool, bool) {
		b, ok := v.Raw.(bool)
		if !ok {
			v.Fail("must be true or false, got %s", v.Describe())
		}
		return b, ok
	},
}

// Negated is [Boolean] for a field that is true where the key is false.
var Negated = Codec[bool]{
	Name:   Boolean.Name,
	Show:   func(b bool) string { return Boolean.Show(!b) },
	Schema: Boolean.Schema,
	Read: func(v Value) (bool, bool) {
		b, ok := Boolean.Read(v)
		return !b, ok
	},
}

// Integer reads an integer from least to most.
func Integer[T int | int64](least, most T) Codec[T] {
	return Codec[T]{
		Name:   "integer",
		Show:   func(n T) string { return strconv.FormatInt(int64(n), 10) },
		Schema: func() *Schema { return &Schema{Type: ofInteger, Minimum: least, Maximum: most} },
		Read: func(v Value) (T, bool) {
			n, ok := v.Raw.(int64)
			if !ok {
				v.Fail("must be an integer, got %s", v.Describe())
				return 0, false
			}
			if n < int64(least) || n > int64(most) {
				v.Fail("must be an integer from %d to %d, got %d", least, most, n)
				return 0, false
			}
			return T(n), true
		},
	}
}

// Number reads an integer or float from least to most.
func Number(least, most float64) Codec[float64] {
	return Codec[float64]{
		Name:   "number",
		Show:   showFloat,
		Schema: func() *Schema { return &Schema{Type: Types{"number"}, Minimum: least, Maximum: most} },
		Read: func(v Value) (float64, bool) {
			var f float64
			switch raw := v.Raw.(type) {
			case int64:
				f = float64(raw)
			case float64:
				f = raw
			default:
				v.Fail("must be a number, got %s", v.Describe())
				return 0, false
			}
			if math.IsNaN(f) || f < least || f > most {
				v.Fail("must be from %v to %v, got %s", least, most, strings.TrimSuffix(showFloat(f), ".0"))
				return 0, false
			}
			return f, true
		},
	}
}

// Optional reads a value of k into a pointer, nil if the key isn't set.
func Optional[T any](k Codec[T]) Codec[*T] {
	return Codec[*T]{
		Name:   k.Name,
		Schema: k.Schema,
		Show: func(p *T) string {
			if p == nil {
				return ""
			}
			return k.Show(*p)
		},
		Read: func(v Value) (*T, bool) {
			t, ok := k.Read(v)
			return &t, ok
		},
	}
}

// Settable reads a list of k; an empty list that is written down is not nil.
func Settable[T any](k Codec[[]T]) Codec[[]T] {
	read := k.Read
	k.Read = func(v Value) ([]T, bool) {
		items, ok := read(v)
		if ok && items == nil {
			items = []T{}
		}
		return items, ok
	}
	return k
}

// Choice reads one of values.
func Choice[T ~string](values ...T) Codec[T] {
	names, quoted := make([]string, len(values)), make([]string, len(values))
	for i, v := range values {
		names[i], quoted[i] = string(v), strconv.Quote(string(v))
	}
	return Codec[T]{
		Name:   words.OneOf(quoted),
		Show:   func(v T) string { return strconv.Quote(string(v)) },
		Schema: func() *Schema { return &Schema{Enum: enum(names)} },
		Read: func(v Value) (T, bool) {
			s, isString := v.Raw.(string)
			switch {
			case !isString:
				v.Fail("must be %s, got %s", words.OneOf(quoted), v.Describe())
			case !slices.Contains(names, s):
				v.Fail("must be %s, got %s%s",
					words.OneOf(quoted), document.Quote(s), words.DidYouMean(s, names, ""))
			default:
				return T(s), true
			}
			return "", false
		},
	}
}

// List reads an array of values of k, nil for an empty array.
func List[T any](name string, k Codec[T]) Codec[[]T] {
	return Codec[[]T]{
		Name:   name,
		Schema: func() *Schema { return &Schema{Type: Types{"array"}, Items: k.Schema()} },
		Show: func(items []T) string {
			shown := make([]string, len(items))
			for i, item := range items {
				shown[i] = cmp.Or(k.Show(item), `""`) // an element is never unset
			}
			return "[" + strings.Join(shown, ", ") + "]"
		},
		Read: func(v Value) ([]T, bool) {
			elements, ok := v.Items()
			if !ok {
				remedy := ""
				fits := func(element any) bool {
					one := v.alone()
					one.Raw = element
					_, ok := k.Read(one)
					return ok
				}
				switch raw := v.Raw.(type) {
				case string:
					if fits(raw) {
						remedy = ": write [" + document.Quote(raw) + "]"
					}
				case int64:
					if digits := strconv.FormatInt(raw, 10); fits(raw) {
						remedy = ": write [" + digits + "]"
					} else if fits(digits) {
						remedy = fmt.Sprintf(": write [%q]", digits)
					}
				}
				v.Fail("must be an %s, got %s%s", name, v.Describe(), remedy)
				return nil, false
			}
			var items []T
			for _, element := range elements {
				item, itemOK := k.Read(element)
				ok = ok && itemOK
				items = append(items, item)
			}
			return items, ok
		},
	}
}

// Word reads a non-empty string.
var Word = Text("string", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: remove the key, or write a value")
	}
	return s, nil
}, QuoteSet)

// OneOrList reads an array of values of k, or a single one.
func OneOrList(k Codec[string]) Codec[[]string] {
	all := List("array of strings, or a string", k)
	schema := func() *Schema {
		s := k.Schema()
		s.Type, s.Items = stringOrArray, k.Schema()
		return s
	}
	return Codec[[]string]{Name: all.Name, Show: all.Show, Schema: schema, Read: func(v Value) ([]string, bool) {
		if _, isString := v.Raw.(string); isString {
			one, ok := k.Read(v)
			return []string{one}, ok
		}
		return all.Read(v)
	}}
}

// Named reads one of names. what is an example's kind with its article, as "a capability".
func Named(what, example string, names func() []string) Codec[string] {
	return Codec[string]{
		Name:   "string",
		Show:   QuoteSet,
		Schema: func() *Schema { return &Schema{Enum: enum(names())} },
		Read: func(v Value) (string, bool) {
			s, ok := v.Str(what, func(s string) bool { return slices.Contains(names(), s) })
			if ok && !slices.Contains(names(), s) {
				v.Fail("there is no %s %s%s", strings.TrimPrefix(what, "a "), document.Quote(s),
					words.DidYouMean(s, names(), fmt.Sprintf(": write one such as %q", example)))
				return "", false
			}
			return s, ok
		},
	}
}

// Umask reads a file mode creation mask.
var Umask = Octal("mask", "022", 0o777)

// FileMode reads the mode of a file in octal, as for chmod.
var FileMode = Octal("mode", "640", 0o777)

// Octal reads bits up to most in octal notation, as in example; nil if the key isn't set.
func Octal(what, example string, most uint64) Codec[*uint32] {
	return Codec[*uint32]{
		Name: "octal string",
		Schema: func() *Schema {
			return &Schema{Type: stringOrInteger, Pattern: `^[0-7]+$`, Minimum: 0, Maximum: most}
		},
		Show: func(mask *uint32) string {
			if mask == nil {
				return ""
			}
			return fmt.Sprintf(`"%03o"`, *mask)
		},
		Read: func(v Value) (*uint32, bool) {
			remedy := fmt.Sprintf(`write "%s" or 0o%s`, example, example)
			digits, isString := v.Raw.(string)
			if n, ok := v.Raw.(int64); ok {
				// Decimal 22 would become 026, so only octal literals are accepted.
				if !strings.HasPrefix(v.Text(), "0o") {
					v.Fail("must be octal, got %d: %s", n, remedy)
					return nil, false
				}
				digits, isString = strconv.FormatInt(n, 8), true
			}
			if !isString {
				v.Fail("must be an octal %s, got %s: %s", what, v.Describe(), remedy)
				return nil, false
			}
			n, err := strconv.ParseUint(digits, 8, 32)
			if err != nil || n > most {
				v.Fail("must be an octal %s from 000 to %o, got %s: %s",
					what, most, document.Quote(digits), remedy)
				return nil, false
			}
			mask := uint32(n)
			return &mask, true
		},
	}
}

// Pattern reads a regular expression.
var Pattern = Text("regular expression", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: write what the line looks like, as in \"listening on\"")
	}
	if _, err := regexp.Compile(s); err != nil {
		cause := err.Error()
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			cause = e.Code.String()
		}
		return "", fmt.Errorf("%s is not a regular expression: %s",
			document.Quote(s), document.Printable(cause))
	}
	return s, nil
}, QuoteSet)
