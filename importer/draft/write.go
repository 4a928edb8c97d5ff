package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// width is the longest line that is written, where that can be helped.
const width = 100

// order has the keys of a program in the order in which they are written. Others follow, in the
// order in which they were set.
var order = []string{
	"runtime_dir", "log_dir", "exit_when", "log_max_total",
	"listen", "backlog", "mode", "group", "fdname",
	"type", "command", "directory", "environment", "env_file", "inherit_environment", "pid_file",
	"user", "supplementary_groups", "groups", "umask",
	"nice", "ionice", "cpu_affinity", "scheduling", "oom_score_adj",
	"runtime_directory", "runtime_directory_mode", "runtime_directory_preserve",
	"state_directory", "state_directory_mode", "cache_directory", "cache_directory_mode",
	"logs_directory", "logs_directory_mode",
	"replicas", "autostart", "start", "schedule", "schedule_jitter", "schedule_missed", "essential",
	"requires", "after", "sockets", "socket_pass", "accept", "max_connections", "idle_timeout",
	"max_connections_per_source", "rolling", "drain_timeout",
	"restart", "success_exit_codes", "no_restart_exit_codes", "backoff", "start_limit",
	"start_timeout", "ready", "health", "watchdog", "watch",
	"check_command", "pre_start", "post_start", "reload_signal", "reload_notify", "reload_command",
	"stop_command", "stop_signal", "stop_timeout", "kill_mode", "kill_signal", "final_kill",
	"post_stop", "hooks_user", "log", "limits", "sandbox",
}

// TOML returns the document as the text of a configuration file.
func (d *Document) TOML() string {
	if d.Text != "" {
		return d.Text
	}
	var b strings.Builder
	writeComments(&b, d.Head)
	if d.Extends != "" {
		b.WriteString("extends = " + quote(d.Extends) + "\n")
	}
	write := func(header string, t *Table) {
		t.Flush()
		if t.Empty() && len(t.Comments) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		writeComments(&b, t.Comments)
		if t.Empty() && t.Name == "" {
			return
		}
		fmt.Fprintf(&b, "[%s]\n", header)
		t.write(&b, header)
	}
	write("superd", d.Superd)
	write("compat", d.Compat)
	write("defaults", d.Defaults)
	for _, s := range d.Sockets {
		write("socket."+key(s.Name), s)
	}
	for _, p := range d.Programs {
		write("program."+key(p.Name), p)
	}
	if len(d.Tail) > 0 {
		b.WriteByte('\n')
		writeComments(&b, d.Tail)
	}
	return b.String()
}

func writeComments(b *strings.Builder, lines []string) {
	for _, line := range lines {
		if line = printable(line); line == "" {
			b.WriteString("#\n")
		} else {
			fmt.Fprintf(b, "# %s\n", line)
		}
	}
}

// printable returns a line without what a comment of TOML may not have.
func printable(line string) string {
	return strings.TrimRightFunc(strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, line), unicode.IsSpace)
}

// A line is a key as it is written.
type line struct {
	comments []string
	key      string
	text     string
	trailing string
}

// write writes the keys of t. Tables that are too long for a line follow them.
func (t *Table) write(b *strings.Builder, header string) {
	entries := slices.Clone(t.entries)
	ranks := t.ranks()
	slices.SortStableFunc(entries, func(x, y entry) int { return ranks[topOf(x.key)] - ranks[topOf(y.key)] })
	var lines []line
	var below []string // tables of their own
	for i := 0; i < len(entries); {
		top, _, dotted := strings.Cut(entries[i].key, ".")
		end := i + 1
		for dotted && end < len(entries) && strings.HasPrefix(entries[end].key, top+".") {
			end++
		}
		group := entries[i:end]
		i = end
		text, fits := one(top, dotted, group)
		if !fits {
			below = append(below, tableOf(header+"."+top, dotted, group))
			continue
		}
		l := line{key: top, text: text}
		for _, e := range group {
			l.comments = append(l.comments, e.comments...)
			if e.trailing != "" {
				l.trailing = e.trailing
			}
		}
		lines = append(lines, l)
	}
	writeLines(b, lines)
	for _, text := range below {
		b.WriteString("\n" + text)
	}
}

// ranks returns the place of each key or table of t: by order, else where it was set first. What
// belongs to one table stands together, as TOML wants a table once.
func (t *Table) ranks() map[string]int {
	ranks := map[string]int{}
	for i, e := range t.entries {
		name := topOf(e.key)
		if _, known := ranks[name]; known {
			continue
		}
		ranks[name] = len(order) + i
		if place := slices.Index(order, name); place >= 0 {
			ranks[name] = place
		}
	}
	return ranks
}

// topOf returns the first part of a dotted key.
func topOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// one returns the value of a key, or the inline table of dotted ones, and whether a line is right
// for it.
func one(top string, dotted bool, group []entry) (text string, fits bool) {
	if !dotted {
		vars, isVars := group[0].value.(Vars)
		text = value(group[0].value)
		return text, !isVars || len(top)+3+len(text) <= width || len(vars) == 0
	}
	var members []string
	commented := 0
	for _, e := range group {
		_, name, _ := strings.Cut(e.key, ".")
		members = append(members, dottedKey(name)+" = "+value(e.value))
		if len(e.comments) > 0 || e.trailing != "" {
			commented++
		}
	}
	text = "{ " + strings.Join(members, ", ") + " }"
	if top == "sandbox" && len(group) > 1 || commented > 1 || strings.Contains(text, "\n") {
		return text, false
	}
	return text, len(top)+3+len(text) <= width
}

// tableOf returns a table below the one of a program.
func tableOf(header string, dotted bool, group []entry) string {
	var lines []line
	if vars, ok := group[0].value.(Vars); ok && !dotted {
		for _, v := range vars {
			lines = append(lines, line{key: key(v.Name), text: quote(v.Value)})
		}
		lines[0].comments = group[0].comments
		lines[0].trailing = group[0].trailing
	} else {
		for _, e := range group {
			_, name, _ := strings.Cut(e.key, ".")
			lines = append(lines, line{e.comments, dottedKey(name), value(e.value), e.trailing})
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", header)
	writeLines(&b, lines)
	return b.String()
}

func writeLines(b *strings.Builder, lines []line) {
	longest := 0
	for _, l := range lines {
		longest = max(longest, utf8.RuneCountInString(l.key))
	}
	for _, l := range lines {
		// Comments that would make the line too long stand above it.
		trailing := printable(l.trailing)
		last := l.text[strings.LastIndexByte(l.text, '\n')+1:]
		if trailing != "" && (longest+7+utf8.RuneCountInString(last+trailing) > width || strings.Contains(l.text, "\n")) {
			l.comments, trailing = append(l.comments, trailing), ""
		}
		writeComments(b, l.comments)
		pad := strings.Repeat(" ", longest-utf8.RuneCountInString(l.key))
		fmt.Fprintf(b, "%s%s = %s", l.key, pad, l.text)
		if trailing != "" {
			b.WriteString("    # " + trailing)
		}
		b.WriteByte('\n')
	}
}

// value returns a value as TOML.
func value(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	case time.Duration:
		return quote(Duration(v))
	case Command:
		return command(v)
	case []string:
		return array(v, quote)
	case []int:
		return array(v, strconv.Itoa)
	case []any:
		return array(v, value)
	case [][]string:
		return array(v, func(args []string) string { return array(args, quote) })
	case Vars:
		members := make([]string, len(v))
		for i, variable := range v {
			members[i] = key(variable.Name) + " = " + quote(variable.Value)
		}
		if len(members) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(members, ", ") + " }"
	}
	panic(fmt.Sprintf("write a value of type %T", v))
}

// array returns an array, with an item a line if it is too long for one.
func array[T any](items []T, show func(T) string) string {
	shown := make([]string, len(items))
	for i, item := range items {
		shown[i] = show(item)
	}
	text := "[" + strings.Join(shown, ", ") + "]"
	if len(text) <= width-15 && !strings.Contains(text, "\n") {
		return text
	}
	return "[\n\t" + strings.ReplaceAll(fill(shown, ", ", width-6), "\n", "\n\t") + ",\n]"
}

// fill joins items in lines of at most most columns. An item of several lines, or an array, has a
// line of its own.
func fill(items []string, separator string, most int) string {
	var b strings.Builder
	column := 0
	for i, item := range items {
		own := strings.ContainsAny(item, "\n[")
		switch {
		case i == 0:
		case own || column+len(separator)+len(item) > most || strings.HasPrefix(items[i-1], "["):
			b.WriteString(strings.TrimRight(separator, " ") + "\n")
			column = 0
		default:
			b.WriteString(separator)
			column += len(separator)
		}
		b.WriteString(item)
		column += len(item)
	}
	return b.String()
}

// command returns a command: a string if it needs no quotes, else an array.
func command(args []string) string {
	for _, arg := range args {
		plain := strings.HasPrefix(arg, "$") && isName(arg[1:])
		if !plain && !isPlain(arg) {
			return commandArray(args)
		}
	}
	text := quote(strings.Join(args, " "))
	if len(text) > width-12 {
		return `"""` + strings.ReplaceAll(fill(args, " ", width-25), "\n", "\n\t") + `"""`
	}
	return text
}

// commandArray returns a command as an array. A script is written as lines.
func commandArray(args []string) string {
	last := args[len(args)-1]
	if len(args) >= 2 && strings.Contains(last, "\n") && !strings.Contains(last, "'''") && isText(last) {
		if text := array(args[:len(args)-1], quote); !strings.Contains(text, "\n") {
			return text[:len(text)-1] + ", '''\n" + last + "''']"
		}
	}
	return array(args, quote)
}

// isText reports whether a literal string of TOML with several lines can have s.
func isText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || r == utf8.RuneError
	}) < 0
}

// isPlain reports whether superd's splitting of a command leaves arg as it is.
func isPlain(arg string) bool {
	for i := 0; i < len(arg); i++ {
		c := arg[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("_./:=@%+,-", c) >= 0, c == '~' && i > 0, c == '#' && i > 0:
		case c == '$' && strings.HasPrefix(arg[i:], "${"):
			end := strings.IndexByte(arg[i:], '}')
			if end < 0 || strings.ContainsAny(arg[i:i+end], " \"'\\") {
				return false
			}
			i += end
		default:
			return false
		}
	}
	return arg != ""
}

// Duration returns a duration as superd.toml has it.
func Duration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d > 2*time.Minute || d%time.Millisecond != 0:
		return d.String()
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}

// Size returns a size as superd.toml has it: the shortest exact one.
func Size(n int64) any {
	units := []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}}
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return n
}

// key returns a key of TOML, quoted if need be.
func key(name string) string {
	bare := name != ""
	for i := range len(name) {
		c := name[i]
		bare = bare && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}
	if bare {
		return name
	}
	return quote(name)
}

// dottedKey returns a key whose dots separate tables.
func dottedKey(name string) string {
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = key(parts[i])
	}
	return strings.Join(parts, ".")
}

// quote returns a string of TOML: a literal one where that needs fewer escapes.
func quote(s string) string {
	if strings.ContainsAny(s, `"\`) && !strings.ContainsAny(s, "'\n") && isText(s) {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
