package fdstore

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
)

// A table holds values by name. superd's own names are numbers, newer ones greater. They are stored
// sorted, without names, so that those of a thousand programs fit into a few pages. The zero table
// is empty.
type table[T any] struct {
	numbered []numbered[T]
	removed  int          // number of removed entries in numbered
	named    map[string]T // values whose names are not numbers
}

// A numbered value is a value whose name is a number.
type numbered[T any] struct {
	number  int32
	removed bool
	value   T
}

// numberOf returns the number that name denotes in canonical form, and whether it does.
func numberOf(name string) (number int32, ok bool) {
	if name == "" || name[0] == '0' && name != "0" || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 32)
	return int32(n), err == nil
}

// find returns the index of a number, or where it would be inserted, and whether it is there.
func (t *table[T]) find(number int32) (at int, ok bool) {
	if last := len(t.numbered); last == 0 || t.numbered[last-1].number < number {
		return last, false
	}
	return slices.BinarySearchFunc(t.numbered, number, func(n numbered[T], number int32) int { return cmp.Compare(n.number, number) })
}

// SortedNames returns names in the order in which to add them to a table: numbers ascending. In any
// other order each would be inserted before others.
func SortedNames(files map[string]int) []string {
	return slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}

// get returns the value of a name, and whether there is one.
func (t *table[T]) get(name string) (value T, ok bool) {
	number, ok := numberOf(name)
	if !ok {
		value, ok = t.named[name]
		return value, ok
	}
	if at, ok := t.find(number); ok && !t.numbered[at].removed {
		return t.numbered[at].value, true
	}
	return value, false
}

// set sets the value of a name.
func (t *table[T]) set(name string, value T) {
	number, ok := numberOf(name)
	if !ok {
		if t.named == nil {
			t.named = map[string]T{}
		}
		t.named[name] = value
		return
	}
	at, known := t.find(number)
	switch {
	case !known:
		t.numbered = slices.Insert(t.numbered, at, numbered[T]{number: number, value: value})
		return
	case t.numbered[at].removed:
		t.removed--
	}
	t.numbered[at] = numbered[T]{number: number, value: value}
}

// remove removes a name. It compacts the table when most entries are removed ones, so that a large
// number of ends costs linear time.
func (t *table[T]) remove(name string) {
	number, ok := numberOf(name)
	if !ok {
		delete(t.named, name)
		return
	}
	at, ok := t.find(number)
	if !ok || t.numbered[at].removed {
		return
	}
	t.numbered[at] = numbered[T]{number: number, removed: true}
	if t.removed++; t.removed > len(t.numbered)/2 {
		t.numbered = slices.DeleteFunc(t.numbered, func(n numbered[T]) bool { return n.removed })
		t.removed = 0
		if len(t.numbered) < cap(t.numbered)/4 {
			t.numbered = slices.Clone(t.numbered)
		}
	}
}

// len returns the number of names.
func (t *table[T]) len() int { return len(t.numbered) - t.removed + len(t.named) }

// all yields the names with their values.
func (t *table[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, n := range t.numbered {
			if !n.removed && !yield(strconv.Itoa(int(n.number)), n.value) {
				return
			}
		}
		maps.All(t.named)(yield)
	}
}

// values yields the values.
func (t *table[T]) values() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, n := range t.numbered {
			if !n.removed && !yield(n.value) {
				return
			}
		}
		maps.Values(t.named)(yield)
	}
}
