package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads the configuration at path with all it includes. Relative paths in a file begin at its own directory.
//
// A mistake in a program's table stands in [Config.Errors] and in that program's Invalid. The error, an [Errors] with
// all mistakes there are, says that the whole file is useless: it can't be read or isn't TOML, or something outside of
// the programs' tables is wrong. References to variables are looked up in this process's environment for warnings only.
func Load(path string) (*Config, error) {
	return load(path, machine())
}

// Examine is [Load] for who wants to know more: it also warns of directories and executables that are not there. To look
// at them may take as long as their file systems like, so superd itself does it at each start, where it holds up no other.
func Examine(path string) (*Config, error) {
	from := machine()
	from.stat = os.Stat
	return load(path, from)
}

func load(path string, h host) (*Config, error) {
	sources := archive{Version: archiveVersion, Path: exact(path)}
	l := &loader{host: sources.recording(h), report: &report{}, drafts: map[string]*draft{}, envFiles: map[string]envFile{}}
	c := l.config(path)
	if l.report.fatal {
		return nil, c.Errors
	}
	c.sources = sources
	return c, nil
}

// config reads the file at path, as far as that goes.
func (l *loader) config(path string) *Config {
	main, mistake := l.open(path)
	if mistake != nil {
		l.report.fatal = true
		return &Config{Errors: Errors{mistake}}
	}
	l.top(main)
	l.settle()
	if len(l.tables) == 0 && l.revision == nil {
		l.report.warnings = append(l.report.warnings, &KeyError{File: path, Err: errors.New("defines no program: add a [program.NAME] table")})
	}
	c := &Config{
		Path: path, Files: l.files, Superd: l.root.superd,
		Errors: l.report.errors.sorted(l.files), Warnings: l.report.warnings.sorted(l.files),
		envSums: map[string]uint64{},
	}
	for path, file := range l.envFiles {
		if len(file.errs) == 0 {
			c.envSums[path] = EnvSum(file.vars)
		}
	}
	for _, d := range l.programs {
		d.Invalid = d.Invalid.sorted(l.files)
		program := d.Program
		program.Settings = l.sharing.share(d.Settings)
		c.Programs = append(c.Programs, &program)
	}
	return c
}

// A loader reads one configuration.
type loader struct {
	host
	report   *report
	files    []string
	root     *draft            // include and [superd]
	defaults *draft            // [defaults]
	tables   []value           // [program.NAME] of all files
	drafts   map[string]*draft // by name
	programs []*draft          // by name, those with usable names
	envFiles map[string]envFile
	revision *revision // nil: all is read
	sharing  sharing
}

// open reads one file of TOML.
func (l *loader) open(path string) (*source, *KeyError) {
	l.files = append(l.files, path)
	absolute, err := l.abs(path)
	if err != nil {
		return nil, &KeyError{File: path, Err: fmt.Errorf("read configuration: %w", err)}
	}
	data, err := l.read(path)
	if err != nil {
		return nil, &KeyError{File: path, Err: fmt.Errorf("read configuration: %w: name another file, or mend this one", err)}
	}
	if l.revision != nil {
		data = l.revision.cut(path, data)
	}
	return parse(path, filepath.Dir(absolute), data)
}

// whole returns all of a file as a value.
func (l *loader) whole(src *source) value {
	return value{src: src, report: l.report, at: src.root, raw: src.table}
}

// top reads the file that was named, and opens what it includes.
func (l *loader) top(src *source) {
	file := l.whole(src)
	l.root = builtin().child(file)
	l.defaults = builtin().child(file)
	for _, name := range slices.Sorted(maps.Keys(src.table)) {
		entry := file.kid(name)
		switch name {
		case "include":
			entry.decodeKey(l.root, findKey("", name))
		case "superd":
			entry.decode(l.root, name, "")
		case "defaults":
			entry.decode(l.defaults, "program", "")
		case "program":
			l.collect(entry)
		default:
			entry.unknown("", "")
		}
	}
	if include, ok := l.root.set["include"]; ok {
		l.includes(include)
	}
}

// collect notes the [program.NAME] tables of a file.
func (l *loader) collect(v value) {
	programs, ok := v.raw.(map[string]any)
	if !ok {
		v.fail("must be a table of programs, got %s: write [program.NAME]", v.describe())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		l.tables = append(l.tables, v.kid(name))
	}
}

// includes opens the files that the patterns in v match, each once.
func (l *loader) includes(v value) {
	seen := map[string]bool{}
	if absolute, err := l.abs(v.src.name); err == nil {
		seen[absolute] = true // conf/*.toml may match the file it stands in
	}
	items, _ := v.items()
	for i, pattern := range l.root.include {
		item := items[i]
		literal := !strings.ContainsAny(pattern, `*?[\`)
		// Matched and shown in the way the including file was named.
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(escapeGlob(filepath.Dir(v.src.name)), pattern)
		}
		matches, err := l.glob(pattern)
		switch {
		case err != nil:
			item.fail("%s is not a pattern: close each [, and don't end with a backslash", shorten(pattern))
		case len(matches) == 0 && literal:
			item.fail(`there is no file %s: create it, or write a pattern such as "conf.d/*.toml", which may match nothing`, shorten(pattern))
		}
		slices.Sort(matches)
		for _, match := range matches {
			if absolute, err := l.abs(match); err == nil && !seen[absolute] {
				seen[absolute] = true
				l.included(item, match)
			}
		}
	}
}

// escapeGlob returns the pattern that matches path alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// included reads a file that v includes.
func (l *loader) included(v value, path string) {
	src, mistake := l.open(path)
	if mistake != nil {
		v.add(mistake)
		return
	}
	file := l.whole(src)
	for _, name := range slices.Sorted(maps.Keys(src.table)) {
		entry := file.kid(name)
		switch name {
		case "program":
			l.collect(entry)
		case "include":
			entry.failKey("an included file can't include others: list them in %s", v.src.name)
		case "superd", "defaults":
			entry.failKey("an included file may hold [program.NAME] tables only: move this to %s", v.src.name)
		default:
			entry.failKey("unknown key %s: an included file may hold [program.NAME] tables only", shorten(name))
		}
	}
}

// settle reads the programs' tables and checks all programs together.
func (l *loader) settle() {
	for _, table := range l.tables {
		l.program(table)
	}
	for _, name := range slices.Sorted(maps.Keys(l.drafts)) {
		d := l.drafts[name]
		d.check()
		if checkName("program", name) == nil {
			l.programs = append(l.programs, d)
		}
	}
	l.addLoggers()
	if l.revision == nil {
		l.checkGroups()
		l.checkDependencies()
		l.checkLogs()
	} else {
		l.revision.readEnvFiles(l)
	}
	l.checkMaxTotal()
	l.checkVariables()
	l.checkMachine()
}

// program reads one program's table.
func (l *loader) program(table value) {
	name := table.key[len(table.key)-1]
	d := l.defaults.child(table)
	if first := l.drafts[name]; first != nil {
		table.owner = first
		table.failKey("is already defined at %s: rename one of them", first.self.mistake(first.self.at.key, "").place())
	} else {
		l.drafts[name] = d
		table.owner = d
	}
	d.self = table
	d.Name, d.File = name, table.src.name
	d.Line, _ = table.src.lines.place(table.at.key)
	if err := checkName("program", name); err != nil {
		table.failKey("%w", err)
	}
	table.decode(d, "program", "")
	d.settle()
}

// envFile is the outcome of reading one.
type envFile struct {
	vars map[string]string
	errs Errors
}

// envFile reads an env file, each once.
func (l *loader) envFile(path string) envFile {
	if file, ok := l.envFiles[path]; ok {
		return file
	}
	var file envFile
	if data, err := l.read(path); err != nil {
		file.errs = Errors{{File: path, Err: fmt.Errorf("read env file: %w", err)}}
	} else {
		file.vars, file.errs = parseEnvFile(path, data)
	}
	l.envFiles[path] = file
	return file
}
