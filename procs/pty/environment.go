package pty

import "strings"

// kind is the kind of the terminal for programs whose configuration names none.
const kind = "TERM=xterm-256color"

// Environment returns env (KEY=VALUE) with the kind of the terminal, unless own, the environment of
// the configuration, or an env_file has it. inherited is superd's own TERM, that of another
// terminal.
func Environment(env []string, own map[string]string, inherited string) []string {
	if _, set := own["TERM"]; set {
		return env
	}
	with := make([]string, 0, len(env)+1)
	for _, v := range env {
		value, isTerm := strings.CutPrefix(v, "TERM=")
		switch {
		case isTerm && value != inherited:
			return env
		case !isTerm:
			with = append(with, v)
		}
	}
	return append(with, kind)
}
