package nomad

import (
	"fmt"
	"strings"
)

// A block is a block of HCL under construction.
type block struct {
	header   string // `task "web"`
	comments []string
	items    []item
}

// An item is an attribute, or a block.
type item struct {
	key, value string
	inner      *block
}

// newBlock returns an empty block: its type, and its labels.
func newBlock(kind string, labels ...string) *block {
	for _, label := range labels {
		kind += " " + quote(label)
	}
	return &block{header: kind}
}

// set adds an attribute: a string, []string, bool or integer. An empty list is left out.
func (b *block) set(key string, value any) *block {
	text := fmt.Sprint(value)
	switch v := value.(type) {
	case string:
		text = quote(v)
	case []string:
		if len(v) == 0 {
			return b
		}
		text = list(v)
	}
	b.items = append(b.items, item{key: key, value: text})
	return b
}

// setRaw adds an attribute whose value is written as it is.
func (b *block) setRaw(key, value string) *block {
	b.items = append(b.items, item{key: key, value: value})
	return b
}

// add adds blocks; nil and empty ones are left out.
func (b *block) add(blocks ...*block) *block {
	for _, inner := range blocks {
		if inner != nil && len(inner.items) > 0 {
			b.items = append(b.items, item{inner: inner})
		}
	}
	return b
}

// text writes the block as `nomad fmt` does.
func (b *block) text(indent string) string {
	var out strings.Builder
	for _, line := range b.comments {
		out.WriteString(strings.TrimRight(indent+"# "+line, " ") + "\n")
	}
	out.WriteString(indent + b.header + " {\n")
	for i := 0; i < len(b.items); {
		if b.items[i].inner != nil {
			if i > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(b.items[i].inner.text(indent + "  "))
			i++
			continue
		}
		if i > 0 && b.items[i-1].inner != nil {
			out.WriteByte('\n')
		}
		end, longest := i, 0
		for end < len(b.items) && b.items[end].inner == nil && !strings.Contains(b.items[end].value, "\n") {
			longest = max(longest, len(b.items[end].key))
			end++
		}
		if end == i { // an attribute of several lines
			end, longest = i+1, len(b.items[i].key)
		}
		for _, a := range b.items[i:end] {
			value := strings.ReplaceAll(a.value, "\n", "\n"+indent+"  ")
			if strings.HasPrefix(value, "<<") {
				value = a.value
			}
			fmt.Fprintf(&out, "%s  %-*s = %s\n", indent, longest, a.key, value)
		}
		i = end
	}
	out.WriteString(indent + "}\n")
	return out.String()
}

// maxList is the length of the longest list that is written in one line.
const maxList = 80

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = quote(s)
	}
	if text := "[" + strings.Join(quoted, ", ") + "]"; len(text) <= maxList {
		return text
	}
	return "[\n  " + strings.Join(quoted, ",\n  ") + ",\n]"
}

// quote returns a string of HCL. Nothing in it is replaced when the file is read; Nomad itself may
// replace ${X} when a task starts.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
