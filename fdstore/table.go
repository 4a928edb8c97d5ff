package fdstore

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
)

// A table has values by name. superd's own names are numbers, of which a newer one is greater: so these lie in order, without the names, a thousand programs'
// in a few pages. The zero table is empty.
type table[T any] struct {
	numbered []numbered[T]
	gone     int          // of these
	named    map[string]T // by names that are no numbers
}

// A numbered value is one whose name is a number.
type numbered[T any] struct {
	number int32
	gone   bool
	value  T
}

// numberOf returns the number that a name is, if it is one in the usual form.
func numberOf(name string) (number int32, ok bool) {
	if name == "" || name[0] == '0' && name != "0" || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 32)
	return int32(n), err == nil
}

// find returns where the number is, or would be, and whether there is a place for it.
func (t *table[T]) find(number int32) (at int, ok bool) {
	if last := len(t.numbered); last == 0 || t.numbered[last-1].number < number {
		return last, false
	}
	return slices.BinarySearchFunc(t.numbered, number, func(n numbered[T], number int32) int { return cmp.Compare(n.number, number) })
}

// InTurn returns the names of descriptors that are told of together, numbers in ascending order: any other would have each new one
// take its place among those that are there.
func InTurn(files map[string]int) []string {
	return slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}

// get returns what the name stands for, if it stands for anything.
func (t *table[T]) get(name string) (value T, ok bool) {
	number, ok := numberOf(name)
	if !ok {
		value, ok = t.named[name]
		return value, ok
	}
	if at, ok := t.find(number); ok && !t.numbered[at].gone {
		return t.numbered[at].value, true
	}
	return value, false
}

// set has the name stand for value.
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
	case t.numbered[at].gone:
		t.gone--
	}
	t.numbered[at] = numbered[T]{number: number, value: value}
}

// remove has the name stand for nothing. Places are given up when most are those of nothing: many programs that end cost no more than their number.
func (t *table[T]) remove(name string) {
	number, ok := numberOf(name)
	if !ok {
		delete(t.named, name)
		return
	}
	at, ok := t.find(number)
	if !ok || t.numbered[at].gone {
		return
	}
	t.numbered[at] = numbered[T]{number: number, gone: true}
	if t.gone++; t.gone > len(t.numbered)/2 {
		t.numbered = slices.DeleteFunc(t.numbered, func(n numbered[T]) bool { return n.gone })
		t.gone = 0
		if len(t.numbered) < cap(t.numbered)/4 {
			t.numbered = slices.Clone(t.numbered)
		}
	}
}

// len returns how many names stand for something.
func (t *table[T]) len() int { return len(t.numbered) - t.gone + len(t.named) }

// all are the names with what they stand for.
func (t *table[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, n := range t.numbered {
			if !n.gone && !yield(strconv.Itoa(int(n.number)), n.value) {
				return
			}
		}
		maps.All(t.named)(yield)
	}
}

// values are what the names stand for.
func (t *table[T]) values() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, n := range t.numbered {
			if !n.gone && !yield(n.value) {
				return
			}
		}
		maps.Values(t.named)(yield)
	}
}
