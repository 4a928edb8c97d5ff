package systemd

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"superd/importer/draft"
)

// execKey imports the keys about commands, and reports whether a is one.
func (s *service) execKey(a assignment) bool {
	t := s.table
	switch a.key {
	case "ExecStart":
		for _, c := range s.commands(a, false) {
			if len(s.starts) == 1 && s.kind != "oneshot" {
				s.note(a, "systemd refuses the unit: only Type=oneshot has several commands. It is the last one")
			}
			s.starts = append(s.starts, c)
			t.Set("command", draft.Command(c))
		}
	case "ExecStartPre":
		s.hooks(a, "pre_start")
	case "ExecStartPost":
		s.hooks(a, "post_start")
	case "ExecStopPost":
		s.hooks(a, "post_stop")
	case "ExecCondition":
		s.note(a, "superd has no command that prevents a start without failing it; `pre_start` fails it")
	case "ExecReload":
		s.reload = append(s.reload, s.commands(a, false)...)
		s.reloads()
	case "ExecStop":
		for _, c := range s.commands(a, false) {
			if signal := killOf(c); signal != "" {
				t.Set("stop_signal", signal)
				continue
			}
			s.stops = append(s.stops, c)
			t.Set("stop_command", inOrder(s.stops))
		}
	default:
		return false
	}
	return true
}

// commands returns the commands of a value as templates. Those whose failure does not matter are
// wrapped if wrap is true.
func (s *service) commands(a assignment, wrap bool) (all [][]string) {
	list, quoted, err := split(a.value)
	if err != nil {
		s.note(a, "systemd ignores it: %v", err)
		return nil
	}
	for start := 0; start < len(list); {
		end := start
		for end < len(list) && (list[end] != ";" || quoted[end]) {
			end++
		}
		if c := s.command(a, list[start:end], wrap); len(c) > 0 {
			all = append(all, c)
		}
		start = end + 1
	}
	return all
}

// command returns one command as templates.
func (s *service) command(a assignment, args []string, wrap bool) []string {
	if len(args) == 0 {
		return nil
	}
	path := strings.TrimLeft(args[0], "-@:+!|")
	prefix := args[0][:len(args[0])-len(path)]
	args = append([]string{path}, args[1:]...)
	literal := strings.Contains(prefix, ":")
	c := make([]string, len(args))
	for i, arg := range args {
		switch {
		case arg == `\;`:
			c[i] = ";"
		case literal:
			c[i] = draft.Argument(arg)
		default:
			c[i] = references(arg)
		}
	}
	if strings.Contains(prefix, "@") && len(c) > 1 {
		s.note(a, "superd passes the path as the name of the process, not %q", c[1])
		c = slices.Delete(c, 1, 2)
	}
	s.privilege(a, strings.ContainsAny(prefix, "+!"))
	if strings.Contains(prefix, "-") {
		if wrap {
			c = append([]string{"sh", "-c", `"$@" || true`, "sh"}, c...)
		} else if a.key == "ExecStart" {
			s.note(a, "superd counts a failure as one: success_exit_codes has what is none")
		}
	}
	return c
}

// privilege notes a command that has, or has not, the prefix by which it runs as root. superd has
// one user for all hooks: root if every one of them has the prefix, else that of the program.
func (s *service) privilege(a assignment, privileged bool) {
	if s.get("Service", "User") == "" || s.get("Service", "PermissionsStartOnly") != "" {
		return
	}
	if a.key == "ExecStart" {
		if privileged {
			s.note(a, "superd has one user for the program; only hooks can run as another one")
		}
		return
	}
	if privileged {
		s.privileged = append(s.privileged, a)
	} else {
		s.hooksOfUser = true
	}
}

// hooksUser sets the user of the hooks, now that all are known.
func (s *service) hooksUser() {
	switch {
	case len(s.privileged) == 0:
	case !s.hooksOfUser:
		s.table.Set("hooks_user", "root")
	default:
		for _, a := range s.privileged {
			s.note(a, "superd has one user for all hooks: it runs as the user of the program, since others do; "+
				"with hooks_user = \"root\" all of them run as root")
		}
	}
}

var reference = regexp.MustCompile(`\$(\$|\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*)`)

// references returns an argument with the references that systemd replaces. superd has the same,
// except that $NAME is replaced only if it is the whole argument, as in systemd.
func references(arg string) string {
	whole := reference.FindString(arg) == arg
	return reference.ReplaceAllStringFunc(arg, func(ref string) string {
		if ref == "$$" || strings.HasPrefix(ref, "${") && draft.IsName(ref[2:len(ref)-1]) || whole {
			return ref
		}
		return draft.Literal(ref)
	})
}

func (s *service) hooks(a assignment, key string) {
	for _, c := range s.commands(a, true) {
		s.table.AppendCommand(key, c)
	}
}

var killing = regexp.MustCompile(`^(/usr)?(/bin/)?kill$`)

// killOf returns the signal that a command sends to the main process, "" if it does something else.
func killOf(c []string) string {
	if !killing.MatchString(c[0]) || len(c) < 2 || c[len(c)-1] != "$MAINPID" && c[len(c)-1] != "${MAINPID}" {
		return ""
	}
	switch {
	case len(c) == 2:
		return "SIGTERM"
	case len(c) == 3 && strings.HasPrefix(c[1], "-"):
		return signal(strings.TrimPrefix(c[1], "-"))
	case len(c) == 4 && (c[1] == "-s" || c[1] == "--signal"):
		return signal(c[2])
	}
	return ""
}

// signal returns the name of a signal as superd has it.
func signal(s string) string {
	if n, err := strconv.Atoi(s); err == nil {
		if n <= 0 || n > 64 {
			return ""
		}
		return s
	}
	if !strings.HasPrefix(s, "SIG") {
		return "SIG" + s
	}
	return s
}

// inOrder returns a command that runs each one of the list, until one fails.
func inOrder(list [][]string) draft.Command {
	if len(list) == 1 {
		return list[0]
	}
	scripts := make([]string, len(list))
	for i, c := range list {
		scripts[i] = script(c)
	}
	// What superd would replace stays for the shell, which takes no value for code
	text := strings.Join(scripts, " && ")
	if splits.MatchString(text) {
		text = "set -f; " + text // words, and no names of files
	}
	return draft.Command{"sh", "-c", draft.Literal(text)}
}

// script returns a command of templates as a shell needs it.
func script(c []string) string {
	words := make([]string, len(c))
	for i, arg := range c {
		if name, ok := strings.CutPrefix(arg, "$"); ok && draft.IsName(name) {
			words[i] = arg // stands for words
			continue
		}
		var b strings.Builder
		for arg != "" {
			at := template.FindStringIndex(arg)
			if at == nil {
				at = []int{len(arg), len(arg)}
			}
			b.WriteString(shellQuoted(arg[:at[0]]))
			switch ref := arg[at[0]:at[1]]; ref {
			case "":
			case "$$":
				b.WriteString("'$'")
			default:
				b.WriteString(`"` + ref + `"`)
			}
			arg = arg[at[1]:]
		}
		if words[i] = b.String(); words[i] == "" {
			words[i] = "''"
		}
	}
	return strings.Join(words, " ")
}

// splits finds a reference of a script that stands for words.
var splits = regexp.MustCompile(`(^| )\$[A-Za-z_]`)

// template is what superd replaces within an argument.
var template = regexp.MustCompile(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// shellQuoted returns text so that a shell takes it literally.
func shellQuoted(s string) string {
	if !strings.ContainsAny(s, " \t\r\n\"'\\|&;<>()*?[#~`$={}!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// checks are commands that look at a configuration and change nothing.
var checks = regexp.MustCompile(`(^| )(-t|-T|-c|-C|--check|--test|check|configtest|testconfig|-tq|-q -t)( |$)`)

// reloads sets the keys of a reload. A check before it is one before a restart, too.
func (s *service) reloads() {
	t := s.table
	for _, key := range []string{"check_command", "reload_signal", "reload_command"} {
		if t.Has(key) {
			t.Delete(key)
		}
	}
	list := slices.Clone(s.reload)
	if len(list) > 1 && checks.MatchString(strings.Join(list[0], " ")) && killOf(list[0]) == "" {
		t.Set("check_command", draft.Command(list[0]))
		list = list[1:]
	}
	if len(list) == 1 {
		if signal := killOf(list[0]); signal != "" {
			t.Set("reload_signal", signal)
			return
		}
	}
	t.Set("reload_command", inOrder(list))
}

// finish sets what depends on several keys.
func (s *service) finish() {
	t := s.table
	switch s.kind {
	case "simple", "exec", "idle":
	case "notify", "notify-reload":
		t.Set("ready.notify", true)
		if s.kind == "notify-reload" {
			t.Set("reload_signal", cmpOr(signal(cmpOr(s.get("Service", "ReloadSignal"), "HUP")), "SIGHUP"))
			t.Set("reload_notify", true)
		}
	case "forking":
		t.Set("type", "forking")
	case "oneshot":
		t.Set("type", "oneshot")
		if len(s.starts) > 1 {
			for _, c := range s.starts[:len(s.starts)-1] {
				t.AppendCommand("pre_start", c)
			}
		}
		if len(s.starts) == 0 {
			t.Set("command", draft.Command{"true"})
		}
		if s.get("Service", "ExecStop") != "" {
			s.doc.Note(draft.Place{File: s.path}, "Service.ExecStop", "superd stops no one-shot that has ended: "+
				"the command runs only while it runs")
		}
	case "dbus":
		s.doc.Note(draft.Place{File: s.path}, "Service.BusName", "superd does not watch the bus: the program is "+
			"ready at once, unless `ready` says otherwise")
	default:
		s.doc.Note(draft.Place{File: s.path}, "Service.Type", "systemd knows no type %q", s.kind)
	}
	if t.Get("final_kill") == false && t.Get("kill_mode") == "mixed" {
		t.Set("kill_mode", "main-first")
		s.doc.Note(draft.Place{File: s.path}, "Service.KillMode", "superd's \"mixed\" kills what the main process "+
			"leaves, which SendSIGKILL=no forbids: leftover processes get the stop signal")
	}
	s.hooksUser()
	if s.kind != "oneshot" && t.Get("restart") == "on-failure" {
		// systemd takes these for a clean end
		codes, _ := t.Get("no_restart_exit_codes").([]any)
		for _, clean := range []any{"SIGHUP", "SIGINT", "SIGTERM", "SIGPIPE"} {
			if !slices.Contains(codes, clean) {
				codes = append(slices.Clip(codes), clean)
			}
		}
		t.Set("no_restart_exit_codes", codes)
	}
	if t.Has("log.sink") && (t.Has("log.file") || t.Has("log.stderr_file")) {
		s.doc.Note(draft.Place{File: s.path}, "Service.StandardError", "superd has one place for both streams: "+
			"log.sink has the output, and no file is written")
		for _, key := range []string{"log.file", "log.stderr_file", "log.stderr"} {
			t.Delete(key)
		}
	}
	if s.kind != "oneshot" && !t.Has("restart") {
		t.Set("restart", "never")
	}
	if !t.Has("command") {
		s.doc.Note(draft.Place{File: s.path}, "Service.ExecStart", "it has no command: nothing can be started")
		t.Set("command", draft.Command{"true"})
	}
}
