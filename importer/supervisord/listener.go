package supervisord

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/importer/draft"
)

// An [eventlistener:x] becomes a program whose command is superd eventlistener, with the command of
// the listener behind it, also for a pool of several processes. Programs are not ordered after it:
// it reads what it has missed, and while it fails they would wait.

const defaultBuffer = 10

// listenerKeys are the keys of [eventlistener:x].
var listenerKeys = append([]string{"events", "buffer_size", "result_handler"}, programKeys...)

// listener imports a section of a listener. processes are all of its pool.
func (c *converter) listener(s *section, processes []*process) {
	c.program(s, processes[:1], "")
	if first := processes[0]; len(processes) > 1 {
		c.note(s, c.get(s.name, "numprocs"), "the processes %s:%s to %s are below the one process of a program: "+
			"one that ends is started again there, whatever its status", first.Group, first.Name, processes[len(processes)-1].Name)
		for _, o := range s.options {
			if o.name != "process_name" && strings.Contains(o.value, "%("+processNum+")") {
				c.note(s, o, "all processes have the number of the first one, which is %d", first.number)
			}
		}
	}
	c.listeners = append(c.listeners, s)
}

// ownKey sets what a key of a listener stands for, if it is not one that programs have, too. It
// reports whether it did.
func (b *builder) ownKey(o *option) (primary string, own bool) {
	s, p := b.section, b.process
	if p.Kind != kindListener {
		return "", false
	}
	switch o.name {
	case "events", "buffer_size":
	case "result_handler":
		if strings.TrimSpace(o.value) != "supervisor.dispatchers:default_handler" {
			b.note(s, o, "superd runs no code of Python in its place: the result OK accepts an event, any other "+
				"one rejects it")
		}
	case "stdout_logfile":
		if to := targetOf(p.StdoutLogfile); to == toFile {
			b.note(s, o, "it had what the listener answers; superd logs what it writes to standard error")
		}
	case "stdout_logfile_maxbytes", "stdout_logfile_backups", "stdout_syslog", "redirect_stderr",
		"stdout_capture_maxbytes", "stderr_capture_maxbytes", "stdout_events_enabled", "stderr_events_enabled":
	case "stderr_logfile", "stderr_logfile_maxbytes", "stderr_logfile_backups", "stderr_syslog":
		return b.listenerLog(), true
	case "serverurl": // see listenerURLs
	case "user":
		b.user(o)
		b.note(s, o, "the listener may ask superd only if [control] has the user: in viewers, or in operators "+
			"if it also starts and stops programs")
		return "user", true
	case "process_name", "numprocs", "numprocs_start":
	default:
		return "", false
	}
	return "", true
}

// listenerLog sets the log of a listener, which has only its standard error.
func (b *builder) listenerLog() string {
	if b.logged {
		return ""
	}
	b.logged, b.merged = true, true
	p, t := b.process, b.table
	switch to := targetOf(p.StderrLogfile); {
	case p.StderrSyslog:
		t.Set("log.sink", "syslog")
	case to == toStdout || to == toStderr:
		t.Set("log.sink", "stdout")
		t.Set("log.format", "raw")
	default:
		b.file("log.file", "stderr_logfile", to, p.StderrLogfile)
		b.sizes(to, p.StderrMaxbytes, p.StderrBackups)
	}
	t.Set("log.stderr", "merge")
	return "log.stderr"
}

// listenerCommand returns the command of a listener behind that of superd.
func (b *builder) listenerCommand(args []string) []string {
	s := b.section
	events := list(strings.ToUpper(b.concrete(s, "events", "")))
	command := []string{"superd", "eventlistener", "--events", strings.Join(events, ",")}
	if n, err := integer(b.concrete(s, "buffer_size", "")); err == nil && n != defaultBuffer {
		command = append(command, "--buffer", fmt.Sprint(n))
	}
	if b.process.count > 1 {
		command = append(command, "--processes", fmt.Sprint(b.process.count))
	}
	_, name, _ := strings.Cut(s.name, ":")
	if name = pyStrip(name); draft.Name(name) != name {
		command = append(command, "--name", draft.Argument(name))
	}
	if of := b.programsWith("PROCESS_LOG", events, "stdout_events_enabled", "stderr_events_enabled"); of != "" {
		command = append(command, "--output-of", of)
	}
	if of := b.programsWith("PROCESS_COMMUNICATION", events, "stdout_capture_maxbytes", "stderr_capture_maxbytes"); of != "" {
		command = append(command, "--messages-of", of)
	}
	return append(append(command, "--"), args...)
}

// programsWith returns the programs that have one of these keys set, "" if no event begins with
// prefix.
func (c *converter) programsWith(prefix string, events []string, keys ...string) string {
	if !slices.ContainsFunc(events, func(e string) bool { return e == "EVENT" || strings.HasPrefix(e, prefix) }) {
		return ""
	}
	var programs []string
	for _, s := range c.sections {
		kind, name, _ := strings.Cut(s.name, ":")
		isSet := func(key string) bool {
			o := c.get(s.name, key)
			if o == nil {
				return false
			}
			if strings.HasSuffix(key, "_maxbytes") {
				n, err := byteSize(o.value)
				return err == nil && n > 0
			}
			on, err := boolean(o.value)
			return err == nil && on
		}
		if (kind == kindProgram || kind == kindFastCGI) && slices.ContainsFunc(keys, isSet) {
			programs = append(programs, draft.Name(pyStrip(name)))
		}
	}
	return strings.Join(programs, ",")
}

// listenerURLs tells listeners where they can ask superd as supervisord.
func (c *converter) listenerURLs() {
	own, _ := c.doc.Compat.Get(compatSocket).(string)
	for _, s := range c.listeners {
		url := ""
		if filepath.IsAbs(own) {
			url = "unix://" + own
		}
		if o := c.get(s.name, "serverurl"); o != nil && !strings.EqualFold(pyStrip(o.value), "auto") {
			url = c.concrete(s, "serverurl", "")
			if url != "unix://"+own {
				c.note(s, o, "superd answers on compat.%s only, as unix:// and its path", compatSocket)
			}
		}
		for _, t := range c.programs[s] {
			if vars, _ := t.Get("environment").(draft.Vars); url != "" {
				if _, set := vars.Get("SUPERVISOR_SERVER_URL"); !set {
					t.Env("SUPERVISOR_SERVER_URL", draft.Literal(url))
				}
			}
		}
		if url == "" {
			c.doc.Note(draft.Place{File: s.file, Line: s.line}, s.name, "a listener that asks supervisord by XML-RPC "+
				"needs compat.%s, and SUPERVISOR_SERVER_URL in its environment: unix:// and that path", compatSocket)
		}
	}
}
