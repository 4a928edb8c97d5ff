package supervisord

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"superd/importer/draft"
)

// Import reads a configuration file of supervisord with the files that it includes. The error is
// one for which there is nothing to import. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	getenv := system.Getenv
	missing := map[string]bool{}
	// supervisord may get other variables than the import. What can be written as a variable of
	// superd needs no value now; the rest is noted.
	system.Getenv = func(name string) (string, bool) {
		v, ok := getenv(name)
		missing[name] = !ok
		return v, true
	}
	r, err := load(system, path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of supervisord: %w", err)
	}
	c := &converter{reader: r, doc: draft.New(dir), missing: missing, logs: map[string]string{},
		done: map[*section]bool{}, programs: map[*section][]*draft.Table{}}
	c.doc.Notes = r.reported
	c.refusals(r.globals())
	groups, err := r.groups()
	c.refusals(err)
	if len(r.sections) > 0 && !strings.Contains(r.sections[0].name, kindProgram+":") {
		c.doc.Head, r.sections[0].comments = r.sections[0].comments, nil
	}
	c.globals()
	for _, s := range r.sections { // in the order of the source
		c.section(s, groups)
	}
	c.listenerURLs()
	c.defaults()
	c.order(groups)
	c.traps()
	c.doc.Groups(func(group, instead string) {
		c.doc.Note(draft.Place{File: path}, "group:"+group,
			"a group of superd can't have the name of a program: the group is %q", instead)
	})
	c.doc.Tail = append(c.pending, r.tail...)
	return c.doc, nil
}

// A converter makes programs of superd from the sections of supervisord.
type converter struct {
	*reader
	doc     *draft.Document
	missing map[string]bool   // variables of ENV_X that are not set here
	logs    map[string]string // the program that has a log file

	done     map[*section]bool
	programs map[*section][]*draft.Table // made from a section
	pending  []string                    // comments of sections that are not imported

	listeners []*section // that are imported

	saidUser, saidDirectory bool
	merged, separated       bool // some program has one log, or two
	sized                   bool // some program has the default size of a log
}

// refusals notes the mistakes for which supervisord refuses the file.
func (c *converter) refusals(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at, key := c.placeOf(line)
		c.doc.Note(at, key, "supervisord refuses the file: %s", line)
	}
}

// placeOf finds the key or the section that a mistake names.
func (c *converter) placeOf(text string) (draft.Place, string) {
	for _, s := range c.sections {
		for _, o := range s.options {
			if strings.HasPrefix(text, s.name+"."+o.name+":") || strings.HasPrefix(text, "["+s.name+"]: "+o.name+":") {
				return place(o), s.name + "." + o.name
			}
		}
		if strings.HasPrefix(text, "["+s.name+"]") {
			return draft.Place{File: s.file, Line: s.line}, s.name
		}
	}
	return draft.Place{File: c.path}, ""
}

func place(o *option) draft.Place { return draft.Place{File: o.file, Line: o.line} }

func (c *converter) note(s *section, o *option, format string, args ...any) {
	c.doc.Note(place(o), s.name+"."+o.name, format, args...)
}

// section imports one section.
func (c *converter) section(s *section, groups []group) {
	kind, _, hasName := strings.Cut(s.name, ":")
	at := draft.Place{File: s.file, Line: s.line}
	switch {
	case s.name == "supervisord" || s.name == "include":
		if s.name == "include" {
			c.pending = append(c.pending, s.comments...)
			for _, o := range s.options {
				if o.name != "files" {
					c.note(s, o, "%s", draft.Unknown("supervisord", o.name, []string{"files"}))
				}
			}
		}
	case hasName && (kind == kindProgram || kind == kindFastCGI || kind == kindListener):
		var processes []*process
		grouped := ""
		for _, g := range groups {
			for _, p := range g.processes {
				if p.section != s || len(processes) > 0 && p.Group != processes[0].Group {
					continue
				}
				if slices.ContainsFunc(processes, func(q *process) bool { return q.number == p.number }) {
					continue // a group names it twice: supervisord has one of a name
				}
				processes = append(processes, p)
				if g.declared != nil {
					grouped = g.name
				}
			}
		}
		slices.SortFunc(processes, func(a, b *process) int { return a.number - b.number })
		if len(processes) > 0 && kind == kindListener {
			c.listener(s, processes)
		} else if len(processes) > 0 {
			c.program(s, processes, grouped)
		} else if n := c.get(s.name, "numprocs"); n != nil && pyStrip(n.value) == "0" {
			c.note(s, n, "the program has no process, and is left out")
		}
	case kind == "group" && hasName:
		c.pending = append(c.pending, s.comments...)
		for _, o := range s.options {
			if o.name != "programs" && o.name != "priority" {
				c.note(s, o, "%s", draft.Unknown("supervisord", o.name, []string{"programs", "priority"}))
			}
		}
	case strings.HasPrefix(s.name, "unix_http_server"):
		c.unixServer(s)
	case strings.HasPrefix(s.name, "inet_http_server"):
		c.doc.Note(at, s.name, "superd listens on no port: `superd ctl --host` works by ssh")
	case s.name == "supervisorctl" || kind == "ctlplugin":
		c.doc.Note(at, s.name, "it is for supervisorctl, in whose place there is `superd ctl`")
	case kind == "rpcinterface":
		c.doc.Note(at, s.name, "superd answers XML-RPC on compat.supervisor_socket, "+
			"and no other interface there; its own is JSON on the control socket")
	default:
		c.doc.Note(at, s.name, "%s", draft.Unknown("supervisord", s.name, []string{
			"supervisord", "include", "unix_http_server", "inet_http_server", "supervisorctl"})+
			", and all that is in it")
	}
	if !c.done[s] {
		c.pending = append(c.pending, s.comments...)
	}
}

// unixServer imports the socket of supervisord, where its clients find superd then.
func (c *converter) unixServer(s *section) {
	at := draft.Place{File: s.file, Line: s.line}
	o := c.get(s.name, "file")
	if o == nil || c.doc.Compat.Has(compatSocket) {
		return
	}
	path := c.doc.Path(c.home(c.concrete(s, "file", "")))
	c.done[s] = true
	c.doc.Compat.Comment(slices.Concat(s.comments, o.comments)...)
	if dir := filepath.Dir(path); dir == "/tmp" || dir == "/var/tmp" {
		c.doc.Compat.Comment("[compat]", fmt.Sprintf("%s = %q", compatSocket, path))
		c.doc.Note(at, s.name, "clients of supervisord can find superd at compat.%s, but not in %s, where "+
			"anyone could put a socket: choose another directory", compatSocket, dir)
		return
	}
	c.doc.Compat.Set(compatSocket, path)
	if len(o.cut) == 1 {
		c.doc.Compat.Trailing(compatSocket, o.cut[0].comment)
	}
	c.doc.Note(at, s.name, "clients of supervisord find superd there; `superd ctl` has a control socket of its own, "+
		"and control.operators says who else may use both")
}

const compatSocket = "supervisor_socket"

// globals imports [supervisord].
func (c *converter) globals() {
	s := c.find("supervisord")
	if s == nil {
		return
	}
	c.done[s] = true
	c.doc.Superd.Comment(s.comments...)
	nodaemon, _ := boolean(c.concrete(s, "nodaemon", "false"))
	for _, o := range s.options {
		v := c.concrete(s, o.name, "")
		set := func(t *draft.Table, key string, value any) {
			t.Comment(o.comments...)
			t.Set(key, value)
			if len(o.cut) == 1 {
				t.Trailing(key, o.cut[0].comment)
			}
		}
		switch o.name {
		case "childlogdir":
			set(c.doc.Superd, "log_dir", c.doc.Path(c.home(v)))
		case "umask":
			if n, err := octal(v); err == nil {
				set(c.doc.Defaults, "umask", fmt.Sprintf("%03o", n))
			}
			if nodaemon {
				c.note(s, o, "supervisord ignores it with nodaemon=true; it holds for the programs now")
			}
		case "directory":
			if nodaemon {
				c.note(s, o, "supervisord ignores it with nodaemon=true: programs ran where it was "+
					"started; now those without a directory of their own run here")
			}
			set(c.doc.Defaults, "directory", draft.Literal(c.doc.Path(c.home(v))))
		case "user":
			set(c.doc.Defaults, "user", v)
			c.note(s, o, "programs run as this user; superd itself runs as who starts it, "+
				"and only a superd of root can change users")
		case "environment":
			c.environment(s, o, c.doc.Defaults, c.symbols(nil))
		case "minfds":
			if n, err := integer(v); err == nil && n > 1024 {
				set(c.doc.Defaults, "limits.nofile", n)
				c.note(s, o, "it is the limit of each program now: superd raises its own as it needs")
			}
		case "nodaemon":
			if !nodaemon {
				c.note(s, o, "superd stays in the foreground: have a service manager start it, or setsid")
			}
		case "logfile", "logfile_maxbytes", "logfile_backups", "pidfile", "loglevel", "minprocs",
			"identifier", "silent", "nocleanup", "strip_ansi":
			c.note(s, o, "%s", ownKeys[o.name])
		default:
			c.note(s, o, "%s", draft.Unknown("supervisord", o.name, globalKeys))
		}
	}
}

// ownKeys has what becomes of keys that concern supervisord itself.
var ownKeys = map[string]string{
	"logfile":          "superd writes its own messages to standard error: redirect it where superd is started",
	"logfile_maxbytes": "superd writes its own messages to standard error, and rotates no file of its own",
	"logfile_backups":  "superd writes its own messages to standard error, and rotates no file of its own",
	"pidfile":          "superd writes no pid file: its runtime directory says whether it runs",
	"loglevel":         "it is an option: `superd run --log-level LEVEL`",
	"minprocs":         "superd reserves the processes that it needs itself",
	"identifier":       "superd is known by its runtime directory",
	"silent":           "superd writes its own messages to standard error only",
	"nocleanup":        "superd removes no log at its start",
	"strip_ansi":       "superd keeps the bytes as they are; `superd ctl logs` removes colours when it shows them",
}

var globalKeys = []string{"logfile", "logfile_maxbytes", "logfile_backups", "loglevel", "pidfile",
	"umask", "nodaemon", "silent", "minfds", "minprocs", "nocleanup", "childlogdir", "user",
	"directory", "strip_ansi", "environment", "identifier"}

// concrete returns the value of a key with everything expanded.
func (c *converter) concrete(s *section, name, otherwise string) string {
	o := c.get(s.name, name)
	if o == nil {
		return otherwise
	}
	v, err := format(o.value, c.names(nil))
	if err != nil {
		return o.value
	}
	c.usedNow(s, o)
	return v
}

var variable = regexp.MustCompile(`%\(ENV_([^)]*)\)`)

// usedNow notes that a variable of a key has got its value at the import.
func (c *converter) usedNow(s *section, o *option) {
	for _, found := range variable.FindAllStringSubmatch(o.value, -1) {
		name := found[1]
		if _, own := c.environ[name]; own {
			continue
		}
		if c.missing[name] {
			c.note(s, o, "%s is not set here, and superd has no variables in this key: "+
				"set it for the import, or write the value into the result", name)
		} else {
			c.note(s, o, "superd has no variables in this key: it got the value that %s has now", name)
		}
	}
	if strings.Contains(o.value, "%(host_node_name)") {
		c.note(s, o, "it got the name of this host")
	}
}

// home is os.path.expanduser for the user that imports.
func (c *converter) home(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if home, known := c.system.Getenv("HOME"); ok && known && (rest == "" || rest[0] == '/') {
		return home + rest
	}
	return path
}

// symbols returns names whose variables are references.
func (c *converter) symbols(more map[string]value) func(string) (value, bool) {
	all := c.names(nil)
	return func(name string) (value, bool) {
		if v, ok := more[name]; ok {
			return v, true
		}
		if variable, ok := strings.CutPrefix(name, "ENV_"); ok && draft.IsName(variable) {
			return symbol(variable), true
		}
		return all(name)
	}
}

// outer returns names whose variables have the values of [supervisord] environment. superd would
// take those that the program sets.
func (c *converter) outer(names func(string) (value, bool)) func(string) (value, bool) {
	return func(name string) (value, bool) {
		if variable, ok := strings.CutPrefix(name, "ENV_"); ok {
			if v, known := c.environ[variable]; known {
				return text(v), true
			}
		}
		return names(name)
	}
}

// defaults sets what supervisord does unless a program says otherwise.
func (c *converter) defaults() {
	d := c.doc.Defaults
	if len(c.doc.Programs) == 0 {
		return
	}
	d.Set("restart", "on-failure")
	d.Set("backoff.reset_after", draft.Seconds(defaultStart))
	if c.separated {
		d.Set("log.stderr", "separate")
	}
	if c.sized {
		d.Set("log.max_size", draft.Size(50<<20))
	}
	d.Comments = append([]string{
		"What supervisord does unless a program says otherwise. Two things differ: superd goes on trying",
		"to start a program, at most a minute apart, where supervisord gives up (start_limit); and it ends",
		"processes that outlive their program, which supervisord leaves alone (kill_mode).",
	}, d.Comments...)
	if !d.Has("directory") && strings.HasPrefix(c.here+"/", "/etc/") {
		d.Set("directory", "/")
	}
}

// order keeps the order of starts by priority.
func (c *converter) order(groups []group) {
	type tier struct {
		outer, inner int
		group        string
	}
	at := map[tier][]*draft.Table{}
	var tiers []tier
	for _, g := range groups {
		for _, p := range g.processes {
			tables := c.programs[p.section]
			if len(tables) == 0 || p.Kind == kindListener {
				continue
			}
			t := tier{outer: g.priority}
			if g.declared != nil {
				t.inner, t.group = p.Priority, g.name
			}
			if _, known := at[t]; !known {
				tiers = append(tiers, t)
			}
			for _, table := range tables {
				if !slices.Contains(at[t], table) {
					at[t] = append(at[t], table)
				}
			}
		}
	}
	placed := map[*draft.Table]bool{}
	for _, t := range tiers {
		// The nearest earlier tier: in the group, else all of the next lower priority.
		var before []*draft.Table
		best := tier{}
		found := false
		for _, other := range tiers {
			inGroup := other.outer == t.outer && other.group == t.group && other.inner < t.inner
			if inGroup && (!found || best.outer < other.outer || best.inner < other.inner) {
				best, found = other, true
				before = at[other]
			}
		}
		if !found {
			lower, any := 0, false
			for _, other := range tiers {
				if other.outer < t.outer && (!any || other.outer > lower) {
					lower, any = other.outer, true
				}
			}
			for _, other := range tiers {
				if any && other.outer == lower {
					before = append(before, at[other]...)
				}
			}
		}
		for _, table := range at[t] {
			for _, earlier := range before {
				if earlier != table && !placed[table] {
					table.Append("after", earlier.Name)
				}
			}
		}
		for _, table := range at[t] {
			placed[table] = true
		}
	}
	for _, s := range c.sections {
		o := s.find("priority")
		if o == nil || slices.Contains(c.listeners, s) || len(c.programs[s]) == 0 && !strings.HasPrefix(s.name, "group:") {
			continue
		}
		c.note(s, o, "`after` keeps the order, and like priority does not wait until a program can "+
			"be used: `requires`, and `ready` in the other program, do")
	}
}

// traps notes what the reader of supervisord makes of lines that mean something else to a person.
func (c *converter) traps() {
	for _, s := range c.sections {
		for _, o := range s.options {
			for _, cut := range o.cut {
				if opensQuote(cut.kept) && !opensQuote(cut.full) {
					c.note(s, o, "supervisord cuts the line at %q, also within quotes: the program "+
						"gets %q, which can't be run; the whole line is imported", string(cut.mark), tailOf(cut.kept))
				}
			}
		}
	}
	for _, again := range c.repeated {
		if again.at.name == "" {
			c.doc.Note(place(&again.at), again.section,
				"the section is also at line %d: supervisord joins the two, and a later key counts", again.firstLine)
			continue
		}
		c.doc.Note(place(&again.at), again.section+"."+again.at.name,
			"it is also at line %d: supervisord takes the last one", again.firstLine)
	}
	for _, o := range c.parser.defaults.options {
		c.note(c.parser.defaults, o, "supervisord adds the keys of [DEFAULT] to every section, and so does this import")
	}
}

func opensQuote(line string) bool {
	_, err := splitCommand(line)
	return err != nil
}

func tailOf(line string) string {
	_, value, ok := strings.Cut(line, "=")
	if !ok {
		return line
	}
	return pyStrip(value)
}
