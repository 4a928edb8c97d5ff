// Package yamltext writes YAML whose mappings have the order in which they are made, with comments.
package yamltext

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Map is a mapping under construction. The zero value is an empty one.
type Map struct {
	node    yaml.Node
	present bool
}

// Of returns a mapping of keys and values, which alternate.
func Of(keysAndValues ...any) *Map {
	m := &Map{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		m.Set(keysAndValues[i].(string), keysAndValues[i+1])
	}
	return m
}

// Set adds a key. A value is a *Map, []*Map, []string, EmptyList, string, bool or integer. What is
// empty, save for "" and 0, is left out.
func (m *Map) Set(key string, value any) *Map {
	if node := nodeOf(value); node != nil {
		k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
		m.node.Content = append(m.node.Content, k, node)
	}
	return m
}

// Append adds a mapping to the list of a key.
func (m *Map) Append(key string, item *Map) {
	for i := 0; i+1 < len(m.node.Content); i += 2 {
		if m.node.Content[i].Value == key {
			m.node.Content[i+1].Content = append(m.node.Content[i+1].Content, nodeOf(item))
			return
		}
	}
	m.Set(key, []*Map{item})
}

// AppendScalar adds an integer to the list of a key.
func (m *Map) AppendScalar(key string, item int64) {
	for i := 0; i+1 < len(m.node.Content); i += 2 {
		if list := m.node.Content[i+1]; m.node.Content[i].Value == key {
			list.Content = append(list.Content, nodeOf(item))
			return
		}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{nodeOf(item)}}
	m.node.Content = append(m.node.Content, nodeOf(key), list)
}

// Merge adds the keys of another mapping.
func (m *Map) Merge(other *Map) *Map {
	m.node.Content = append(m.node.Content, other.node.Content...)
	return m
}

// Get returns the value of a key, nil if it is not set.
func (m *Map) Get(key string) *yaml.Node {
	for i := 0; i+1 < len(m.node.Content); i += 2 {
		if m.node.Content[i].Value == key {
			return m.node.Content[i+1]
		}
	}
	return nil
}

// EmptyList is a list that is written: [].
type EmptyList struct{}

// SetText adds a key with a text of several lines, as it is.
func (m *Map) SetText(key, text string) *Map {
	m.Set(key, text)
	m.node.Content[len(m.node.Content)-1].Style = yaml.LiteralStyle
	return m
}

// Present returns an empty mapping that is written: {}.
func Present() *Map { return &Map{present: true} }

// Head puts lines of a comment above the mapping.
func (m *Map) Head(lines []string) *Map {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + line + "\n")
	}
	m.node.HeadComment = b.String()
	return m
}

// Empty reports whether no key is set.
func (m *Map) Empty() bool { return m == nil || len(m.node.Content) == 0 }

// nodeOf returns a value as a node, nil for an empty mapping or list.
func nodeOf(value any) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	switch v := value.(type) {
	case *Map:
		if v.Empty() && (v == nil || !v.present) {
			return nil
		}
		v.node.Kind = yaml.MappingNode
		return &v.node
	case EmptyList:
		list.Style = yaml.FlowStyle
		return list
	case []*Map:
		for _, item := range v {
			if node := nodeOf(item); node != nil {
				list.Content = append(list.Content, node)
			}
		}
	case []string:
		list.Style = yaml.FlowStyle
		for _, item := range v {
			if strings.Contains(item, "\n") {
				list.Style = 0
			}
			list.Content = append(list.Content, nodeOf(item))
		}
	case string:
		node := &yaml.Node{}
		node.SetString(v)
		if !strings.Contains(v, "\n") {
			// A plain scalar may be a boolean or a number for readers of YAML 1.1
			node.Style = yaml.DoubleQuotedStyle
			if plain(v) {
				node.Style = 0
			}
		}
		return node
	default: // a bool or an integer
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
	if len(list.Content) == 0 {
		return nil
	}
	return list
}

// plain reports whether every reader takes s without quotes for a string.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || strings.IndexByte("-._/", c) >= 0):
		case c == '/':
		default:
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// indent is the width of a level.
const indent = 2

// Text returns documents as one file.
func Text(documents ...*Map) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(indent)
	for _, d := range documents {
		if err := encoder.Encode(nodeOf(d)); err != nil {
			return "", err
		}
	}
	if err := encoder.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}
