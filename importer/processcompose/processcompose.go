// Package processcompose imports a process-compose.yaml.
package processcompose

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"superd/importer/draft"
	"superd/importer/yamltree"
)

// Import reads a process-compose.yaml. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	root, err := yamltree.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	processes := root.Get("processes")
	if !processes.IsMap() {
		return nil, fmt.Errorf("read %s: there are no processes", path)
	}
	c := &file{path: path, doc: draft.New(dir), programs: map[string]*draft.Table{}, shell: []string{"bash", "-c"}}
	c.doc.Head = root.Comments
	if root.Further > 0 {
		c.doc.Note(draft.Place{File: path, Line: root.Further}, "", "process-compose reads the first document only")
	}
	if command := root.Get("shell", "shell_command").Text(); command != "" {
		c.shell = []string{command, root.Get("shell", "shell_argument").Text()}
	}
	d := c.doc.Defaults
	if _, err := system.ReadFile(filepath.Join(filepath.Dir(path), ".env")); err == nil {
		d.Set("env_file", c.doc.Path(".env"))
	}
	for _, m := range root.Members() {
		d.Comment(m.Value.Comments...)
		switch m.Key {
		case "processes", "version", "shell", "is_strict", "name":
		case "environment":
			c.environment(d, m.Key, m.Value)
		case "log_location":
			c.note(m.Value, m.Key, "each program has a log of its own in log_dir; `superd ctl logs` merges them")
		case "log_level":
			c.note(m.Value, m.Key, "it is an option: `superd run --log-level`")
		default:
			if !strings.HasPrefix(m.Key, "x-") {
				c.note(m.Value, m.Key, "superd has no counterpart")
			}
		}
	}
	once := map[string]bool{} // processes that others wait for to end
	for _, m := range processes.Members() {
		for _, on := range m.Value.Get("depends_on").Members() {
			if strings.HasPrefix(on.Value.Get("condition").Text(), "process_completed") {
				once[on.Key] = true
			}
		}
	}
	for _, m := range processes.Members() {
		c.process(m.Key, m.Value, once[m.Key])
	}
	for _, m := range processes.Members() {
		c.dependencies(m.Key, m.Value.Get("depends_on"))
	}
	d.Comments = append([]string{"What process-compose does unless a process says otherwise."}, d.Comments...)
	d.Set("restart", "never")
	return c.doc, nil
}

// A file is the file that is being imported.
type file struct {
	path     string
	doc      *draft.Document
	programs map[string]*draft.Table
	shell    []string
}

func (c *file) note(n *yamltree.Node, key, format string, args ...any) {
	c.doc.Note(draft.Place{File: c.path, Line: n.Line}, key, format, args...)
}

// script returns the command for a line of the shell.
func (c *file) script(line string) (command draft.Command, shell bool) {
	line = strings.ReplaceAll(line, "$$", "$") // process-compose replaces $X before the shell does
	command, shell = draft.Script(line)
	if len(command) == 3 && command[0] == "sh" && command[1] == "-c" {
		command = draft.Command{c.shell[0], c.shell[1], command[2]}
	}
	return command, shell
}

func (c *file) environment(t *draft.Table, key string, n *yamltree.Node) {
	for _, item := range n.Items() {
		name, value, ok := strings.Cut(item.Text(), "=")
		if !ok {
			c.note(item, key, "%q is not of the form NAME=VALUE", item.Text())
			continue
		}
		t.Env(name, braces(value))
	}
}

// braces returns a value as a template: process-compose replaces $X and ${X}.
func braces(s string) string {
	var b strings.Builder
	for s != "" {
		at := strings.IndexByte(s, '$')
		if at < 0 {
			break
		}
		b.WriteString(s[:at])
		s = s[at+1:]
		end := 0
		for end < len(s) && draft.IsName(s[:end+1]) {
			end++
		}
		switch {
		case strings.HasPrefix(s, "$"):
			b.WriteString("$$")
			s = s[1:]
		case end > 0:
			b.WriteString("${" + s[:end] + ":-}")
			s = s[end:]
		default:
			if name, rest, ok := strings.Cut(strings.TrimPrefix(s, "{"), "}"); ok && strings.HasPrefix(s, "{") && draft.IsName(name) {
				b.WriteString("${" + name + ":-}")
				s = rest
				continue
			}
			b.WriteString("$$")
		}
	}
	return b.String() + s
}

// process imports one process.
func (c *file) process(name string, n *yamltree.Node, once bool) {
	t := c.doc.Program(name)
	c.programs[name] = t
	t.Comments = n.Comments
	full := "processes." + name
	if t.Name != name {
		c.note(n, full, "the program is %q", t.Name)
	}
	for _, m := range n.Members() {
		t.Comment(m.Value.Comments...)
		if m.Key == "entrypoint" && n.Get("command").Text() != "" {
			c.note(m.Value, full+"."+m.Key, "process-compose ignores it, since there is a command")
			continue
		}
		c.key(t, full+"."+m.Key, m.Key, m.Value)
		if m.Key == "command" && m.Value.Trailing != "" {
			t.Trailing("command", m.Value.Trailing)
		}
	}
	t.Flush()
	if once {
		t.Set("type", "oneshot")
		if t.Get("restart") == "always" {
			t.Delete("restart")
		}
	}
	if !t.Has("command") {
		c.note(n, full, "it has no command")
		t.Set("command", draft.Command{"true"})
	}
}

func (c *file) key(t *draft.Table, full, key string, n *yamltree.Node) {
	note := func(text string) { c.note(n, full, "%s", text) }
	switch key {
	case "command":
		command, shell := c.script(n.Text())
		t.Set("command", command)
		if strings.Contains(n.Text(), "{{") {
			note("superd has no templates: write what {{…}} stands for")
		}
		if shell && !t.Has("kill_mode") {
			t.Set("kill_mode", "tree") // a shell passes no signal on
		}
	case "entrypoint":
		t.Set("command", draft.Command(draft.Arguments(n.Strings())))
	case "description":
		t.Comments = append(t.Comments, n.Text())
	case "working_dir":
		t.Set("directory", c.doc.Path(braces(n.Text())))
	case "environment":
		c.environment(t, full, n)
	case "env_file":
		t.Append("env_file", c.doc.Path(n.Text()))
	case "namespace":
		t.Append("groups", draft.Name(n.Text()))
	case "disabled":
		if n.IsTrue() {
			t.Set("autostart", false)
		}
	case "replicas":
		if v, err := strconv.Atoi(n.Text()); err == nil && v > 1 {
			t.Set("replicas", v)
			note("PC_REPLICA_NUM counts from 0: SUPERD_REPLICA counts from 1")
		}
	case "log_location":
		t.Set("log.file", c.doc.Path(n.Text()))
		t.Set("log.max_size", 0)
	case "availability":
		c.availability(t, full, n)
	case "readiness_probe":
		c.probe(t, full, n, "ready")
	case "liveness_probe":
		c.probe(t, full, n, "health")
	case "ready_log_line":
		t.Set("ready.line", quoteMeta(n.Text()))
	case "shutdown":
		c.shutdown(t, full, n)
	case "is_daemon":
		if n.IsTrue() {
			t.Set("type", "forking")
		}
	case "depends_on":
	case "is_tty", "is_interactive":
		if n.IsTrue() {
			note("the program has no terminal")
		}
	case "is_elevated":
		if n.IsTrue() {
			note("superd runs it as its own user: a superd of root, or `user` in the others, has that effect")
		}
	case "schedule":
		switch {
		case n.Get("cron").Text() != "":
			t.Set("schedule", n.Get("cron").Text())
		case n.Get("interval").Text() != "":
			t.Set("schedule", "@every "+n.Get("interval").Text())
		}
		t.Set("type", "oneshot")
	default:
		note("superd has no counterpart")
	}
}

// quoteMeta returns a regular expression that matches s.
func quoteMeta(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (c *file) availability(t *draft.Table, full string, n *yamltree.Node) {
	for _, m := range n.Members() {
		switch m.Key {
		case "restart":
			switch m.Value.Text() {
			case "always":
				t.Set("restart", "always")
			case "on_failure":
				t.Set("restart", "on-failure")
			case "exit_on_failure":
				t.Set("essential", true)
				c.note(m.Value, full+".restart", "superd also ends when it succeeds: essential concerns every end")
			}
		case "backoff_seconds":
			if v, err := strconv.ParseFloat(m.Value.Text(), 64); err == nil && v > 0 {
				t.Set("backoff.initial", draft.Seconds(v))
				t.Set("backoff.max", draft.Seconds(v))
			}
		case "exit_on_end":
			if m.Value.IsTrue() {
				t.Set("essential", true)
			}
		case "max_restarts":
			if m.Value.Text() != "0" {
				c.note(m.Value, full+".max_restarts", "superd goes on trying: `start_limit` gives up after failures "+
					"within a time")
			}
		default:
			c.note(m.Value, full+"."+m.Key, "superd has no counterpart")
		}
	}
}

// probe imports a probe as ready or health.
func (c *file) probe(t *draft.Table, full string, n *yamltree.Node, to string) {
	if exec := n.Get("exec", "command"); exec != nil {
		command, _ := c.script(exec.Text())
		t.Set(to+".exec", command)
	}
	if get := n.Get("http_get"); get != nil {
		host := get.Get("host").Text()
		if host == "" || host == "localhost" {
			host = "127.0.0.1"
		}
		scheme := get.Get("scheme").Text()
		if scheme == "" {
			scheme = "http"
		}
		if port := get.Get("port").Text(); port != "" {
			host = net.JoinHostPort(host, port)
		}
		t.Set(to+".http", strings.ToLower(scheme)+"://"+host+"/"+strings.TrimPrefix(get.Get("path").Text(), "/"))
	}
	for _, m := range n.Members() {
		v, err := strconv.ParseFloat(m.Value.Text(), 64)
		switch {
		case m.Key == "exec" || m.Key == "http_get":
		case err != nil:
			c.note(m.Value, full+"."+m.Key, "superd has no counterpart")
		case m.Key == "period_seconds" && v > 0:
			t.Set(to+".interval", draft.Seconds(v))
		case m.Key == "timeout_seconds" && v > 0:
			t.Set(to+".timeout", draft.Seconds(v))
		case m.Key == "failure_threshold" && to == "health" && v > 0:
			t.Set("health.failures", int(v))
		case m.Key == "failure_threshold":
			c.note(m.Value, full+"."+m.Key, "superd tries until start_timeout, then it counts as a failure")
		case m.Key == "initial_delay_seconds":
			if v > 0 {
				c.note(m.Value, full+"."+m.Key, "superd tries from the beginning; with `ready`, health is checked "+
					"once it is ready")
			}
		case m.Key == "success_threshold" && v <= 1:
		default:
			c.note(m.Value, full+"."+m.Key, "superd has no counterpart")
		}
	}
}

func (c *file) shutdown(t *draft.Table, full string, n *yamltree.Node) {
	for _, m := range n.Members() {
		switch m.Key {
		case "command":
			command, _ := c.script(m.Value.Text())
			t.Set("stop_command", command)
		case "signal":
			t.Set("stop_signal", m.Value.Text())
		case "timeout_seconds":
			if v, err := strconv.ParseFloat(m.Value.Text(), 64); err == nil && v > 0 {
				t.Set("stop_timeout", draft.Seconds(v))
			}
		case "parent_only":
			if m.Value.IsTrue() {
				t.Set("kill_mode", "main-first")
			}
		default:
			c.note(m.Value, full+"."+m.Key, "superd has no counterpart")
		}
	}
}

func (c *file) dependencies(name string, n *yamltree.Node) {
	t := c.programs[name]
	for _, m := range n.Members() {
		on := c.programs[m.Key]
		if on == nil {
			c.note(m.Value, "processes."+name+".depends_on", "there is no process %s", m.Key)
			continue
		}
		switch condition := m.Value.Get("condition").Text(); condition {
		case "process_started", "":
			t.Append("after", on.Name)
		case "process_completed":
			t.Append("requires", on.Name)
			c.note(m.Value, "processes."+name+".depends_on", "superd waits until %s has succeeded", on.Name)
		default:
			t.Append("requires", on.Name)
			ready := on.Has("ready.exec") || on.Has("ready.http") || on.Has("ready.line")
			if !ready && condition != "process_completed_successfully" {
				c.note(m.Value, "processes."+name+".depends_on", "%s says nowhere when it can be used: `ready` there does", on.Name)
			}
		}
	}
}
