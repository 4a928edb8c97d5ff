// Package s6 imports service directories of s6 and runit, and source directories of s6-rc.
package s6

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"superd/importer/draft"
)

// Import reads a service directory, or a directory of those. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	t := &tree{system: system, doc: draft.New(dir), root: path, programs: map[string]*draft.Table{}}
	if t.isService(path) {
		t.root = filepath.Dir(path)
		if dir != "" {
			t.doc.Dir = filepath.Dir(dir)
		}
		name := filepath.Base(path)
		if abs, err := filepath.Abs(path); err == nil {
			name = filepath.Base(abs)
		}
		// The directory of the service is the one that the configuration may be in.
		t.single = true
		if err := t.service(name, path); err != nil {
			return nil, err
		}
		t.relations(name, path)
		return t.doc, nil
	}
	found, err := system.Glob(filepath.Join(path, "*"))
	if err != nil {
		return nil, err
	}
	var services []string
	for _, p := range found {
		if t.isService(p) {
			services = append(services, p)
		}
	}
	if len(services) == 0 {
		return nil, fmt.Errorf("read %s: it is no service directory, and has none: there is no file run or type", path)
	}
	for _, p := range services {
		if err := t.service(filepath.Base(p), p); err != nil {
			return nil, err
		}
	}
	for _, p := range services {
		t.relations(filepath.Base(p), p)
	}
	return t.doc, nil
}

// A tree is a directory of service directories.
type tree struct {
	system   draft.System
	doc      *draft.Document
	root     string
	single   bool
	programs map[string]*draft.Table
}

func (t *tree) isService(dir string) bool { return t.has(dir, "run") || t.has(dir, "type") }

func (t *tree) has(dir, name string) bool {
	_, err := t.system.ReadFile(filepath.Join(dir, name))
	return err == nil
}

// text returns the content of a file without blanks around it; ok is false if there is none.
func (t *tree) text(dir, name string) (text string, ok bool) {
	content, err := t.system.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(content)), err == nil
}

// names returns the names in a file, a line each, or those of the files in NAME.d.
func (t *tree) names(dir, name string) (all []string) {
	if text, ok := t.text(dir, name); ok {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				all = append(all, line)
			}
		}
	}
	found, _ := t.system.Glob(filepath.Join(dir, name+".d", "*"))
	for _, path := range found {
		all = append(all, filepath.Base(path))
	}
	return all
}

func (t *tree) note(dir, name, format string, args ...any) {
	t.doc.Note(draft.Place{File: filepath.Join(dir, name)}, "", format, args...)
}

// service imports one service directory.
func (t *tree) service(name, dir string) error {
	kind, _ := t.text(dir, "type")
	if kind == "bundle" {
		return nil // see relations
	}
	p := t.doc.Program(name)
	t.programs[name] = p
	if p.Name != name {
		t.note(dir, "", "the program is %q", p.Name)
	}
	directory := t.doc.Path(name)
	if t.single && t.doc.Dir == "" {
		directory = "."
	}
	p.Set("directory", directory)
	switch kind {
	case "oneshot":
		p.Set("type", "oneshot")
		if !t.has(dir, "up") {
			return fmt.Errorf("read %s: it is a oneshot and has no file up", dir)
		}
		p.Set("command", draft.Command{"execlineb", "-P", "up"})
		if t.has(dir, "down") {
			t.note(dir, "down", "superd runs nothing when a one-shot is taken down: a program with post_stop can")
		}
		if ms, ok := t.number(dir, "timeout-up"); ok && ms > 0 {
			t.note(dir, "timeout-up", "superd does not limit the time of a one-shot")
		}
		return nil
	case "", "longrun":
	default:
		return fmt.Errorf("read %s: %q is no type of s6-rc", dir, kind)
	}
	if !t.has(dir, "run") {
		return fmt.Errorf("read %s: there is no file run", dir)
	}
	p.Set("command", draft.Command{"./run"})
	p.Set("backoff.initial", draft.Seconds(1)) // a start a second, as s6 and runit do
	p.Set("backoff.max", draft.Seconds(1))
	p.Set("backoff.jitter", 0.0)
	t.longrun(p, dir)
	return nil
}

func (t *tree) number(dir, name string) (n int, ok bool) {
	text, ok := t.text(dir, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.note(dir, name, "%q is no number", text)
		return 0, false
	}
	return n, true
}

// longrun imports the files beside run.
func (t *tree) longrun(p *draft.Table, dir string) {
	if t.has(dir, "down") {
		p.Set("autostart", false)
	}
	if fd, ok := t.number(dir, "notification-fd"); ok {
		p.Set("ready.fd", fd)
	}
	if t.has(dir, "check") {
		p.Set("ready.exec", draft.Command{"./check"}) // of runit
	}
	if s, ok := t.text(dir, "down-signal"); ok {
		if _, err := strconv.Atoi(s); err != nil && !strings.HasPrefix(s, "SIG") {
			s = "SIG" + s
		}
		p.Set("stop_signal", s)
	}
	ms, ok := t.number(dir, "timeout-kill")
	switch {
	case ok && ms > 0:
		p.Set("stop_timeout", draft.Seconds(float64(ms)/1000))
	case t.has(dir, "finish") || t.has(dir, "notification-fd") || ok:
		p.Set("final_kill", false) // s6 kills nothing by itself
	}
	if t.has(dir, "finish") {
		p.AppendCommand("post_stop", []string{"./finish"})
		t.note(dir, "finish", "superd gives it no arguments (exit code and signal), and its exit status 125 does not "+
			"end the restarts: no_restart_exit_codes of the program does")
	}
	if _, ok := t.number(dir, "timeout-finish"); ok {
		t.note(dir, "timeout-finish", "a hook has start_timeout")
	}
	if ms, ok := t.number(dir, "timeout-up"); ok && ms > 0 {
		p.Set("start_timeout", draft.Seconds(float64(ms)/1000))
	}
	if ms, ok := t.number(dir, "timeout-down"); ok && ms > 0 && !p.Has("stop_timeout") {
		p.Set("stop_timeout", draft.Seconds(float64(ms)/1000))
	}
	if n, ok := t.number(dir, "max-death-tally"); ok {
		t.note(dir, "max-death-tally", "superd keeps the runs of its event log, not %d of them", n)
	}
	for _, name := range []string{"lock-fd", "nosetsid", "flag-newpgrp", "flag-essential", "instance", "conf"} {
		if !t.has(dir, name) {
			continue
		}
		if name == "flag-essential" {
			t.note(dir, name, "superd stops what its user stops")
			continue
		}
		t.note(dir, name, "superd has no counterpart")
	}
	if t.has(filepath.Join(dir, "log"), "run") {
		p.Set("log.sink", "command")
		p.Set("log.format", "raw")
		p.Set("log.command", draft.Command{"sh", "-c", "cd log && exec ./run"})
		t.note(filepath.Join(dir, "log"), "run", "the logger runs as the user of the program, and in s6 it has "+
			"its standard output only: `log.stderr` says what else")
	}
	if logger := t.names(dir, "producer-for"); len(logger) > 0 {
		t.note(dir, "producer-for", "superd has no pipes between programs: the log is a file. A logger of your own is log.command")
	}
	if producers := t.names(dir, "consumer-for"); len(producers) > 0 {
		t.note(dir, "consumer-for", "its input is /dev/null: a logger is log.command of the program that it logs")
		p.Set("autostart", false)
	}
}

// relations sets what a service depends on, or the groups that a bundle stands for.
func (t *tree) relations(name, dir string) {
	kind, _ := t.text(dir, "type")
	if kind == "bundle" {
		for _, member := range t.names(dir, "contents") {
			if p := t.programs[member]; p != nil {
				p.Append("groups", draft.Name(name))
			} else if !errors.Is(t.exists(member), fs.ErrNotExist) {
				t.note(dir, "contents", "a group has programs, not other bundles: %s is left out", member)
			}
		}
		return
	}
	p := t.programs[name]
	for _, other := range t.names(dir, "dependencies") {
		if on := t.programs[other]; on != nil {
			p.Append("requires", on.Name)
		} else {
			t.note(dir, "dependencies", "%s is not in this configuration", other)
		}
	}
}

func (t *tree) exists(name string) error {
	_, err := t.system.ReadFile(filepath.Join(t.root, name, "type"))
	return err
}
