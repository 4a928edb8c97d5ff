package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/receiver"
	"superd/internal/passwd"
	"superd/internal/rlimit"
)

// Load reads the configuration at path with all files it includes. Relative paths in a file begin
// at its directory.
//
// A mistake in a program's table is in [Config.Errors] and in that program's Invalid. The error, an
// [Errors] with all mistakes, means that the whole configuration is unusable: the file can't be
// read, is not TOML, or has a mistake outside the programs' tables. References to variables are
// looked up in this process's environment for warnings only.
func Load(path string) (*Config, error) {
	return load(path, thisHost())
}

// Examine is [Load] with more checks: it also warns of missing directories and executables. These
// checks may block on their file systems, so superd itself makes them at each start, where they
// delay no other program.
func Examine(path string) (*Config, error) {
	from := thisHost()
	if from.machine != nil {
		from.stat = os.Stat
	}
	return load(path, from)
}

// ExamineEdited is [Examine] with another text of the file at that absolute path.
func ExamineEdited(path, file, text string) (*Config, error) {
	from := thisHost()
	from.files = from.files.Replacing(file, text)
	return load(path, from)
}

// LoadAfter is [Load] for a reload. A program with the same meaning as in before is the same
// *Program, so that [Compare] is cheap and memory is shared. reading is called with each file or
// pattern before it is accessed, since the access may block on its file system.
func LoadAfter(path string, before *Config, reading func(path string)) (*Config, error) {
	h := thisHost()
	h.files = h.files.OnAccess(reading)
	return loadAfter(path, before, h)
}

func loadAfter(path string, before *Config, h host) (*Config, error) {
	c, err := load(path, h, before.Programs...)
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

// A host is the environment in which a configuration is loaded: the machine, or a test.
type host struct {
	files   document.Files
	environ []string // this process's environment

	stat    func(path string) (fs.FileInfo, error) // nil: the programs' files are not checked
	machine *machine                               // nil: programs can't run here
}

// A machine has the users, groups and limits that programs need.
type machine struct {
	accounts passwd.Files
	// Returns why a hard limit can't be set, nil if it can
	setLimit func(resource rlimit.Resource, hard uint64) error
	rights   Rights
}

// thisHost returns the host that superd runs on. Its machine is nil except on Linux, where programs
// can run.
func thisHost() host {
	return host{files: document.FileSystem(), environ: os.Environ(), machine: thisMachine()}
}

// load reads the configuration at path. Programs share settings with those of known.
func load(path string, h host, previous ...*Program) (*Config, error) {
	l := &loader{
		host: h, reader: document.NewReader(path, h.files),
		report: &codec.Report{}, tables: map[string][]codec.Value{}, builders: map[string]*builder{}, socketBuilders: map[string]*builder{},
	}
	for _, p := range previous {
		l.interning.add(p.Settings)
	}
	c := l.config(path)
	if l.report.Fatal {
		return nil, c.Errors
	}
	c.sources = l.reader.Archive()
	return c, nil
}

// config reads the file at path as far as possible.
func (l *loader) config(path string) *Config {
	main, mistake := l.reader.Open(path)
	if mistake != nil {
		l.report.Fatal = true
		return &Config{Errors: Errors{mistake}}
	}
	l.top(main)
	l.readSockets()
	l.readPrograms()
	l.readEnablements(path)
	receivers := receiver.Read(l.tables[receiver.Table], l.receiverContext())
	if len(l.tables["program"]) == 0 {
		l.report.Warnings = append(l.report.Warnings, &KeyError{File: path, Err: errors.New("defines no program: add a [program.NAME] table")})
	}
	names := l.reader.Names()
	c := &Config{
		Path: path, Files: names, Superd: l.root.superd, Control: l.root.control, Compat: l.root.compat, Web: l.root.web,
		Errors: l.report.Errors.Sorted(names), Warnings: l.report.Warnings.Sorted(names),
		envSums: l.reader.EnvSums(),
	}
	for _, d := range l.programs {
		d.Invalid = d.Invalid.Sorted(names)
		program := d.Program
		program.Settings = l.interning.share(d.Settings)
		c.Programs = append(c.Programs, &program)
	}
	for _, d := range l.sockets {
		socket := d.socket.Socket
		socket.Invalid = d.Invalid.Sorted(names)
		c.Sockets = append(c.Sockets, &socket)
	}
	for _, r := range receivers {
		r.Invalid = r.Invalid.Sorted(names)
	}
	c.Receivers = receivers
	return c
}

// A loader reads one configuration.
type loader struct {
	host
	reader    *document.Reader
	report    *codec.Report
	root      *builder            // include and [superd]
	defaults  *builder            // [defaults]
	sockets   []*builder          // sockets with usable names, sorted by name
	builders  map[string]*builder // by name
	programs  []*builder          // programs with usable names, sorted by name
	interning interning

	socketBuilders map[string]*builder      // by name
	tables         map[string][]codec.Value // of all files, by kind: program, socket, notify
	overriding     string                   // the file that has the key extends; "": none
}

// fileValue returns the whole file as a value.
func (l *loader) fileValue(file *document.Document) codec.Value {
	return codec.Value{Value: file.Top(), Report: l.report}
}

// top reads the main file, the file that it extends, and the files that they include.
func (l *loader) top(main *document.Document) {
	file := l.fileValue(main)
	l.root = builtin().child(file)
	l.defaults = builtin().child(file)
	l.readExtended(file)
	l.tablesOf(file)
}

// tablesOf reads the main file, or the one that it extends, and opens the files that it includes.
func (l *loader) tablesOf(file codec.Value) {
	for _, name := range file.Keys() {
		entry := file.Entry(name)
		switch name {
		case extends:
			if file.Name != l.overriding && l.overriding != "" {
				entry.FailKey("%s, which %s extends, can't extend others: name the other one there", file.Name, l.overriding)
			}
		case "include":
			l.root.decodeKey(entry, findKey("", name))
		case "superd", "control", "compat", "web":
			l.root.decode(entry, name, "")
		case "defaults":
			l.defaults.override(entry)
		case "program", "socket", receiver.Table:
			l.collect(entry)
		default:
			unknownKey(entry, "", "")
		}
	}
	if include, ok := l.root.set["include"]; ok && include.Name == file.Name {
		l.includes(include)
	}
}

// collect adds the tables in v, such as [program], to those of all files.
func (l *loader) collect(v codec.Value) {
	kind := v.Key[0]
	if _, isTable := v.Raw.(map[string]any); !isTable {
		v.Fail("must hold tables, got %s: write [%s.NAME]", v.Describe(), kind)
		return
	}
	for _, name := range v.Keys() {
		l.tables[kind] = append(l.tables[kind], v.Entry(name))
	}
}

// includes opens the files that the patterns in v match, each once.
func (l *loader) includes(v codec.Value) {
	items, _ := v.Items()
	for i, pattern := range l.root.include {
		matches, err := l.reader.Match(v.Document, pattern)
		if err != nil {
			items[i].Fail("%w", err)
		}
		for _, match := range matches {
			l.included(items[i], match)
		}
	}
}

// included reads a file that v includes.
func (l *loader) included(v codec.Value, path string) {
	doc, mistake := l.reader.Open(path)
	if mistake != nil {
		v.Add(mistake)
		return
	}
	file := l.fileValue(doc)
	for _, name := range file.Keys() {
		entry := file.Entry(name)
		switch name {
		case "program", "socket", receiver.Table:
			l.collect(entry)
		case "include":
			entry.FailKey("an included file can't include others: list them in %s", v.Name)
		case "superd", "control", "compat", "web", "defaults":
			entry.FailKey("an included file may hold [program.NAME], [socket.NAME] and [notify.NAME] tables only: move this to %s",
				v.Name)
		default:
			entry.FailKey("unknown key %s: an included file may hold [program.NAME], [socket.NAME] and [notify.NAME] tables only",
				document.Quote(name))
		}
	}
}

// readPrograms reads the programs' tables and checks all programs together.
func (l *loader) readPrograms() {
	for _, table := range l.tables["program"] {
		l.program(table)
	}
	for _, d := range l.builders {
		d.complete()
	}
	for _, name := range slices.Sorted(maps.Keys(l.builders)) {
		d := l.builders[name]
		d.check()
		if checkName("program", name) == nil {
			l.programs = append(l.programs, d)
		}
	}
	l.joinSockets()
	l.addLoggers()
	l.checkGroups()
	l.checkDependencies()
	l.checkLogs()
	l.checkPIDFiles()
	l.checkMaxTotal()
	l.checkWeb()
	l.checkDirectories()
	l.checkVariables()
	l.checkMachine()
}

// program reads one program's table.
func (l *loader) program(table codec.Value) {
	name := table.Key[len(table.Key)-1]
	if first := l.builders[name]; first != nil && table.Name == l.overriding && first.File != table.Name {
		table.Owner = &first.Invalid
		first.override(table)
		return
	}
	d := l.defaults.child(table)
	if first := l.builders[name]; first != nil {
		table.Owner = &first.Invalid
		table.FailKey("is already defined at %s: rename one of them",
			first.self.KeyMistake("").Position())
	} else {
		l.builders[name] = d
		table.Owner = &d.Invalid
	}
	d.self = table
	d.Name, d.File = name, table.Name
	d.Line = table.Line()
	if err := checkName("program", name); err != nil {
		table.FailKey("%w", err)
	}
	d.decode(table, "program", "")
}
