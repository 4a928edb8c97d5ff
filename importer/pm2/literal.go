package pm2

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A node is a value of an object literal.
type node struct {
	line     int
	comments []string // above it
	kind     kind
	text     string // of a string, number, or name such as true
	members  []member
	items    []node
}

type member struct {
	key   string
	value node
}

type kind int

const (
	isText kind = iota
	isNumber
	isName // true, false, null, undefined
	isObject
	isList
)

func (n *node) get(key string) *node {
	for i := len(n.members) - 1; i >= 0; i-- { // of a key that is there twice the last one counts
		if n.members[i].key == key {
			return &n.members[i].value
		}
	}
	return nil
}

// A reader reads object literals of JavaScript, of which JSON is a part. It evaluates nothing: what
// is no literal is a mistake.
type reader struct {
	rest     string
	line     int
	depth    int
	comments []string
}

// maxDepth bounds how deep literals may be nested.
const maxDepth = 100

// A notLiteral is code where a literal is needed.
type notLiteral struct {
	line int
	code string
}

func (e *notLiteral) Error() string {
	return fmt.Sprintf("line %d: %q is code, which is not executed", e.line, e.code)
}

func (r *reader) fail() error {
	code, _, _ := strings.Cut(r.rest, "\n")
	if code = strings.TrimSpace(code); len(code) > 40 {
		code = strings.ToValidUTF8(code[:40], "") + "…"
	}
	return &notLiteral{r.line, code}
}

// read returns the literal that a file exports.
func read(text string) (*node, error) {
	r := &reader{rest: text, line: 1}
	r.space()
	for strings.HasPrefix(r.rest, `"use strict"`) || strings.HasPrefix(r.rest, `'use strict'`) {
		r.skip(len(`"use strict"`))
		r.space()
		r.take(";")
		r.space()
	}
	for _, words := range [][]string{{"module", ".", "exports", "="}, {"export", "default"}} {
		saved := *r
		ok := true
		for _, w := range words {
			ok = ok && r.take(w)
			r.space()
		}
		if ok {
			break
		}
		*r = saved
	}
	n, err := r.value()
	if err != nil {
		return nil, err
	}
	r.space()
	for r.take(";") {
		r.space()
	}
	if r.rest != "" {
		return nil, r.fail()
	}
	return &n, nil
}

func (r *reader) skip(n int) {
	r.line += strings.Count(r.rest[:n], "\n")
	r.rest = r.rest[n:]
}

func (r *reader) take(token string) bool {
	if !strings.HasPrefix(r.rest, token) {
		return false
	}
	r.skip(len(token))
	return true
}

// space skips blanks, and collects comments.
func (r *reader) space() {
	for {
		trimmed := strings.TrimLeftFunc(r.rest, unicode.IsSpace)
		r.skip(len(r.rest) - len(trimmed))
		switch {
		case strings.HasPrefix(r.rest, "//"):
			end := strings.IndexByte(r.rest, '\n')
			if end < 0 {
				end = len(r.rest)
			}
			r.comments = append(r.comments, strings.TrimSpace(strings.TrimLeft(r.rest[:end], "/")))
			r.skip(end)
		case strings.HasPrefix(r.rest, "/*"):
			end := strings.Index(r.rest, "*/")
			if end < 0 {
				r.skip(len(r.rest))
				return
			}
			for line := range strings.Lines(r.rest[2:end]) {
				if line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*")); line != "" {
					r.comments = append(r.comments, line)
				}
			}
			r.skip(end + 2)
		default:
			return
		}
	}
}

// value reads one value.
func (r *reader) value() (n node, err error) {
	r.space()
	n = node{line: r.line, comments: r.comments}
	r.comments = nil
	if r.depth++; r.depth > maxDepth || r.rest == "" {
		return n, r.fail()
	}
	defer func() { r.depth-- }()
	switch c := r.rest[0]; {
	case c == '{':
		n.kind = isObject
		err = r.object(&n)
	case c == '[':
		n.kind = isList
		err = r.list(&n)
	case c == '"' || c == '\'' || c == '`':
		n.text, err = r.quoted()
	case c == '-' || '0' <= c && c <= '9':
		n.kind = isNumber
		end := len(r.rest) - len(strings.TrimLeft(r.rest, "-+.0123456789abcdefxABCDEFX_"))
		ok := false
		if n.text, ok = number(r.rest[:end]); !ok {
			return n, r.fail()
		}
		r.skip(end)
	default:
		word := r.word()
		switch {
		case word == "true", word == "false", word == "null", word == "undefined":
			n.kind, n.text = isName, word
			r.skip(len(word))
		default:
			name, ok := r.environment()
			if !ok {
				return n, r.fail()
			}
			n.text = name
		}
	}
	return n, err
}

// number returns a number as JavaScript prints it: 0x10 is 16, and 1.50 is 1.5.
func number(literal string) (text string, ok bool) {
	if whole, err := strconv.ParseInt(literal, 0, 64); err == nil {
		return strconv.FormatInt(whole, 10), true
	}
	const exponentFrom = 1e21
	v, err := strconv.ParseFloat(strings.ReplaceAll(literal, "_", ""), 64)
	if err != nil {
		return "", false
	}
	format := byte('f')
	if math.Abs(v) >= exponentFrom {
		format = 'g'
	}
	return strconv.FormatFloat(v, format, -1, 64), true
}

// word returns the name at the beginning of the rest.
func (r *reader) word() string {
	end := 0
	for end < len(r.rest) {
		c := r.rest[end]
		if c != '_' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		end++
	}
	return r.rest[:end]
}

// environment reads process.env.NAME, with || and a literal behind it, as a template.
func (r *reader) environment() (template string, ok bool) {
	saved := *r
	if !r.take("process.env.") {
		return "", false
	}
	name := r.word()
	if name == "" || strings.Contains(name, "$") {
		*r = saved
		return "", false
	}
	r.skip(len(name))
	r.space()
	if r.take("||") || r.take("??") {
		n, err := r.value()
		if err != nil || n.kind == isObject || n.kind == isList || strings.ContainsAny(n.text, "{}") {
			*r = saved
			return "", false
		}
		return "${" + name + ":-" + n.text + "}", true
	}
	return "${" + name + ":-}", true
}

func (r *reader) object(n *node) error {
	r.skip(1)
	for {
		r.space()
		if r.take("}") {
			return nil
		}
		comments := r.comments
		r.comments = nil
		line := r.line
		key := r.word()
		var err error
		switch {
		case key != "":
			r.skip(len(key))
		case r.rest != "" && (r.rest[0] == '"' || r.rest[0] == '\''):
			if key, err = r.quoted(); err != nil {
				return err
			}
		default:
			return r.fail()
		}
		r.space()
		if !r.take(":") {
			return r.fail()
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		value.comments = append(comments, value.comments...)
		value.line = line
		n.members = append(n.members, member{key, value})
		r.space()
		if !r.take(",") && !strings.HasPrefix(r.rest, "}") {
			return r.fail()
		}
	}
}

func (r *reader) list(n *node) error {
	r.skip(1)
	for {
		r.space()
		if r.take("]") {
			return nil
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, value)
		r.space()
		if !r.take(",") && !strings.HasPrefix(r.rest, "]") {
			return r.fail()
		}
	}
}

// quoted reads a string as a template of superd.
func (r *reader) quoted() (string, error) {
	quote := r.rest[0]
	var b strings.Builder
	for i := 1; i < len(r.rest); {
		switch c := r.rest[i]; {
		case c == quote:
			r.skip(i + 1)
			return escapeDollars(b.String()), nil
		case c == '\n' && quote != '`', quote == '`' && strings.HasPrefix(r.rest[i:], "${"):
			return "", r.fail()
		case c == '\\' && i+1 < len(r.rest):
			n := escape(&b, r.rest[i+1:])
			i += 1 + n
		default:
			_, size := utf8.DecodeRuneInString(r.rest[i:])
			b.WriteString(r.rest[i : i+size])
			i += size
		}
	}
	return "", r.fail()
}

// escape writes the character for what follows a backslash, and returns the length of that.
func escape(b *strings.Builder, s string) int {
	if c, known := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v",
		'\n': "", '0': "\x00"}[s[0]]; known {
		b.WriteString(c)
		return 1
	}
	if code, _, ok := strings.Cut(strings.TrimPrefix(s, "u{"), "}"); ok && strings.HasPrefix(s, "u{") {
		if n, err := strconv.ParseUint(code, 16, 21); err == nil {
			b.WriteRune(rune(n))
			return len("u{}") + len(code)
		}
	}
	for prefix, digits := range map[byte]int{'x': 2, 'u': 4} {
		if s[0] == prefix && len(s) > digits {
			if n, err := strconv.ParseUint(s[1:1+digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
				return 1 + digits
			}
		}
	}
	_, size := utf8.DecodeRuneInString(s)
	b.WriteString(s[:size])
	return size
}
