package rlimit

import (
	"cmp"
	"slices"
)

// Limits are limits that each process of a program has for itself, sorted by resource.
type Limits []Limit

// With returns r with the limit l in place of the one for the same resource. It does not change r,
// which programs may share.
func (r Limits) With(l Limit) Limits {
	at, found := r.find(l.Resource)
	r = slices.Clone(r)
	if found {
		r[at] = l
		return r
	}
	return slices.Insert(r, at, l)
}

// Of returns the limit for a resource.
func (r Limits) Of(resource Resource) (l Limit, ok bool) {
	at, ok := r.find(resource)
	if !ok {
		return Limit{}, false
	}
	return r[at], true
}

func (r Limits) find(resource Resource) (at int, ok bool) {
	return slices.BinarySearchFunc(r, resource, func(l Limit, resource Resource) int {
		return cmp.Compare(l.Resource, resource)
	})
}
