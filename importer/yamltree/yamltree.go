// Package yamltree reads YAML as a tree whose nodes have their lines and comments, with aliases and
// merge keys resolved.
package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Node is a value of a document. A nil *Node is the absence of one.
type Node struct {
	Line     int
	Comments []string // above its key, or above it in a list
	Trailing string
	Further  int // of the root: the line of a second document, 0 if there is none

	raw   *yaml.Node
	depth int
}

// A Member is a key of a mapping with its value.
type Member struct {
	Key   string
	Value *Node
}

// maxDepth bounds aliases that lead to themselves.
const maxDepth = 50

// maxNodes is how many nodes a document may have when each alias is replaced by what it stands for.
const maxNodes = 1_000_000

// check returns an error for what no reader of such files takes: a key that is there twice, an
// alias that contains itself, or aliases that stand for very much. sizes has the nodes seen: how
// many they stand for, 0 while that is being counted.
func check(n *yaml.Node, sizes map[*yaml.Node]int) error {
	if size, seen := sizes[n]; seen && size == 0 {
		return fmt.Errorf("line %d: what it stands for contains itself", n.Line)
	} else if seen {
		return nil
	}
	sizes[n] = 0
	size, lines := 1, map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if before, twice := lines[child.Value]; twice {
				return fmt.Errorf("line %d: %q is there already, in line %d", child.Line, child.Value, before)
			}
			lines[child.Value] = child.Line
		}
		if err := check(child, sizes); err != nil {
			return err
		}
		size += sizes[child]
	}
	if n.Kind == yaml.AliasNode {
		if err := check(n.Alias, sizes); err != nil {
			return err
		}
		size = sizes[n.Alias]
	}
	if sizes[n] = size; size > maxNodes {
		return fmt.Errorf("line %d: its aliases stand for too much", n.Line)
	}
	return nil
}

// Read returns the first document of a file.
func Read(text []byte) (*Node, error) {
	var doc, further yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	if err := check(doc.Content[0], map[*yaml.Node]int{}); err != nil {
		return nil, err
	}
	root := node(doc.Content[0], 0)
	if !root.IsMap() {
		return nil, errors.New("it is no mapping")
	}
	if documents.Decode(&further) == nil && len(further.Content) > 0 {
		root.Further = further.Line
	}
	root.Comments = append(comments(doc.HeadComment), root.Comments...)
	return root, nil
}

func node(raw *yaml.Node, depth int) *Node {
	n := &Node{Line: raw.Line, raw: raw, depth: depth + 1}
	n.Comments = comments(raw.HeadComment)
	n.Trailing = strings.Join(comments(raw.LineComment), " ")
	for depth := 0; n.raw.Kind == yaml.AliasNode && depth < maxDepth; depth++ {
		n.raw = n.raw.Alias
	}
	return n
}

// comments returns the lines of a comment without their marks.
func comments(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimLeft(strings.TrimSpace(line), "#"), " ")
		lines = append(lines, line)
	}
	return lines
}

// IsMap, IsList and IsScalar report what a node is; of nil, none.
func (n *Node) IsMap() bool    { return n != nil && n.raw.Kind == yaml.MappingNode }
func (n *Node) IsList() bool   { return n != nil && n.raw.Kind == yaml.SequenceNode }
func (n *Node) IsScalar() bool { return n != nil && n.raw.Kind == yaml.ScalarNode }

// IsNull reports whether a node is null.
func (n *Node) IsNull() bool { return n.IsScalar() && n.raw.Tag == "!!null" }

// IsText reports whether a node is a string, not a number or a boolean.
func (n *Node) IsText() bool { return n.IsScalar() && n.raw.Tag == "!!str" }

// Text returns the text of a scalar, "" of anything else.
func (n *Node) Text() string {
	if !n.IsScalar() || n.IsNull() {
		return ""
	}
	return n.raw.Value
}

// Plain returns the text of a scalar as Go prints its value: 0x10 is 16, and 1.50 is 1.5.
func (n *Node) Plain() string {
	var value any
	if n.IsScalar() && (n.raw.Tag == "!!int" || n.raw.Tag == "!!float" || n.raw.Tag == "!!bool") && n.raw.Decode(&value) == nil {
		return fmt.Sprint(value)
	}
	return n.Text()
}

// IsTrue reports whether a scalar is a boolean that is true.
func (n *Node) IsTrue() bool {
	var value bool
	return n.IsScalar() && n.raw.Decode(&value) == nil && value
}

// Members returns the members of a mapping in their order. Merged ones follow, unless it has them.
func (n *Node) Members() (all []Member) {
	if !n.IsMap() || n.depth > maxDepth {
		return nil
	}
	seen := map[string]bool{}
	var merged []*Node
	for i := 0; i+1 < len(n.raw.Content); i += 2 {
		key, value := n.raw.Content[i], node(n.raw.Content[i+1], n.depth)
		if key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		value.Line = key.Line
		value.Comments = append(comments(key.HeadComment), value.Comments...)
		if value.Trailing == "" {
			value.Trailing = strings.Join(comments(key.LineComment), " ")
		}
		if !seen[key.Value] {
			all = append(all, Member{key.Value, value})
		}
		seen[key.Value] = true
	}
	for _, m := range merged {
		sources := []*Node{m}
		if m.IsList() {
			sources = m.Items()
		}
		for _, source := range sources {
			for _, member := range source.Members() {
				if !seen[member.Key] {
					seen[member.Key] = true
					all = append(all, member)
				}
			}
		}
	}
	return all
}

// Items returns the items of a list.
func (n *Node) Items() (all []*Node) {
	if !n.IsList() || n.depth > maxDepth {
		return nil
	}
	for _, raw := range n.raw.Content {
		all = append(all, node(raw, n.depth))
	}
	return all
}

// Get returns the member of a mapping at a path of keys, nil if there is none.
func (n *Node) Get(path ...string) *Node {
	for _, key := range path {
		var found *Node
		for _, m := range n.Members() {
			if m.Key == key {
				found = m.Value
			}
		}
		if n = found; n == nil {
			return nil
		}
	}
	return n
}

// Strings returns the texts of a list, or the one of a scalar.
func (n *Node) Strings() (all []string) {
	if n.IsScalar() && !n.IsNull() {
		return []string{n.Text()}
	}
	for _, item := range n.Items() {
		all = append(all, item.Text())
	}
	return all
}
