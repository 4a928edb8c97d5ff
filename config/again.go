package config

import (
	"slices"
	"strings"
)

// LoadAfter is [Load] for who has loaded the file before: it reads anew only the programs' tables whose text has changed since,
// where that can't make a difference, and else all. Programs that mean the same as before are the same *Program. reading is told each file, or
// pattern of files, before it is looked at, which may take as long as its file system likes.
func LoadAfter(path string, before *Config, reading func(path string)) (*Config, error) {
	return loadAfter(path, before, machine().telling(reading))
}

func loadAfter(path string, before *Config, h host) (*Config, error) {
	if c := again(path, before, h); c != nil {
		return c, nil
	}
	c, err := load(path, h)
	if err != nil {
		return nil, err
	}
	for i, p := range c.Programs {
		if old := before.Program(p.Name); old != nil && old.equal(p) {
			c.Programs[i] = old
		}
	}
	return c, nil
}

// A revision is a load in which tables whose text is as before are left out.
type revision struct {
	before *Config
	texts  map[string]string // of the files of before
	kept   []*Program        // whose tables were left out
	doubt  bool              // all has to be read anew
}

// again returns what path says by now; nil where all has to be read to tell.
func again(path string, before *Config, h host) *Config {
	if len(before.Errors)+len(before.Warnings) > 0 || string(before.sources.Path) != path {
		return nil
	}
	if directory, err := h.abs("."); err != nil || directory != string(before.sources.Directory) {
		return nil
	}
	r := &revision{before: before, texts: map[string]string{}}
	for _, f := range before.sources.Files {
		r.texts[string(f.Path)] = string(f.Text)
	}
	sources := archive{Version: archiveVersion, Path: exact(path)}
	l := &loader{host: sources.recording(h), report: &report{}, drafts: map[string]*draft{}, envFiles: map[string]envFile{}, revision: r}
	for _, p := range before.Programs {
		l.sharing.know(p.Settings)
	}
	c := l.config(path)
	if r.doubt || l.report.fatal || len(c.Errors)+len(c.Warnings) > 0 {
		return nil
	}
	if slices.ContainsFunc(before.Programs, (*Program).usesLogger) || slices.ContainsFunc(c.Programs, (*Program).usesLogger) {
		return nil // one of them follows from the other
	}
	c.sources = sources
	fresh := c.Programs
	c.Programs = append(slices.Clone(fresh), r.kept...)
	slices.SortFunc(c.Programs, compareNames)
	for i := 1; i < len(c.Programs); i++ {
		if c.Programs[i-1].Name == c.Programs[i].Name {
			return nil
		}
	}
	if len(c.Programs) == 0 || r.concernsOthers(c, fresh) {
		return nil
	}
	for i, p := range c.Programs {
		if old := before.Program(p.Name); old != nil && old != p && old.equal(p) {
			c.Programs[i] = old
		}
	}
	return c
}

// cut returns the text of a file without the tables of programs that are as they were. The lines stay where they are.
func (r *revision) cut(path, text string) string {
	was := r.texts[path]
	tables, ok := splitTables(text)
	old, okBefore := splitTables(was)
	if !ok || !okBefore || path == string(r.before.sources.Path) && heads(tables) != heads(old) {
		r.doubt = true
		return text
	}
	known := make(map[string]string, len(old))
	for _, t := range old {
		known[t.program] = t.text
	}
	var left strings.Builder
	for _, t := range tables {
		p := r.before.Program(t.program)
		if t.program == "" || p == nil || p.File != path || known[t.program] != t.text {
			left.WriteString(t.text)
			continue
		}
		r.kept = append(r.kept, p)
		for range strings.Count(t.text, "\n") {
			left.WriteByte('\n')
		}
	}
	return left.String()
}

// concernsOthers reports whether what has changed may make a mistake of what has not: c has all programs, of which fresh were read anew.
func (r *revision) concernsOthers(c *Config, fresh []*Program) bool {
	named, added, unnameable := false, map[string]bool{}, map[string]bool{} // unnameable: nobody may wait for them any more
	for _, p := range r.before.Programs {
		if c.Program(p.Name) == nil {
			unnameable[p.Name] = true
		}
	}
	for _, p := range fresh {
		old := r.before.Program(p.Name)
		if old == nil {
			added[p.Name] = true
			old = &Program{Settings: &Settings{}}
		}
		if p.Schedule != "" && old.Schedule == "" {
			unnameable[p.Name] = true
		}
		if !slices.Equal(p.Requires, old.Requires) || !slices.Equal(p.After, old.After) {
			return true
		}
		if slices.ContainsFunc(p.Groups, func(group string) bool { return c.Program(group) != nil }) {
			return true
		}
		files := func(l Log) [4]string { return [...]string{l.File, l.StderrFile, string(l.Stderr), string(l.Sink)} }
		named = named || files(p.Log) != files(old.Log) || p.Replicas != old.Replicas
	}
	for _, p := range c.Programs {
		if named && (p.Log.File != "" || p.Log.StderrFile != "" || p.Log.Stderr == StderrSeparate) || slices.ContainsFunc(p.Groups, func(group string) bool { return added[group] }) {
			return true
		}
		for _, others := range [][]string{p.Requires, p.After} {
			if slices.ContainsFunc(others, func(other string) bool { return unnameable[other] }) {
				return true
			}
		}
	}
	return false
}

// readEnvFiles reads the env files of the programs that were left out. One that says something else may concern what refers to it.
func (r *revision) readEnvFiles(l *loader) {
	for _, p := range r.kept {
		if p.EnvFile == "" {
			continue
		}
		if _, done := l.envFiles[p.EnvFile]; done {
			continue
		}
		if file := l.envFile(p.EnvFile); len(file.errs) > 0 || EnvSum(file.vars) != r.before.envSums[p.EnvFile] {
			r.doubt = true
			return
		}
	}
}

// A table is a part of a file of TOML: the tables of one program, or what stands between such.
type table struct {
	program string // "": none
	text    string // whole lines
}

// heads returns what is in no program's table.
func heads(tables []table) string {
	var b strings.Builder
	for _, t := range tables {
		if t.program == "" {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// splitTables splits a file before the headers of programs' tables. ok is false where it is not sure that the parts mean by themselves what they
// mean together: a value that doesn't end, a program in several places.
//
// Source: https://toml.io/en/v1.0.0, strings, comments, arrays, tables.
func splitTables(text string) (tables []table, ok bool) {
	seen := map[string]bool{}
	from, current := 0, ""
	end := func(at int) {
		if at > from {
			tables = append(tables, table{current, text[from:at]})
		}
		from = at
	}
	for at := 0; at < len(text); {
		if name, header := headerOf(text[at:]); header && (name != current || name == "") {
			end(at)
			if seen[name] {
				return nil, false
			}
			seen[name] = name != ""
			current = name
		}
		next := lineEnd(text, at)
		if next < 0 {
			return nil, false
		}
		at = next
	}
	end(len(text))
	return tables, true
}

// headerOf reports whether a line is the header of a table, and of which program.
func headerOf(line string) (program string, ok bool) {
	line = strings.TrimLeft(line[:min(len(line), 300)], " \t")
	if !strings.HasPrefix(line, "[") {
		return "", false
	}
	rest, ok := strings.CutPrefix(line, "[program.")
	if !ok {
		return "", true
	}
	n := 0
	for n < len(rest) && isBare(rest[n]) {
		n++
	}
	if n == 0 || n == len(rest) || rest[n] != ']' && rest[n] != '.' {
		return "", true // written in another way
	}
	return rest[:n], true
}

// lineEnd returns where the next line begins that is not within a value, -1 if a value doesn't end.
func lineEnd(text string, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '\n':
			if depth <= 0 {
				return at + 1
			}
		case '#':
			n := strings.IndexByte(text[at:], '\n')
			if n < 0 {
				n = len(text) - at
			}
			at += n - 1
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '"', '\'':
			if at = stringEnd(text, at); at < 0 {
				return -1
			}
		}
		if at >= len(text)-1 && depth > 0 {
			return -1
		}
	}
	return len(text)
}

// stringEnd returns where the last quote of the string is that begins at at, -1 if it doesn't end.
func stringEnd(text string, at int) int {
	quote := text[at : at+1]
	long := strings.Repeat(quote, 3)
	if !strings.HasPrefix(text[at:], long) {
		for i := at + 1; i < len(text) && text[i] != '\n'; i++ {
			switch {
			case text[i] == quote[0]:
				return i
			case text[i] == '\\' && quote == `"`:
				i++
			}
		}
		return -1
	}
	for i := at + 3; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == `"`:
			i++
		case strings.HasPrefix(text[i:], long):
			i += 2
			for range 2 { // quotes of the string's own
				if i+1 < len(text) && text[i+1] == quote[0] {
					i++
				}
			}
			return i
		}
	}
	return -1
}
