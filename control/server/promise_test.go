package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"superd/tests/golden"
)

// TestAPIStays: programs of users rely on each request with its parameters, and on each key of an
// answer with its type.
func TestAPIStays(t *testing.T) {
	d := describe(t)
	var now []string
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, op := range d.Paths[path] {
			request := strings.ToUpper(method) + " " + path
			now = append(now, request)
			for _, p := range op.Parameters {
				now = append(now, fmt.Sprintf("%s %s in %s: %s", request, p.Name, p.In, typeOf(p.Schema)))
			}
			for status, r := range op.Responses {
				for media, m := range r.Content {
					now = append(now, fmt.Sprintf("%s answers %s, %s: %s", request, status, media, typeOf(m.Schema)))
				}
			}
		}
	}
	for name, s := range d.Components.Schemas {
		for key, property := range s.Properties {
			presence := "may be absent"
			if slices.Contains(s.Required, key) {
				presence = "always there"
			}
			now = append(now, fmt.Sprintf("%s.%s: %s, %s", name, key, typeOf(property), presence))
		}
	}
	golden.Promise(t, "api.txt", now)
}

// typeOf returns the type of a value as one word or more.
func typeOf(s *apiSchema) string {
	if s == nil {
		return "none"
	}
	var all []string
	if s.Ref != "" {
		all = append(all, s.Ref[strings.LastIndex(s.Ref, "/")+1:])
	}
	if s.Type != nil {
		text := strings.Trim(fmt.Sprint(s.Type), "[]")
		if s.Format != "" {
			text += " " + s.Format
		}
		all = append(all, text)
	}
	if s.Items != nil {
		all = append(all, "of "+typeOf(s.Items))
	}
	if s.Additional != nil {
		all = append(all, "of "+typeOf(s.Additional))
	}
	for _, one := range s.AnyOf {
		all = append(all, "or "+typeOf(one))
	}
	if len(s.Properties) > 0 {
		keys := slices.Sorted(maps.Keys(s.Properties))
		all = append(all, "with "+strings.Join(keys, ", "))
	}
	return strings.Join(all, " ")
}
