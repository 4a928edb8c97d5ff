// Package procfile imports a Procfile, as foreman and overmind read it.
package procfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"superd/importer/draft"
)

// Source: Foreman::Procfile and Foreman::Engine of foreman, and the documentation of overmind.
var (
	entry     = regexp.MustCompile(`^([A-Za-z0-9_-]+):\s*(.+)$`)
	variable  = regexp.MustCompile(`^(?:export )?([A-Za-z_0-9]+)=(.*)$`)
	portValue = regexp.MustCompile(`^['"]?(\d{1,5})['"]?$`)
)

const (
	firstPort   = 5000
	portStep    = 100
	stopTimeout = 5 // seconds
)

// Import reads a Procfile and the .env beside it. dir is as in [draft.Document].
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	text, err := system.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc := draft.New(dir)
	d := doc.Defaults
	d.Comments = []string{
		"With foreman and overmind all programs end when one ends. superd restarts the one that has ended,",
		`unless it has restart = "never". With essential = true, too, its end ends all.`,
	}
	port := firstPort
	env := filepath.Join(filepath.Dir(path), ".env")
	switch content, err := system.ReadFile(env); {
	case err == nil:
		d.Set("env_file", doc.Path(".env"))
		port = readEnv(doc, env, string(content), port)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	d.Set("stop_timeout", draft.Seconds(stopTimeout))

	var comments []string
	seen := map[string]bool{}
	number := 0
	lines, marked := draft.CutMark(text)
	if marked {
		doc.Note(draft.Place{File: path, Line: 1}, "", "foreman ignores the line, since a byte order mark stands "+
			"before it: superd reads it")
	}
	for line := range strings.Lines(strings.ReplaceAll(lines, "\r\n", "\n")) {
		number++
		line = strings.TrimSuffix(line, "\n")
		at := draft.Place{File: path, Line: number}
		trimmed := strings.TrimSpace(line)
		found := entry.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(trimmed, "#"):
			comments = append(comments, strings.TrimPrefix(strings.TrimLeft(trimmed, "#"), " "))
			continue
		case trimmed == "":
			continue
		case found == nil:
			doc.Note(at, "", "foreman ignores the line: it is not of the form NAME: COMMAND")
			continue
		}
		name, command := found[1], strings.TrimSpace(found[2])
		if command == "" {
			doc.Note(at, name, "it has no command: it is left out, as foreman leaves it out")
			continue
		}
		if strings.HasSuffix(command, `\`) {
			doc.Note(at, name, "a Procfile has no continued lines: foreman runs what stands in this one")
		}
		if seen[name] {
			doc.Note(at, name, "it is there twice, and gets another name")
		}
		seen[name] = true
		p := doc.Program(name)
		p.Comments = comments
		comments = nil
		args, shell := draft.Script(command, "PORT")
		p.Set("command", args)
		p.Env("PORT", strconv.Itoa(port))
		if shell {
			p.Set("kill_mode", "tree") // a shell passes no signal on
		}
		port += portStep
		if p.Name != name && strings.Trim(name, "_-") == "" {
			doc.Note(at, name, "the program is %q", p.Name)
		}
		if strings.Contains(command, "sleep ") && strings.Contains(command, "&&") {
			doc.Note(at, name, "`requires`, and `ready` in the program that it waits for, wait as long as "+
				"needed, in place of the sleep")
		}
		if name == "release" {
			doc.Note(at, name, `foreman starts it beside the others; type = "oneshot" runs it once, `+
				"and with `requires` the others wait for it")
		}
	}
	doc.Tail = comments
	if len(doc.Programs) == 0 {
		return nil, errors.New("read " + path + ": there is no line of the form NAME: COMMAND")
	}
	return doc, nil
}

// readEnv notes what superd reads differently in the .env, and returns the first port.
func readEnv(doc *draft.Document, path, content string, port int) int {
	number := 0
	for line := range strings.Lines(content) {
		number++
		at := draft.Place{File: path, Line: number}
		line = strings.TrimRight(line, "\r\n")
		rest, marked := draft.CutMark([]byte(line))
		trimmed := strings.TrimSpace(rest)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		found := variable.FindStringSubmatch(line)
		switch key, _, assigns := strings.Cut(trimmed, "="); {
		case found != nil:
		case assigns && key != "":
			because := "since it has blanks at the begin or before the ="
			if marked {
				because = "since a byte order mark stands before it"
			}
			doc.Note(at, "", "foreman ignores the line, %s: superd reads it", because)
			continue
		default:
			doc.Note(at, "", "foreman ignores the line, and superd refuses the file: remove it")
			continue
		}
		name, value := found[1], found[2]
		if name == "PORT" {
			if n := portValue.FindStringSubmatch(value); n != nil {
				port, _ = strconv.Atoi(n[1])
			}
		}
		quoted := len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0]
		switch {
		case strings.TrimRight(value, " \t") != value:
			doc.Note(at, name, "foreman keeps the blanks at the end of the value, and superd does not: put it in '…'")
		case !quoted && strings.Contains(value, " #"):
			doc.Note(at, name, "the comment is a part of the value, for foreman and for superd")
		case strings.Contains(value, `\n`) && quoted && value[0] == '"':
			doc.Note(at, name, `foreman makes a line end of \n; superd takes a quoted value of several lines`)
		case strings.Contains(value, `\`):
			doc.Note(at, name, `superd takes a backslash for an escape, as systemd does: put the value in '…'`)
		}
	}
	return port
}
