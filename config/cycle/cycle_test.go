package cycle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		edges string // "a:bc" for edges from a to b and c
		want  string
	}{
		{"a:b b:c c:", ""},
		{"a:a", "a"},
		{"c:a b:c a:b", "abc"},
		{"a:b b:a c:d d:c", "ab cd"},
		{"a:x b:a", ""}, // x is no name
		{"a:bc b:a c:a", "ab ac"},
	} {
		var names []string
		edges := map[string][]string{}
		for _, node := range strings.Fields(tt.edges) {
			name, to, _ := strings.Cut(node, ":")
			names = append(names, name)
			edges[name] = strings.Split(to, "")
		}
		cycles, others := Find(names, func(name string) []string { return edges[name] })
		var got []string
		for _, c := range cycles {
			got = append(got, strings.Join(c, ""))
		}
		if strings.Join(got, " ") != tt.want || others != nil {
			t.Errorf("%s: %q and %q, want %q", tt.edges, got, others, tt.want)
		}
	}
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct{ edges, want string }{
		{"a:b b:c c: d:", "c b a d"},
		{"a: b:a c:ab", "a b c"},
		{"a:a b:", "a b"},
		{"c:a b:c a:b", "b a c"}, // a cycle
		{"a:x b:a", "a b"},       // x is no name
		{"d:bc b:a c:a a:", "a b c d"},
	} {
		var names []string
		edges := map[string][]string{}
		for _, node := range strings.Fields(tt.edges) {
			name, to, _ := strings.Cut(node, ":")
			names = append(names, name)
			edges[name] = strings.Split(to, "")
		}
		if got := Order(names, func(name string) []string { return edges[name] }); strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.edges, got, tt.want)
		}
	}
}

// TestManyCycles checks that the cycles beyond the limit are the edges that close them.
func TestManyCycles(t *testing.T) {
	var names []string
	for i := range limit + 2 {
		names = append(names, fmt.Sprint(i))
	}
	cycles, others := Find(names, func(name string) []string { return []string{name} })
	want := [][2]string{{names[limit], names[limit]}, {names[limit+1], names[limit+1]}}
	if len(cycles) != limit || !reflect.DeepEqual(others, want) {
		t.Errorf("%d cycles and the edges %q, want %d and %q", len(cycles), others, limit, want)
	}
}

func TestShow(t *testing.T) {
	for names, want := range map[string]string{
		"a":          "a -> a",
		"abcdefghi":  "a -> b -> c -> d -> e -> f -> g -> h -> i -> a",
		"abcdefghij": "a -> b -> c -> d -> … 2 more … -> g -> h -> i -> j -> a",
	} {
		if got := Show(strings.Split(names, "")); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
}
