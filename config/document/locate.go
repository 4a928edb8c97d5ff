package document

import (
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxDepth bounds the nesting of tables and arrays, counting the parts of dotted keys. The TOML
// decoder recurses without a bound, and a stack overflow ends a Go program.
const maxDepth = 64

// A node is a table, an array or another value of a TOML text, with its position and children.
//
// It is separate from the decoded values because github.com/BurntSushi/toml does not export their
// positions.
type node struct {
	// Byte offset of the key (of its last part); for an element of an array, as value
	key     int
	value   int // byte offset of the value; for a table under a [header], as key
	depth   int
	entries map[string]*node // entries of a table
	items   []*node          // elements of an array

	tables bool // items are [[headers]], of which the last one is open
}

// entry returns the entry of a table, or n itself if it is unknown.
func (n *node) entry(name string) *node {
	if k := n.entries[name]; k != nil {
		return k
	}
	return n
}

// item returns the element of an array, or n itself if it is unknown.
func (n *node) item(i int) *node {
	if i < len(n.items) {
		return n.items[i]
	}
	return n
}

// locate returns the positions of all keys and values of text, and the offset of the first one
// nested deeper than maxDepth, else -1. It expects valid TOML (1.1); in other text it stops no
// later than the decoder does.
func locate(text string) (root *node, tooDeep int) {
	l := &locator{text: text, tooDeep: -1}
	root = &node{}
	table := root
	for ok := true; ok; {
		l.space()
		if l.pos == len(text) {
			break
		}
		if l.at("[") {
			table, ok = l.header(root)
		} else {
			ok = l.pair(table)
		}
	}
	return root, l.tooDeep
}

type locator struct {
	text    string
	pos     int
	tooDeep int
}

type keyPart struct {
	name string
	pos  int
}

// header reads [a.b] or [[a.b]] and returns the table that it opens.
func (l *locator) header(root *node) (table *node, ok bool) {
	l.pos++
	array := l.at("[")
	if array {
		l.pos++
	}
	parts, ok := l.key()
	if !ok || !l.accept("]") || array && !l.accept("]") {
		return nil, false
	}
	if table, ok = l.descend(root, parts); !ok {
		return nil, false
	}
	offset := parts[len(parts)-1].pos
	if array {
		table.tables = true
		if table, ok = l.add(table, offset); !ok {
			return nil, false
		}
	}
	table.key, table.value = offset, offset
	return table, true
}

// pair reads a.b = value into table.
func (l *locator) pair(table *node) bool {
	parts, ok := l.key()
	if !ok || !l.accept("=") {
		return false
	}
	n, ok := l.descend(table, parts)
	if !ok {
		return false
	}
	n.key = parts[len(parts)-1].pos
	return l.fill(n)
}

// descend returns the node at parts below table, and makes missing nodes.
func (l *locator) descend(table *node, parts []keyPart) (*node, bool) {
	for _, part := range parts {
		if table.tables && len(table.items) > 0 {
			table = table.items[len(table.items)-1]
		}
		next := table.entries[part.name]
		if next == nil {
			if next = l.grow(table, part.pos); next == nil {
				return nil, false
			}
			if table.entries == nil {
				table.entries = map[string]*node{}
			}
			table.entries[part.name] = next
		}
		table = next
	}
	return table, true
}

// add appends an element to the array n.
func (l *locator) add(n *node, offset int) (*node, bool) {
	item := l.grow(n, offset)
	if item == nil {
		return nil, false
	}
	n.items = append(n.items, item)
	return item, true
}

// grow returns a new node below n, nil if it would be too deep.
func (l *locator) grow(n *node, offset int) *node {
	if n.depth == maxDepth {
		l.tooDeep = offset
		return nil
	}
	return &node{key: offset, value: offset, depth: n.depth + 1}
}

// fill reads the value of n.
func (l *locator) fill(n *node) bool {
	l.blanks()
	n.value = l.pos
	switch {
	case l.at("["):
		return l.array(n)
	case l.at("{"):
		return l.inlineTable(n)
	case l.at(`"`), l.at("'"):
		return l.quoted()
	}
	// Numbers, booleans and times end where another token must follow.
	if end := strings.IndexAny(l.text[l.pos:], ",]}#\n"); end >= 0 {
		l.pos += end
	} else {
		l.pos = len(l.text)
	}
	return l.pos > n.value
}

func (l *locator) array(n *node) bool {
	for l.pos++; ; {
		l.space()
		switch {
		case l.pos == len(l.text):
			return false
		case l.accept("]"):
			return true
		case l.accept(","):
		default:
			item, ok := l.add(n, l.pos)
			if !ok || !l.fill(item) {
				return false
			}
		}
	}
}

func (l *locator) inlineTable(n *node) bool {
	for l.pos++; ; {
		l.space()
		switch {
		case l.pos == len(l.text):
			return false
		case l.accept("}"):
			return true
		case l.accept(","):
		default:
			if !l.pair(n) {
				return false
			}
		}
	}
}

// key reads a key of one or more parts, with the blanks around it.
func (l *locator) key() (parts []keyPart, ok bool) {
	for {
		l.blanks()
		part := keyPart{pos: l.pos}
		switch {
		case l.at(`"`), l.at("'"):
			if !l.quoted() {
				return nil, false
			}
			if part.name, ok = unquote(l.text[part.pos:l.pos]); !ok {
				return nil, false
			}
		default:
			for l.pos < len(l.text) && isBare(l.text[l.pos]) {
				l.pos++
			}
			part.name = l.text[part.pos:l.pos]
			if part.name == "" {
				return nil, false
			}
		}
		parts = append(parts, part)
		if len(parts) > maxDepth {
			l.tooDeep = part.pos
			return nil, false
		}
		l.blanks()
		if !l.accept(".") {
			return parts, true
		}
	}
}

// unquote returns the text of a quoted key. It leaves escapes to the decoder, so that both agree.
func unquote(quoted string) (string, bool) {
	if !strings.Contains(quoted, `\`) || quoted[0] == '\'' {
		return quoted[1 : len(quoted)-1], true
	}
	var key struct{ K string }
	_, err := toml.Decode("K="+quoted, &key)
	return key.K, err == nil
}

// quoted reads a string of any of the four kinds.
func (l *locator) quoted() bool {
	quote := l.text[l.pos : l.pos+1]
	if triple := strings.Repeat(quote, 3); l.at(triple) {
		return l.multiline(triple)
	}
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case c == quote[0]:
			l.pos++
			return true
		case c == '\n':
			return false
		case c == '\\' && quote == `"`:
			l.pos++
		}
	}
	l.pos = len(l.text) // a final backslash may have moved past the end
	return false
}

// multiline reads a string between triple quotes. Up to two more quotes may precede the closing
// ones.
func (l *locator) multiline(triple string) bool {
	for l.pos += 3; l.pos < len(l.text); l.pos++ {
		if triple == `"""` && l.text[l.pos] == '\\' {
			l.pos++
			continue
		}
		if l.accept(triple) {
			for range 2 {
				l.accept(triple[:1])
			}
			return true
		}
	}
	l.pos = len(l.text)
	return false
}

// space skips blanks, ends of lines and comments.
func (l *locator) space() {
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case ' ', '\t', '\r', '\n':
			l.pos++
		case '#':
			end := strings.IndexByte(l.text[l.pos:], '\n')
			if end < 0 {
				l.pos = len(l.text)
				return
			}
			l.pos += end
		default:
			return
		}
	}
}

func (l *locator) blanks() {
	for l.at(" ") || l.at("\t") {
		l.pos++
	}
}

func (l *locator) at(s string) bool { return strings.HasPrefix(l.text[l.pos:], s) }

func (l *locator) accept(s string) bool {
	if !l.at(s) {
		return false
	}
	l.pos += len(s)
	return true
}

func isBare(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// A lineIndex converts byte offsets of a text to lines and columns.
type lineIndex []int // offsets at which lines begin

func indexLines(text string) lineIndex {
	index := lineIndex{0}
	for i := range len(text) {
		if text[i] == '\n' {
			index = append(index, i+1)
		}
	}
	return index
}

// position returns line and column (in bytes), both counted from 1.
func (index lineIndex) position(offset int) (line, column int) {
	i, found := slices.BinarySearch(index, offset)
	if !found {
		i--
	}
	return i + 1, offset - index[i] + 1
}
