package draft

import (
	"regexp"
	"strings"
)

var (
	plainWords   = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,$ {}-]+$`)
	assignment   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	simple       = regexp.MustCompile("^[^;&|<>()`\n#]*$")
	reference    = regexp.MustCompile(`\$(\w+)|\$\{(\w+)\}`)
	shellKeyword = regexp.MustCompile(`^(if|while|until|for|case|cd|source|\.|:|!|\{|export|exec|set|unset|` +
		`ulimit|umask|trap|test|\[|eval|exit|wait|read|command|time|sleep [^;&|]*(&&|;))(\s|$)`)
)

// Script returns the command for a line that a shell would run, and whether a shell still runs it.
// known are the variables that are always set. A line that is one command replaces the shell, so
// that it gets signals itself.
func Script(line string, known ...string) (c Command, shell bool) {
	line = strings.TrimSpace(line)
	words := strings.Fields(line)
	if args, ok := plain(line, words, known); ok {
		return args, false
	}
	if len(words) > 0 && simple.MatchString(line) && !assignment.MatchString(line) && !shellKeyword.MatchString(line) {
		return Command{"sh", "-c", Literal("exec " + line)}, false
	}
	return Command{"sh", "-c", Literal(line)}, true
}

// plain returns the arguments of a line without anything that only a shell understands.
func plain(line string, words, known []string) (Command, bool) {
	if len(words) == 0 || !plainWords.MatchString(line) || assignment.MatchString(line) || shellKeyword.MatchString(line) {
		return nil, false
	}
	isKnown := func(name string) bool {
		for _, k := range known {
			if k == name {
				return true
			}
		}
		return false
	}
	args := make(Command, len(words))
	for i, w := range words {
		ok := true
		args[i] = reference.ReplaceAllStringFunc(w, func(ref string) string {
			name := strings.Trim(ref, "${}")
			ok = ok && isKnown(name)
			return "${" + name + "}"
		})
		rest := reference.ReplaceAllString(w, "")
		if !ok || strings.ContainsAny(rest, "${}") {
			return nil, false
		}
	}
	return args, true
}
