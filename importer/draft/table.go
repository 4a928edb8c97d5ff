package draft

import (
	"math"
	"slices"
	"strings"
	"time"
)

// A Table is one table of a configuration.
//
// A value is a string, bool, int, int64, float64, time.Duration, []string, []int, []any, [][]string
// (a list of commands), [Command] or [Vars].
type Table struct {
	Name     string
	Comments []string // above the table, without "#"
	entries  []entry
	pending  []string // comments that belong to the next key
}

// An entry is one key; dotted ones are below a table of their own, as in "log.file".
type entry struct {
	key      string
	value    any
	comments []string // above it
	trailing string   // behind it
}

// A Command is an argument vector whose arguments are templates: see [Literal].
type Command []string

// Vars are environment variables in the order of the source; values are templates.
type Vars []Var

// A Var is an environment variable.
type Var struct{ Name, Value string }

// Set sets a variable. A variable that is set again keeps its place.
func (v *Vars) Set(name, value string) {
	for i := range *v {
		if (*v)[i].Name == name {
			(*v)[i].Value = value
			return
		}
	}
	*v = append(*v, Var{name, value})
}

// Get returns the value of a variable.
func (v Vars) Get(name string) (value string, ok bool) {
	for _, variable := range v {
		if variable.Name == name {
			return variable.Value, true
		}
	}
	return "", false
}

// Comment adds comments of the source, without their marks. They stand above the next key that is
// set, or above the table if none follows before [Table.Flush].
func (t *Table) Comment(lines ...string) { t.pending = append(t.pending, lines...) }

// Flush puts comments that no key has taken above the table.
func (t *Table) Flush() {
	t.Comments = append(t.Comments, t.pending...)
	t.pending = nil
}

// Set sets a key. A key that is set again keeps its place.
func (t *Table) Set(key string, value any) {
	i := slices.IndexFunc(t.entries, func(e entry) bool { return e.key == key })
	if i < 0 {
		i = len(t.entries)
		t.entries = append(t.entries, entry{key: key})
	}
	t.entries[i].value = value
	t.entries[i].comments = append(t.entries[i].comments, t.pending...)
	t.pending = nil
}

// Append adds values to a list.
func (t *Table) Append(key string, values ...string) {
	list, _ := t.Get(key).([]string)
	for _, value := range values {
		if !slices.Contains(list, value) {
			list = append(list, value)
		}
	}
	if len(list) > 0 {
		t.Set(key, list)
	}
}

// AppendCommand adds a command to a list of commands.
func (t *Table) AppendCommand(key string, args []string) {
	list, _ := t.Get(key).([][]string)
	t.Set(key, append(list, args))
}

// Env sets an environment variable.
func (t *Table) Env(name, value string) {
	vars, _ := t.Get("environment").(Vars)
	vars = slices.Clone(vars)
	vars.Set(name, value)
	t.Set("environment", vars)
}

// Trailing puts a comment behind a key that is set.
func (t *Table) Trailing(key, comment string) {
	for i := range t.entries {
		if t.entries[i].key == key {
			t.entries[i].trailing = comment
		}
	}
}

// Get returns the value of a key, nil if it is not set.
func (t *Table) Get(key string) any {
	for _, e := range t.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// Has reports whether a key is set.
func (t *Table) Has(key string) bool { return t.Get(key) != nil }

// Delete removes a key; its comments go above the table.
func (t *Table) Delete(key string) {
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool {
		if e.key == key {
			t.Comments = append(t.Comments, e.comments...)
		}
		return e.key == key
	})
}

// Empty reports whether no key is set.
func (t *Table) Empty() bool { return len(t.entries) == 0 }

// Literal returns the template that expands to s within an argument or a value.
func Literal(s string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		if s[i] != '$' {
			continue
		}
		if i+1 == len(s) || s[i+1] == '$' || s[i+1] == '{' {
			b.WriteByte('$')
		}
	}
	return b.String()
}

// Argument returns the template of a whole argument that is literal: $NAME alone would stand for
// words.
func Argument(s string) string {
	if strings.HasPrefix(s, "$") && isName(s[1:]) {
		return "$" + s
	}
	return Literal(s)
}

// Arguments returns the templates of literal arguments.
func Arguments(args []string) []string {
	templates := make([]string, len(args))
	for i, arg := range args {
		templates[i] = Argument(arg)
	}
	return templates
}

// Shell returns the command that a shell runs, such as that of a line of a Procfile.
func Shell(script string) Command { return Command{"sh", "-c", Literal(script)} }

// isName reports whether s is the name of a variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// IsName reports whether s is the name of an environment variable that a template can refer to.
func IsName(s string) bool { return isName(s) }

// Seconds returns a duration of so many seconds, between none and ten years.
func Seconds(n float64) time.Duration {
	const most = 10 * 365 * 24 * 3600
	if math.IsNaN(n) {
		n = 0
	}
	return time.Duration(max(0, min(n, most)) * float64(time.Second))
}
