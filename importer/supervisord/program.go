package supervisord

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/importer/draft"
)

const (
	defaultRetries = 3
	defaultStart   = 1   // startsecs
	defaultStop    = 10  // stopwaitsecs
	endless        = 100 // startretries from here on never end
	maxSeconds     = 1e6
)

// program imports a section with its processes, which all belong to one group.
func (c *converter) program(s *section, processes []*process, grouped string) {
	c.done[s] = true
	_, name, _ := strings.Cut(s.name, ":")
	name = pyStrip(name)
	first := processes[0]
	names := map[string]value{
		"program_name": text(name), "group_name": text(first.Group), "numprocs": number(first.count),
	}
	if len(processes) > 1 {
		names[processNum] = symbol(processNum)
	} else {
		names[processNum] = number(first.number)
	}
	t := &draft.Table{}
	b := &builder{converter: c, section: s, process: first, table: t, names: names,
		replicas: len(processes), start: first.number}
	saved, logs := len(c.doc.Notes), maps.Clone(c.logs)
	saidUser, saidDirectory := c.saidUser, c.saidDirectory
	err := b.build()
	if errors.Is(err, errConcrete) { // a program for each process
		c.doc.Notes, c.logs = c.doc.Notes[:saved], logs
		c.saidUser, c.saidDirectory = saidUser, saidDirectory
		for i, p := range processes {
			table := c.doc.Program(p.Name)
			names[processNum] = number(p.number)
			each := &builder{converter: c, section: s, process: p, table: table, names: names, replicas: 1}
			if i == 0 {
				each.comments(s)
			}
			kept := len(c.doc.Notes)
			_ = each.build() // nothing is symbolic that could fail
			if i > 0 {
				c.doc.Notes = c.doc.Notes[:kept] // as for the first one
			}
			table.Append("groups", draft.Name(name))
			b.group(table, grouped)
			c.programs[s] = append(c.programs[s], table)
		}
		if o := c.get(s.name, "numprocs"); o != nil {
			c.note(s, o, "superd has no notation for the number as it is used here: each process is a "+
				"program of its own, in the group %q", draft.Name(name))
		}
		return
	}
	table := c.doc.Program(name)
	t.Name = table.Name
	*table = *t
	b.table = table
	b.comments(s)
	if len(processes) > 1 {
		table.Set("replicas", len(processes))
		o := c.get(s.name, "numprocs")
		last := processes[len(processes)-1]
		c.note(s, o, "the processes %s:%s to %s are %s@1 to %s@%d", first.Group, first.Name, last.Name,
			table.Name, table.Name, len(processes))
	} else if o := c.get(s.name, "process_name"); o != nil && first.Name != table.Name && first.count == 1 {
		c.note(s, o, "the process %q is the program %q", first.Group+":"+first.Name, table.Name)
	} else if table.Name != name {
		c.doc.Note(draft.Place{File: s.file, Line: s.line}, s.name, "the program is %q", table.Name)
	}
	b.group(table, grouped)
	c.programs[s] = append(c.programs[s], table)
}

// A builder sets the keys of one program.
type builder struct {
	*converter
	section  *section
	process  *process
	table    *draft.Table
	names    map[string]value
	replicas int
	start    int // number of the first process, if there are several
	logged   bool
}

func (b *builder) comments(s *section) {
	b.table.Comments = slices.Concat(b.pending, s.comments, b.table.Comments)
	b.pending = nil
}

func (b *builder) group(t *draft.Table, grouped string) {
	if grouped != "" {
		t.Append("groups", draft.Name(grouped))
	}
}

// build sets the keys in the order of the source. The error is errConcrete if superd has no
// notation for the number of the process.
func (b *builder) build() error {
	s, p, t := b.section, b.process, b.table
	options := slices.Clone(s.options)
	for _, o := range b.parser.defaults.options {
		if s.find(o.name) == nil {
			options = append(options, o)
		}
	}
	for _, o := range options {
		t.Comment(o.comments...)
		primary, err := b.key(o)
		if err != nil {
			return err
		}
		if primary != "" && len(o.cut) == 1 && !opensQuote(o.cut[0].kept) {
			t.Trailing(primary, o.cut[0].comment)
		}
	}
	t.Flush()
	if p.Kind == kindListener {
		b.listenerLog()
	} else if !b.logged {
		b.log(nil)
	}
	if !t.Has("command") {
		return nil
	}
	if p.Kind == kindFastCGI {
		b.socket()
	}
	return nil
}

// programKeys are the keys of [program:x].
var programKeys = []string{"command", "process_name", "numprocs", "numprocs_start", "priority",
	"autostart", "startsecs", "startretries", "autorestart", "exitcodes", "stopsignal", "stopwaitsecs",
	"stopasgroup", "killasgroup", "user", "redirect_stderr", "stdout_logfile",
	"stdout_logfile_maxbytes", "stdout_logfile_backups", "stdout_capture_maxbytes",
	"stdout_events_enabled", "stdout_syslog", "stderr_logfile", "stderr_logfile_maxbytes",
	"stderr_logfile_backups", "stderr_capture_maxbytes", "stderr_events_enabled", "stderr_syslog",
	"environment", "directory", "umask", "serverurl"}

var sleeps = regexp.MustCompile(`(^|[\s'"])sleep\s+[\d.]+\w?\s*(&&|;)`)

// key sets what an option of the source stands for, and returns the key of superd, "" for none.
func (b *builder) key(o *option) (primary string, err error) {
	s, p, t := b.section, b.process, b.table
	set := func(key string, value any) (string, error) {
		t.Set(key, value)
		return key, nil
	}
	if primary, own := b.ownKey(o); own {
		return primary, nil
	}
	switch o.name {
	case "command":
		return "command", b.command(o)
	case "directory":
		dir, err := b.template(o.value)
		if err != nil {
			return "", err
		}
		return set("directory", b.doc.Path(dir))
	case "environment":
		return "", b.environment(s, o, t, b.outer(b.symbols(b.names)))
	case "autostart":
		if !p.Autostart {
			return set("autostart", false)
		}
	case "autorestart":
		switch p.Autorestart {
		case restartAlways:
			return set("restart", "always")
		case restartNever:
			return set("restart", "never")
		}
	case "exitcodes":
		if !slices.Equal(p.Exitcodes, []int{0}) {
			return set("success_exit_codes", p.Exitcodes)
		}
	case "startsecs", "startretries":
		return b.starts(o)
	case "stopsignal":
		if name := signalName(p.Stopsignal); name != "SIGTERM" && p.Stopsignal > 0 {
			return set("stop_signal", name)
		}
	case "stopwaitsecs":
		if p.Stopwaitsecs != defaultStop {
			return set("stop_timeout", draft.Seconds(float64(p.Stopwaitsecs)))
		}
	case "stopasgroup":
		if p.Stopasgroup {
			return set("kill_mode", "tree")
		}
	case "killasgroup", "numprocs_start", "numprocs", "process_name":
		// superd always kills the whole process tree; the others are in the names.
	case "user":
		b.user(o)
		return "user", nil
	case "umask":
		return set("umask", fmt.Sprintf("%03o", p.Umask))
	case "redirect_stderr", "stdout_logfile", "stderr_logfile", "stdout_logfile_maxbytes",
		"stderr_logfile_maxbytes", "stdout_logfile_backups", "stderr_logfile_backups",
		"stdout_syslog", "stderr_syslog":
		return b.log(o), nil
	case "stdout_capture_maxbytes", "stderr_capture_maxbytes":
		if p.captureBytes+p.captureStderrBytes > 0 {
			b.note(s, o, "what is between the marks stays in the log, and is not limited")
		}
	case "stdout_events_enabled", "stderr_events_enabled": // see listenerCommand
	case "serverurl":
		b.note(s, o, "superd sets no SUPERVISOR_SERVER_URL")
	case "priority": // see order
	case "socket", "socket_owner", "socket_mode", "socket_backlog":
		if p.Kind != kindFastCGI {
			b.note(s, o, "%s", draft.Unknown("supervisord", o.name, programKeys))
		}
	default:
		known := programKeys
		if p.Kind == kindListener {
			known = listenerKeys
		}
		b.note(s, o, "%s", draft.Unknown("supervisord", o.name, known))
	}
	return "", nil
}

// command sets the command of a program.
func (b *builder) command(o *option) error {
	args, err := b.arguments(o.value)
	if err != nil && !errors.Is(err, errConcrete) {
		if whole := uncut(o); whole != o.value {
			args, err = b.arguments(whole)
		}
	}
	switch {
	case errors.Is(err, errConcrete):
		return err
	case err != nil:
		b.note(b.section, o, "supervisord can't run it: %v", err)
		return nil
	case len(args) == 0:
		b.note(b.section, o, "supervisord can't run it: it is empty")
		return nil
	}
	if b.process.Kind == kindListener {
		args = b.listenerCommand(args)
	}
	b.table.Set("command", draft.Command(args))
	if sleeps.MatchString(o.value) {
		b.note(b.section, o, "`requires`, and `ready` in the program that it waits for, wait as long as needed, "+
			"in place of the sleep")
	}
	if v := b.process.Directory; v == "" && slices.ContainsFunc(args, isRelative) && !b.saidDirectory &&
		b.find("supervisord") != nil && b.get("supervisord", "directory") == nil {
		b.saidDirectory = true
		b.note(b.section, o, "without a directory it ran where supervisord was started, and now in the "+
			"directory of the configuration: set `directory` if that is another one")
	}
	return nil
}

// isRelative reports whether an argument is likely to be a path that depends on the directory.
func isRelative(arg string) bool {
	return !strings.HasPrefix(arg, "/") && !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "$") &&
		!strings.Contains(arg, "://") && !strings.ContainsAny(arg, " \n") &&
		(strings.Contains(arg, "/") || strings.HasSuffix(arg, ".py") || strings.HasSuffix(arg, ".js") ||
			strings.HasSuffix(arg, ".sh") || strings.HasSuffix(arg, ".rb"))
}

// uncut returns the value of an option with what inline comments have cut off.
func uncut(o *option) string {
	whole := o.value
	for _, cut := range o.cut {
		kept, full := cut.kept, cut.full
		if at := strings.IndexAny(full, "=:"); at >= 0 && strings.EqualFold(pyStrip(full[:at]), o.name) {
			kept, full = pyStrip(kept[min(at+1, len(kept)):]), pyStrip(full[at+1:])
		}
		whole = strings.Replace(whole, kept, full, 1)
	}
	return whole
}

// arguments splits a command, and returns its arguments as templates.
func (b *builder) arguments(raw string) ([]string, error) {
	expanded, err := format(raw, b.symbols(b.names))
	if err != nil {
		return nil, err
	}
	words, err := splitCommand(expanded)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, w := range words {
		if name, ok := wholeReference(w.text); ok && !w.quoted {
			args = append(args, "$"+name) // supervisord splits what the variable has
			continue
		}
		if !strings.ContainsRune(w.text, refBegin) {
			args = append(args, draft.Argument(w.text))
			continue
		}
		arg, err := b.references(w.text)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// wholeReference returns the variable if a word is a reference to it and nothing else.
func wholeReference(w string) (name string, ok bool) {
	inner, ok := strings.CutPrefix(w, string(refBegin))
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, string(refEnd))
	name, _, _ = strings.Cut(inner, ":")
	return name, ok && !strings.ContainsRune(inner, refBegin) && name != processNum
}

// template returns a value of the source as a template.
func (b *builder) template(raw string) (string, error) {
	expanded, err := format(raw, b.symbols(b.names))
	if err != nil {
		if errors.Is(err, errConcrete) {
			return "", err
		}
		return draft.Literal(raw), nil
	}
	return b.references(expanded)
}

var referenceText = regexp.MustCompile(string(refBegin) + `([^` + string(refEnd) + `]*):(\d+)` + string(refEnd))

// references writes expanded text as a template.
func (b *builder) references(expanded string) (string, error) {
	var out strings.Builder
	for expanded != "" {
		at := referenceText.FindStringSubmatchIndex(expanded)
		if at == nil {
			out.WriteString(draft.Literal(expanded))
			break
		}
		literal, name := expanded[:at[0]], expanded[at[2]:at[3]]
		width, _ := strconv.Atoi(expanded[at[4]:at[5]])
		expanded = expanded[at[1]:]
		if name != processNum {
			out.WriteString(draft.Literal(literal) + "${" + name + "}")
			continue
		}
		rest, base, ok := b.numbered(literal, width)
		if !ok {
			return "", errConcrete
		}
		out.WriteString(draft.Literal(rest) + fmt.Sprintf("${%d+SUPERD_REPLICA}", base))
	}
	return out.String(), nil
}

// numbered returns the sum that stands for the number of the process behind literal text. The
// digits at the end of the text count as its leading digits: 80%(process_num)02d is 8000 and more.
func (b *builder) numbered(literal string, width int) (rest string, base int, ok bool) {
	last := b.start + b.replicas - 1
	rest = strings.TrimRight(literal, "0123456789")
	lead := literal[len(rest):]
	switch {
	case lead == "" && width <= 1:
		base = b.start - 1
	case lead == "" || lead[0] == '0' || len(lead) > 8 || width > 4:
		return "", 0, false
	default:
		factor := 1
		for range max(width, 1) {
			factor *= 10
		}
		if b.start < 0 || last >= factor || width == 0 && last > 9 {
			return "", 0, false
		}
		prefix, err := strconv.Atoi(lead)
		if err != nil {
			return "", 0, false
		}
		base = prefix*factor + b.start - 1
	}
	return rest, base, base >= 0
}

// environment sets the variables of a key environment.
func (c *converter) environment(s *section, o *option, t *draft.Table, names func(string) (value, bool)) error {
	raw := o.value
	expanded, err := format(raw, names)
	if errors.Is(err, errConcrete) {
		return err
	}
	var order []string
	var values map[string]string
	if err == nil {
		order, values, err = environment(expanded)
	}
	if err != nil {
		return nil // supervisord refuses the file, which is noted
	}
	b := &builder{converter: c, section: s}
	for _, name := range order {
		for _, found := range referenceText.FindAllStringSubmatch(values[name], -1) {
			if _, set := values[found[1]]; set && found[1] != name {
				c.note(s, o, "supervisord takes %s from its own environment for %s, superd from this key", found[1], name)
			}
		}
		v, err := b.references(values[name])
		if err != nil {
			return err
		}
		t.Env(name, v)
	}
	if len(o.cut) == 1 {
		t.Trailing("environment", o.cut[0].comment)
	}
	return nil
}

// user sets the user of a program.
func (b *builder) user(o *option) {
	b.table.Set("user", b.process.User)
	b.usedNow(b.section, o)
	if !b.saidUser {
		b.saidUser = true
		b.note(b.section, o, "superd also sets HOME, USER, LOGNAME and SHELL to those of the user, unless "+
			"`environment` has them; supervisord leaves its own")
	}
}

// starts imports what supervisord calls the start of a program: it succeeds after startsecs.
func (b *builder) starts(o *option) (string, error) {
	p := b.process
	switch {
	case o.name == "startretries" && p.Startretries != defaultRetries && p.Startretries < endless:
		b.note(b.section, o, "superd goes on trying, with pauses of at most a minute. `start_limit` gives up, "+
			"but counts every failure, not only those within startsecs")
	case o.name == "startsecs" && p.Startsecs <= 0: // every start succeeds
		b.table.Set("backoff.reset_after", time.Millisecond)
		return "backoff", nil
	case o.name == "startsecs" && p.Startsecs > defaultStart && p.Startsecs < maxSeconds:
		b.table.Set("backoff.reset_after", draft.Seconds(float64(p.Startsecs)))
		b.note(b.section, o, "it resets the pauses between starts only: the program is running at once, "+
			"and `ready` says when it can be used")
		return "backoff", nil
	}
	return "", nil
}

// socket sets the socket of an fcgi-program.
func (b *builder) socket() {
	found, err := b.socketOf(b.section)
	if err != nil {
		return // noted: supervisord refuses the file
	}
	o := b.get(b.section.name, "socket")
	_, name, _ := strings.Cut(b.section.name, ":")
	t := b.doc.Socket(pyStrip(name))
	t.Comment(o.comments...)
	switch {
	case found.path != "":
		t.Set("listen", "unix:"+found.path)
		mode := "0700"
		if n, err := octal(found.mode); err == nil {
			mode = fmt.Sprintf("%04o", n)
		}
		t.Set("mode", mode)
		owner, group, _ := strings.Cut(found.owner, ":")
		if owner == "" {
			owner = b.process.User
		}
		if owner != "" {
			t.Set("user", owner)
		}
		if group != "" {
			t.Set("group", group)
		}
	default:
		host := found.host
		switch host {
		case "localhost":
			host = "127.0.0.1"
		case "*":
			host = "0.0.0.0"
		}
		t.Set("listen", fmt.Sprintf("%s:%d", host, found.port))
		if strings.Trim(host, "0123456789.") != "" {
			b.note(b.section, o, "superd listens on addresses, not names: write the address of %q", host)
		}
	}
	if found.backlog > 0 {
		t.Set("backlog", found.backlog)
	}
	b.table.Set("sockets", []string{t.Name})
	b.table.Set("socket_pass", "stdin")
}
