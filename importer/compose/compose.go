// Package compose imports the services of a compose.yaml of Docker that are commands: superd runs
// programs of this machine, not images.
//
// The keys are those of the Compose Specification.
package compose

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config/document"
	"superd/importer/draft"
	"superd/importer/yamltree"
)

// Import reads a compose file. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	root, err := yamltree.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	c := &file{path: path, doc: draft.New(dir), programs: map[string]*draft.Table{}, env: map[string]string{}}
	if text, err := system.ReadFile(filepath.Join(filepath.Dir(path), ".env")); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
			if ok && draft.IsName(name) {
				c.env[name] = strings.Trim(value, `'"`)
			}
		}
	}
	c.doc.Head = root.Comments
	if root.Further > 0 {
		c.doc.Note(draft.Place{File: path, Line: root.Further}, "", "compose merges this document with the first one, "+
			"which alone is imported")
	}
	services := root.Get("services")
	if !services.IsMap() {
		return nil, fmt.Errorf("read %s: there are no services", path)
	}
	for _, m := range root.Members() {
		switch {
		case m.Key == "services" || m.Key == "name" || m.Key == "version" || strings.HasPrefix(m.Key, "x-"):
		case m.Key == "networks":
			c.note(m.Value, m.Key, "programs have the network of the machine: they reach each other at 127.0.0.1, "+
				"not by the names of services")
		case m.Key == "volumes":
			c.note(m.Value, m.Key, "superd has no volumes: programs use the directories of the machine")
		default:
			c.note(m.Value, m.Key, "superd has no counterpart")
		}
	}
	healthy := map[string]bool{}
	once := map[string]bool{}
	for _, m := range services.Members() {
		for _, d := range m.Value.Get("depends_on").Members() {
			switch d.Value.Get("condition").Text() {
			case "service_healthy":
				healthy[d.Key] = true
			case "service_completed_successfully":
				once[d.Key] = true
			}
		}
	}
	for _, m := range services.Members() {
		c.service(m.Key, m.Value, healthy[m.Key], once[m.Key])
	}
	for _, m := range services.Members() {
		c.dependencies(m.Key, m.Value.Get("depends_on"))
	}
	if len(c.doc.Programs) > 0 {
		c.doc.Defaults.Comments = []string{"What compose does unless a service says otherwise."}
		c.doc.Defaults.Set("restart", "never")
	}
	return c.doc, nil
}

// A file is the compose file that is being imported.
type file struct {
	path     string
	doc      *draft.Document
	programs map[string]*draft.Table // by the names of services
	env      map[string]string       // of the .env beside it
	assumed  []string                // references that were imported as if their variables are set
}

func (c *file) note(n *yamltree.Node, key, format string, args ...any) {
	c.doc.Note(draft.Place{File: c.path, Line: n.Line}, key, format, args...)
}

// service imports one service.
func (c *file) service(name string, n *yamltree.Node, healthy, once bool) {
	entrypoint, command := c.command(n.Get("entrypoint")), c.command(n.Get("command"))
	args := slices.Concat(entrypoint, command)
	if len(args) == 0 {
		from := "the image " + n.Get("image").Text()
		switch {
		case n.Get("build") != nil:
			from = "its Dockerfile"
		case n.Get("extends") != nil:
			from = "the service that it extends"
		case n.Get("image") == nil:
			c.note(n, "services."+name, "compose refuses it: it has no image and no build")
			return
		}
		c.note(n, "services."+name, "can't be imported: its command is in %s. superd runs programs of this "+
			"machine: install it, and write [program.%s] with its command", from, draft.Name(name))
		return
	}
	t := c.doc.Program(name)
	c.programs[name] = t
	if t.Name != name {
		c.note(n, "services."+name, "the program is %q", t.Name)
	}
	t.Comments = n.Comments
	t.Set("command", draft.Command(args))
	c.noteAssumed(n, "services."+name+".command")
	for _, m := range n.Members() {
		t.Comment(m.Value.Comments...)
		c.key(t, "services."+name+"."+m.Key, m.Key, m.Value)
		c.noteAssumed(m.Value, "services."+name+"."+m.Key)
	}
	t.Flush()
	if once {
		t.Set("type", "oneshot")
		if t.Get("restart") == "always" {
			t.Delete("restart")
		}
	}
	if healthy {
		if test, ok := t.Get("health.exec").(draft.Command); ok {
			t.Set("ready.exec", test)
		}
	}
}

// noteAssumed notes the references in a key that superd has no notation for.
func (c *file) noteAssumed(n *yamltree.Node, key string) {
	for _, reference := range c.assumed {
		c.note(n, key, "superd has no %s: it is imported as if the variable is set", reference)
	}
	c.assumed = nil
}

// command returns a command or an entrypoint.
func (c *file) command(n *yamltree.Node) []string {
	if n.IsList() {
		var args []string
		for _, s := range n.Strings() {
			args = append(args, c.interpolate(s, true))
		}
		return args
	}
	if n.Text() == "" {
		return nil
	}
	// Compose replaces variables first, so what stands between braces is not split
	words, err := document.SplitWords(reference.ReplaceAllStringFunc(n.Text(), hidden.Replace))
	if err != nil {
		c.note(n, "command", "compose can't split it: %v", err)
		return nil
	}
	for i := range words {
		words[i] = c.interpolate(shown.Replace(words[i]), true)
	}
	return words
}

// reference matches a variable between braces, and a dollar sign of the program's.
var reference = regexp.MustCompile(`\$\$|\$\{[^}]*\}`)

// hidden replaces what splits words by private characters, and shown these by it.
var (
	hidden = strings.NewReplacer(" ", "\ue000", "\t", "\ue001", `"`, "\ue002", "'", "\ue003", `\`, "\ue004")
	shown  = strings.NewReplacer("\ue000", " ", "\ue001", "\t", "\ue002", `"`, "\ue003", "'", "\ue004", `\`)
)

// interpolate returns a value of the file as a template of superd.
func (c *file) interpolate(s string, argument bool) string {
	var b strings.Builder
	for s != "" {
		at := strings.IndexByte(s, '$')
		if at < 0 || at+1 == len(s) {
			b.WriteString(draft.Literal(s))
			break
		}
		b.WriteString(s[:at])
		s = s[at+1:]
		switch {
		case s[0] == '$':
			rest := s[1:]
			// What follows a dollar sign of its own is the program's.
			if strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, "$") || rest == "" {
				b.WriteString("$$")
			} else {
				b.WriteString("$")
			}
			s = rest
		case s[0] == '{':
			end := strings.IndexByte(s, '}')
			if end < 0 {
				b.WriteString("$$" + s)
				return b.String()
			}
			b.WriteString(c.variable(s[1:end]))
			s = s[end+1:]
		default:
			end := 0
			for end < len(s) && (s[end] == '_' || 'a' <= s[end]|0x20 && s[end]|0x20 <= 'z' || end > 0 && '0' <= s[end] && s[end] <= '9') {
				end++
			}
			if end == 0 {
				b.WriteString("$")
				continue
			}
			b.WriteString(c.variable(s[:end]))
			s = s[end:]
		}
	}
	if text := b.String(); !argument || !strings.HasPrefix(text, "$") || !draft.IsName(text[1:]) {
		return text
	}
	return "$" + b.String()
}

// variable returns the reference for what stands between braces.
func (c *file) variable(text string) string {
	end := strings.IndexAny(text, ":-?+")
	name, rest := text, ""
	if end >= 0 {
		name, rest = text[:end], text[end:]
	}
	if !draft.IsName(name) {
		return "$${" + text + "}"
	}
	fallback, hasFallback := strings.CutPrefix(rest, ":-")
	if !hasFallback {
		fallback, hasFallback = strings.CutPrefix(rest, "-")
	}
	if value, known := c.env[name]; known && value != "" {
		fallback, hasFallback = value, true
	}
	switch {
	case !hasFallback && (strings.HasPrefix(rest, ":?") || strings.HasPrefix(rest, "?")):
		return "${" + name + "}" // superd refuses to start the program, too
	case strings.HasPrefix(rest, ":+") || strings.HasPrefix(rest, "+"):
		c.assumed = append(c.assumed, "${"+text+"}")
		return strings.TrimLeft(rest, ":+")
	case hasFallback && !strings.ContainsAny(fallback, "{}"):
		return "${" + name + ":-" + strings.ReplaceAll(fallback, "$", "$$") + "}"
	}
	return "${" + name + ":-}" // compose puts nothing in the place of a variable that is not set
}

// dependencies imports depends_on.
func (c *file) dependencies(name string, n *yamltree.Node) {
	t := c.programs[name]
	if t == nil || n == nil {
		return
	}
	conditions := map[string]string{}
	order := n.Strings()
	for _, m := range n.Members() {
		order = append(order, m.Key)
		conditions[m.Key] = m.Value.Get("condition").Text()
	}
	for _, other := range order {
		on := c.programs[other]
		if on == nil {
			c.note(n, "services."+name+".depends_on", "%s is not in this configuration: it has to run by other means", other)
			continue
		}
		switch conditions[other] {
		case "service_healthy", "service_completed_successfully":
			t.Append("requires", on.Name)
			if conditions[other] == "service_healthy" && !on.Has("ready.exec") {
				c.note(n, "services."+name+".depends_on", "%s has no healthcheck: `ready` there says when it can be used", other)
			}
		default:
			t.Append("after", on.Name)
		}
	}
}

// duration reads a duration of compose: as Go has it, with d and w.
func duration(s string) (time.Duration, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return draft.Seconds(float64(n)), true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// size reads a size of compose: b, k, m, g with powers of 1024.
func size(s string) (int64, bool) {
	lower := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b")
	factor := int64(1)
	for suffix, f := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40} {
		if strings.HasSuffix(lower, suffix) {
			lower, factor = lower[:len(lower)-1], f
			break
		}
	}
	n, err := strconv.ParseFloat(lower, 64)
	if err != nil || n < 0 || n*float64(factor) > 1<<62 {
		return 0, false
	}
	return int64(n * float64(factor)), true
}
