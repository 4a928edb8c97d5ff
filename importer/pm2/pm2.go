// Package pm2 imports the ecosystem files of pm2: JSON, and JavaScript that exports an object
// literal. Nothing is executed.
package pm2

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"superd/config/document"
	"superd/importer/draft"
)

func escapeDollars(s string) string { return draft.Literal(s) }

// Import reads an ecosystem file. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	source, _ := draft.CutMark(text)
	if strings.TrimSpace(source) == "" {
		return nil, fmt.Errorf("read %s: it is empty", path)
	}
	var root *node
	ext := filepath.Ext(path)
	if ext == ".yml" || ext == ".yaml" {
		root, err = readYAML(text)
	} else {
		root, err = read(source)
	}
	if code, ok := errors.AsType[*notLiteral](err); ok {
		if ext == ".json" {
			return nil, fmt.Errorf("read %s: line %d: %q is not JSON", path, code.line, code.code)
		}
		return nil, fmt.Errorf("read %s: %w. Have node write JSON, and import that: node -p "+
			`"JSON.stringify(require('./%s'), null, 2)" > ecosystem.json`, path, code, filepath.Base(path))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	f := &file{path: path, doc: draft.New(dir), system: system}
	apps := []node{*root} // one app, or a list of them, without "apps"
	switch {
	case root.kind == isList:
		apps = root.items
	case root.get("apps") != nil:
		f.doc.Head = append(root.comments, root.get("apps").comments...)
		if apps = root.get("apps").items; root.get("apps").kind == isObject {
			apps = []node{*root.get("apps")}
		}
		for _, m := range root.members {
			if m.key != "apps" {
				f.note(&m.value, m.key, "superd has no counterpart")
			}
		}
	}
	for i := range apps {
		if apps[i].kind == isObject {
			f.app(&apps[i], i)
		} else {
			f.note(&apps[i], fmt.Sprintf("apps[%d]", i), "it is no object")
		}
	}
	if len(f.doc.Programs) == 0 {
		return nil, fmt.Errorf("read %s: there are no apps with a script", path)
	}
	d := f.doc.Defaults
	d.Comments = []string{"What pm2 does unless an app says otherwise."}
	d.Set("stop_signal", "SIGINT")
	d.Set("stop_timeout", 1600*time.Millisecond)
	d.Set("kill_mode", "tree")
	d.Set("log.stderr", "separate")
	d.Set("log.max_size", 0) // pm2 rotates nothing
	return f.doc, nil
}

// A file is the file that is being imported.
type file struct {
	path   string
	doc    *draft.Document
	system draft.System
}

func (f *file) note(n *node, key, format string, args ...any) {
	f.doc.Note(draft.Place{File: f.path, Line: n.line}, key, format, args...)
}

// interpreters are those that pm2 chooses by the end of a script's name.
var interpreters = map[string]string{".js": "node", ".cjs": "node", ".mjs": "node", ".py": "python3",
	".sh": "bash", ".rb": "ruby", ".php": "php", ".pl": "perl", ".ts": "bun", ".tsx": "bun", ".coffee": "coffee"}

// app imports one app.
func (f *file) app(n *node, index int) {
	script := text(n, "script", "exec")
	if script == "" {
		f.note(n, fmt.Sprintf("apps[%d]", index), "it has no script")
		return
	}
	name := text(n, "name")
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(script), filepath.Ext(script))
	}
	p := f.doc.Program(name)
	p.Comments = n.comments
	key := fmt.Sprintf("apps[%d]", index)
	if name != p.Name {
		f.note(n, key+".name", "the program is %q", p.Name)
	}
	f.command(p, n, key, script)
	for _, m := range n.members {
		p.Comment(m.value.comments...)
		f.key(p, n, key+"."+m.key, m.key, &m.value)
	}
	p.Flush()
}

// text returns the first string of these keys.
func text(n *node, keys ...string) string {
	for _, key := range keys {
		if v := n.get(key); v != nil && (v.kind == isText || v.kind == isNumber) {
			return v.text
		}
	}
	return ""
}

func on(n *node) bool { return n != nil && n.text == "true" }

// command sets the command: interpreter, its arguments, script, arguments.
func (f *file) command(p *draft.Table, n *node, key, script string) {
	if len(strings.Fields(script)) > 1 { // pm2 runs it by `bash -c`, with nothing else
		command, _ := draft.Script(script)
		p.Set("command", command)
		if n.get("args") != nil {
			f.note(n, key+".args", "pm2 ignores it, since script has blanks and is a command of a shell")
		}
		return
	}
	interpreter := text(n, "interpreter", "exec_interpreter")
	ext := filepath.Ext(script)
	if interpreter == "" {
		interpreter = interpreters[ext]
		if interpreter == "" && strings.Contains(script, "/") && ext == "" {
			f.note(n, key+".script", "pm2 runs it by node unless it is a binary: it is executed")
		}
	}
	var args draft.Command
	switch interpreter {
	case "", "none":
		args = draft.Command{script}
	default:
		args = append(draft.Command{interpreter}, f.list(n, key, "interpreter_args", "interpreterArgs", "node_args")...)
		args = append(args, script)
	}
	p.Set("command", append(args, f.list(n, key, "args")...))
}

func (f *file) words(n *node, key, s string) []string {
	words, err := document.SplitWords(s)
	if err != nil {
		f.note(n, key, "can't be split: %v", err)
		return []string{s}
	}
	return words
}

// list returns a list of arguments, or the words of a string.
func (f *file) list(n *node, key string, names ...string) (all []string) {
	for _, name := range names {
		v := n.get(name)
		if v == nil {
			continue
		}
		if v.kind == isText {
			return f.words(v, key+"."+name, v.text)
		}
		for _, item := range v.items {
			all = append(all, item.text)
		}
		return all
	}
	return nil
}

// duration reads milliseconds, or a text such as "5s".
func duration(n *node) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(n.text, 64); err == nil && ms >= 0 && ms < 1e12 {
		return draft.Seconds(ms / 1000), true
	}
	d, err := time.ParseDuration(n.text)
	return d, err == nil && d >= 0
}

// watch imports one of the keys about watched files, which count only with the key watch.
func (f *file) watch(p *draft.Table, app *node, full, key string, n *node) {
	if w := app.get("watch"); w == nil || w.text == "false" {
		return
	}
	var items []string
	for _, item := range n.items {
		items = append(items, item.text)
	}
	if n.kind == isText {
		items = []string{n.text}
	}
	switch key {
	case "watch":
		if len(items) == 0 {
			items = []string{"."}
		}
		for i, path := range items {
			if !filepath.IsAbs(path) {
				items[i] = f.doc.Path(filepath.Join(text(app, "cwd"), path))
			}
		}
		p.Set("watch.paths", items)
	case "ignore_watch":
		f.note(n, full, "patterns are those of .gitignore: a * does not match a /, and there are no regular expressions")
		p.Set("watch.ignore", items)
	case "watch_delay":
		if d, ok := duration(n); ok {
			p.Set("watch.debounce", d)
		}
	default:
		f.note(n, full, "superd has no counterpart")
	}
}

func (f *file) key(p *draft.Table, app *node, full, key string, n *node) {
	note := func(format string, args ...any) { f.note(n, full, format, args...) }
	switch {
	case strings.HasPrefix(key, "env_") && n.kind == isObject:
		note("only `env` is imported: pm2 adds these with --env %s", strings.TrimPrefix(key, "env_"))
		return
	case strings.HasPrefix(key, "watch") || key == "ignore_watch":
		f.watch(p, app, full, key, n)
		return
	}
	switch key {
	case "name", "script", "exec", "args", "interpreter", "exec_interpreter", "interpreter_args", "interpreterArgs",
		"node_args", "vizion", "force", "pmx", "automation", "treekill", "source_map_support",
		"disable_source_map_support", "log_type":
		if key == "treekill" && n.text == "false" {
			p.Set("kill_mode", "main-first")
		}
	case "cwd":
		p.Set("directory", f.doc.Path(n.text))
	case "env":
		for _, m := range n.members {
			if m.value.text != "undefined" || m.value.kind == isText { // else it is not set
				p.Env(m.key, m.value.text)
			}
		}
	case "namespace":
		p.Append("groups", draft.Name(n.text))
	case "instances":
		f.instances(p, full, n)
	case "exec_mode":
		if strings.HasPrefix(n.text, "cluster") {
			note("superd has no cluster mode, in which workers share a port: let superd listen (`sockets`), or " +
				"give each replica a port (${8000+SUPERD_REPLICA})")
		}
	case "autostart":
		if n.text == "false" {
			p.Set("autostart", false)
		}
	case "autorestart":
		if n.text == "false" {
			p.Set("restart", "never")
		}
	case "stop_exit_codes":
		var codes []int
		for _, item := range append(n.items, *n) {
			if v, err := strconv.Atoi(item.text); err == nil {
				codes = append(codes, v)
			}
		}
		p.Set("no_restart_exit_codes", codes)
	case "max_restarts", "min_uptime":
		note("superd goes on trying, with pauses of at most a minute: `start_limit` gives up after failures within a time")
	case "restart_delay", "exp_backoff_restart_delay":
		if d, ok := duration(n); ok && d > 0 {
			p.Set("backoff.initial", d)
			if key == "restart_delay" {
				p.Set("backoff.max", d)
			} else {
				p.Set("backoff.factor", 1.5)
				p.Set("backoff.max", draft.Seconds(15))
			}
		}
	case "kill_timeout":
		if d, ok := duration(n); ok {
			p.Set("stop_timeout", d)
		}
	case "listen_timeout":
		if d, ok := duration(n); ok && d > 0 {
			p.Set("start_timeout", d)
		}
	case "wait_ready":
		if on(n) {
			note("superd has no channel for process.send('ready'): `ready` says how it knows, such as ready.tcp or ready.line")
		}
	case "shutdown_with_message":
		if on(n) {
			note("superd sends a signal, not a message: handle SIGINT")
		}
	case "max_memory_restart":
		note("near is limits.memory, above which the kernel kills it, and it is restarted")
	case "cron_restart", "cron":
		if n.text != "0" && n.kind == isText {
			note("superd restarts no service by the clock: a one-shot with `schedule` can execute `superd ctl restart %s`", p.Name)
		}
	case "out_file", "output", "out", "out_log", "error_file", "error", "err_file", "err_log", "log_file", "log", "merge_logs",
		"combine_logs", "disable_logs":
		f.log(p, app)
	case "log_date_format", "time":
		if n.text != "false" {
			p.Set("log.format", "text")
			note("the times are those of RFC 3339 in UTC")
		}
	case "uid", "user", "username":
		p.Set("user", n.text)
	case "gid":
		note("superd has no key for the group: the program has the one of its user in /etc/passwd")
	case "pid", "pid_file":
		note("superd writes no pid files")
	case "instance_var", "increment_var":
		note("SUPERD_REPLICA has the number of the instance, from 1 on")
	default:
		note("superd has no counterpart")
	}
}

func (f *file) instances(p *draft.Table, full string, n *node) {
	count, err := strconv.Atoi(n.text)
	switch {
	case n.text == "max" || err == nil && count <= 0:
		f.note(n, full, "superd does not count CPUs: set `replicas` to their number")
	case count > 1:
		p.Set("replicas", count)
		f.note(n, full, "NODE_APP_INSTANCE counts from 0, and SUPERD_REPLICA from 1")
	}
}

// log sets the log files of an app, once.
func (f *file) log(p *draft.Table, app *node) {
	if p.Has("log.file") || p.Has("log.stderr") {
		return
	}
	out, failed := text(app, "out_file", "output", "out", "out_log"), text(app, "error_file", "error", "err_file", "err_log")
	both := text(app, "log_file", "log")
	if on(app.get("disable_logs")) {
		out, failed = "/dev/null", "/dev/null"
	}
	if both != "" && out == "" && failed == "" {
		out, failed = both, both
	} else if both != "" {
		f.note(app.get(map[bool]string{true: "log_file", false: "log"}[app.get("log_file") != nil]), "log_file",
			"superd has no third file with both streams: `superd ctl logs` merges them")
	}
	if replicas, _ := p.Get("replicas").(int); replicas > 1 || text(app, "instances") == "max" {
		if out != "" || failed != "" {
			f.note(app, "out_file", "each instance has a log of its own, which can't be named: %s@1.log and so on in log_dir", p.Name)
		}
		return
	}
	for name, to := range map[string]*string{"NULL": &out, "null": &failed} {
		for _, file := range []*string{&out, &failed, to} {
			if *file == name {
				*file = "/dev/null"
			}
		}
	}
	if out != "" {
		p.Set("log.file", f.doc.Path(out))
	}
	switch {
	case failed != "" && failed == out:
		p.Set("log.stderr", "merge")
	case failed != "":
		p.Set("log.stderr", "separate")
		p.Set("log.stderr_file", f.doc.Path(failed))
	}
}
