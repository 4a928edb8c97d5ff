package supervisord

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"superd/importer/draft"
)

// A reader holds the files that make a configuration of supervisord.
type reader struct {
	*parser
	system   draft.System
	path     string
	here     string // absolute directory of the main file
	reported []draft.Note

	// What %(ENV_X)s means: the environment of supervisord, then what [supervisord] sets.
	environ map[string]string
}

// load reads the main file and what it includes.
func load(system draft.System, path string) (*reader, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &reader{parser: newParser(), system: system, path: path, here: filepath.Dir(abs),
		environ: map[string]string{}}
	if err := r.read(path, string(text)); err != nil {
		return nil, err
	}
	if r.find("include") == nil {
		return r, nil
	}
	r.expandHere(r.here)
	files := r.get("include", "files")
	if files == nil {
		return nil, &parseError{path, r.find("include").line, "[include] has no files"}
	}
	files = new(*files) // of the main file: an included one may have such a section, too
	names := r.names(nil)
	expanded, err := format(files.value, names)
	if err != nil {
		return nil, &parseError{files.file, files.line, "files: " + err.Error()}
	}
	for pattern := range strings.FieldsFuncSeq(expanded, isSpace) {
		matches, err := r.glob(pattern)
		if err != nil {
			return nil, &parseError{files.file, files.line, fmt.Sprintf("files: %q: %v", pattern, err)}
		}
		if len(matches) == 0 {
			r.report(draft.Place{File: files.file, Line: files.line}, "include.files",
				"no file matches %q", pattern)
		}
		for _, file := range matches {
			text, err := system.ReadFile(file)
			if err != nil {
				r.report(draft.Place{File: files.file, Line: files.line}, "include.files",
					"supervisord skips a file that it can't read: %v", err)
				continue
			}
			if err := r.read(file, string(text)); err != nil {
				return nil, err
			}
			r.expandHere(filepath.Dir(file))
		}
	}
	return r, nil
}

func (r *reader) report(at draft.Place, key, format string, args ...any) {
	r.reported = append(r.reported, draft.Note{Place: at, Key: key, Text: fmt.Sprintf(format, args...)})
}

// glob is glob.glob of Python: wildcards match no leading dot, and [!x] is what Go writes [^x].
func (r *reader) glob(pattern string) ([]string, error) {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.here, pattern)
	}
	goPattern := strings.ReplaceAll(strings.ReplaceAll(pattern, `\`, `\\`), "[!", "[^")
	if open := strings.LastIndexByte(goPattern, '['); open >= 0 && !strings.Contains(goPattern[open:], "]") {
		goPattern = goPattern[:open] + `\` + goPattern[open:] // for Python a literal bracket
	}
	found, err := r.system.Glob(goPattern)
	if errors.Is(err, filepath.ErrBadPattern) {
		return nil, nil // Python has no such patterns
	}
	found = slices.DeleteFunc(found, func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), ".") && !strings.HasPrefix(filepath.Base(pattern), ".")
	})
	slices.Sort(found)
	return found, err
}

// names returns what names in %(name)s stand for outside of processes, with more ones before them.
func (r *reader) names(more map[string]value) func(string) (value, bool) {
	return func(name string) (value, bool) {
		if v, ok := more[name]; ok {
			return v, true
		}
		if name == "here" {
			return text(r.here), true
		}
		if name == "host_node_name" {
			return text(r.system.Hostname()), true
		}
		if variable, ok := strings.CutPrefix(name, "ENV_"); ok {
			if v, ok := r.environ[variable]; ok {
				return text(v), true
			}
			if v, ok := r.system.Getenv(variable); ok {
				return text(v), true
			}
		}
		return value{}, false
	}
}

// A process is a process as supervisord would run it.
type process struct {
	Group, Name, Kind                string
	Command                          string
	Directory                        string
	Umask                            int // -1: none
	Priority, GroupPriority          int
	Autostart                        bool
	Autorestart                      string
	Startsecs, Startretries          int
	User                             string
	StdoutLogfile, StderrLogfile     string
	StdoutBackups, StderrBackups     int
	StdoutMaxbytes, StderrMaxbytes   int
	StdoutSyslog, StderrSyslog       bool
	Stopsignal, Stopwaitsecs         int
	Stopasgroup, Killasgroup         bool
	Exitcodes                        []int
	RedirectStderr                   bool
	Environment                      map[string]string
	Socket                           string // of an fcgi-program
	envNames                         []string
	number, count                    int
	section                          *section
	captureBytes, captureStderrBytes int
}

// errMissing is the error of a key that is needed.
func errMissing(section, key string) error { return fmt.Errorf("[%s] has no %s", section, key) }

// globals checks the section [supervisord], and reads its environment.
func (r *reader) globals() error {
	if r.find("supervisord") == nil {
		return errors.New("there is no section [supervisord]")
	}
	get := func(name, otherwise string) (string, error) {
		o := r.get("supervisord", name)
		if o == nil {
			return format(otherwise, r.names(nil))
		}
		return format(o.value, r.names(nil))
	}
	check := func(name, otherwise string, valid func(string) error) error {
		s, err := get(name, otherwise)
		if err == nil {
			err = valid(s)
		}
		if err != nil {
			return fmt.Errorf("supervisord.%s: %w", name, err)
		}
		return nil
	}
	isInteger := func(s string) error { _, err := integer(s); return err }
	isBoolean := func(s string) error { _, err := boolean(s); return err }
	isAny := func(string) error { return nil }
	var errs []error
	for _, c := range []struct {
		name, otherwise string
		valid           func(string) error
	}{
		{"minfds", "1024", isInteger},
		{"minprocs", "200", isInteger},
		{"directory", "", isAny},
		{"user", "", isAny},
		{"umask", "022", func(s string) error { _, err := octal(s); return err }},
		{"logfile", "supervisord.log", isAny},
		{"logfile_maxbytes", "50MB", func(s string) error { _, err := byteSize(s); return err }},
		{"logfile_backups", "10", isInteger},
		{"loglevel", "info", func(s string) error {
			if !slices.Contains(logLevels, strings.ToLower(s)) {
				return fmt.Errorf("%q is no level", s)
			}
			return nil
		}},
		{"pidfile", "supervisord.pid", isAny},
		{"identifier", "supervisor", isAny},
		{"nodaemon", "false", isBoolean},
		{"silent", "false", isBoolean},
		{"childlogdir", "/tmp", isAny},
		{"nocleanup", "false", isBoolean},
		{"strip_ansi", "false", isBoolean},
	} {
		errs = append(errs, check(c.name, c.otherwise, c.valid))
	}
	env, err := get("environment", "")
	if err == nil { // supervisord expands it twice
		env, err = format(env, r.names(nil))
	}
	if err == nil {
		var values map[string]string
		if _, values, err = environment(env); err == nil {
			maps.Copy(r.environ, values)
		}
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("supervisord.environment: %w", err))
	}
	return errors.Join(errs...)
}

var logLevels = []string{"blat", "trac", "debg", "info", "warn", "erro", "crit",
	"blather", "trace", "debug", "warning", "error", "critical", "warnings", "errors"}

// Kinds of sections with processes.
const (
	kindProgram  = "program"
	kindFastCGI  = "fcgi-program"
	kindListener = "eventlistener"
)

// A group is a group of processes, in the order in which supervisord starts groups.
type group struct {
	name      string
	priority  int
	declared  *section // [group:x], nil if the group is that of one section
	processes []*process
}

// groups returns the groups with their processes, sorted as supervisord starts them. The error has
// every mistake for which supervisord refuses the file.
func (r *reader) groups() ([]group, error) {
	var all []group
	var errs []error
	used := map[*section]bool{}
	add := func(name string, declared *section, sections []*section, otherwise string) {
		of := declared
		if of == nil {
			of = sections[0]
		}
		priority, err := r.priority(of, otherwise)
		errs = append(errs, err)
		g := group{name: name, priority: priority, declared: declared}
		for _, s := range sections {
			processes, err := r.processesOf(s, name, priority)
			errs = append(errs, err)
			g.processes = append(g.processes, processes...)
		}
		all = append(all, g)
	}
	for _, s := range r.sections {
		name, ok := strings.CutPrefix(s.name, "group:")
		if !ok {
			continue
		}
		name, err := processName(name)
		errs = append(errs, err)
		members, err := r.members(s)
		errs = append(errs, err)
		for _, m := range members {
			used[m] = true
		}
		add(name, s, members, "999")
	}
	for _, kind := range []string{kindProgram, kindListener, kindFastCGI} {
		for _, s := range r.sections {
			name, ok := strings.CutPrefix(s.name, kind+":")
			if !ok || used[s] {
				continue
			}
			otherwise := "999"
			if kind == kindListener {
				otherwise = "-1"
				errs = append(errs, r.checkListener(s))
			} else if name, ok = checked(name, &errs); !ok {
				continue
			}
			add(name, nil, []*section{s}, otherwise)
		}
	}
	errs = append(errs, r.checkServers())
	slices.SortStableFunc(all, func(a, b group) int {
		if a.priority != b.priority {
			return a.priority - b.priority
		}
		return strings.Compare(a.name, b.name)
	})
	return all, errors.Join(errs...)
}

func checked(name string, errs *[]error) (string, bool) {
	name, err := processName(name)
	if err != nil {
		*errs = append(*errs, err)
	}
	return name, err == nil
}

func (r *reader) priority(s *section, otherwise string) (int, error) {
	o := r.get(s.name, "priority")
	v := otherwise
	if o != nil {
		v = o.value
	}
	v, err := format(v, r.sectionNames(s))
	if err != nil {
		return 0, fmt.Errorf("%s.priority: %w", s.name, err)
	}
	n, err := integer(v)
	if err != nil {
		return 0, fmt.Errorf("%s.priority: %w", s.name, err)
	}
	return n, nil
}

// sectionNames are the names that a key has that concerns the group: without those of the process,
// and without host_node_name.
func (r *reader) sectionNames(*section) func(string) (value, bool) {
	all := r.names(nil)
	return func(name string) (value, bool) {
		if name == "host_node_name" {
			return value{}, false
		}
		return all(name)
	}
}

// members returns the sections that [group:x] names.
func (r *reader) members(s *section) (members []*section, err error) {
	o := r.get(s.name, "programs")
	if o == nil {
		return nil, nil
	}
	names, err := format(o.value, r.sectionNames(s))
	if err != nil {
		return nil, fmt.Errorf("%s.programs: %w", s.name, err)
	}
	for _, name := range list(names) {
		program, fastCGI := r.find(kindProgram+":"+name), r.find(kindFastCGI+":"+name)
		switch {
		case program != nil && fastCGI != nil:
			return nil, fmt.Errorf("%s.programs: %q is both a program and an fcgi-program", s.name, name)
		case program != nil:
			members = append(members, program)
		case fastCGI != nil:
			members = append(members, fastCGI)
		default:
			return nil, fmt.Errorf("%s.programs: there is no program %q", s.name, name)
		}
	}
	return members, nil
}
