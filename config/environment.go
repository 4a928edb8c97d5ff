package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// runVariables are set by superd for each run, whatever else says otherwise.
var runVariables = []string{"SUPERD_INSTANCE", "SUPERD_INVOCATION_ID", "SUPERD_NAME", "SUPERD_OWNER"}

// identityVariables are those of the user that a program runs as.
var identityVariables = []string{"HOME", "LOGNAME", "SHELL", "USER"}

// inherited reports whether a variable of superd's own environment is passed on: not what speaks of superd itself.
func inherited(name string) bool {
	switch name {
	case "NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM":
		return false
	}
	for _, prefix := range []string{"LISTEN_", "WATCHDOG_", "SUPERD_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != ""
}

// inheritedFrom returns the variables of base (KEY=VALUE) that are passed on. Of two with one name the first counts, as
// for getenv.
func inheritedFrom(base []string) map[string]string {
	vars := make(map[string]string, len(base))
	for _, variable := range base {
		name, value, ok := strings.Cut(variable, "=")
		if _, twice := vars[name]; ok && !twice && inherited(name) {
			vars[name] = value
		}
	}
	return vars
}

// Resolve returns what is executed: arguments, environment (KEY=VALUE, sorted) and absolute directory, all expanded.
//
// base is superd's own environment, of which what speaks of superd itself is left out, identity the variables of the
// program's user (nil where it runs as superd's), envFile what [ReadEnvFile] returned. Later ones win, and the
// program's own environment over all. The result lacks SUPERD_NAME and the other variables of the run, which the caller
// appends; for ${SUPERD_INSTANCE} to work, they belong into identity, too.
//
// The error names the key and each variable that is not set.
func (p *Program) Resolve(base []string, identity, envFile map[string]string) (argv, env []string, dir string, err error) {
	below := p.below(base, identity, envFile)
	vars := &variables{own: p.Environment, below: below, open: map[string]bool{}, done: map[string]string{}}

	var errs []error
	expandKey := func(key, template string) string {
		expanded, err := vars.expand(key, template)
		if err != nil {
			errs = append(errs, err)
		}
		return expanded
	}
	for _, arg := range p.Command {
		argv = append(argv, expandKey("command", arg))
	}
	if len(errs) == 0 && (len(argv) == 0 || argv[0] == "") {
		errs = append(errs, errors.New("expand command: the name of the program is empty"))
	}
	if dir = expandKey("directory", p.Directory); len(errs) == 0 && !strings.HasPrefix(dir, "/") {
		errs = append(errs, fmt.Errorf("expand directory: %s is not an absolute path", shorten(dir)))
	}
	env = make([]string, 0, len(below)+len(p.Environment))
	add := func(name, text string) {
		if !slices.Contains(runVariables, name) {
			env = append(env, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		value, _, err := vars.lookup(name)
		if err != nil {
			errs = append(errs, err)
		}
		for ; len(below) > 0 && below[0].name <= name; below = below[1:] {
			if below[0].name < name {
				add(below[0].name, below[0].text)
			}
		}
		add(name, name+"="+value)
	}
	if len(errs) > 0 {
		return nil, nil, "", joinLine(errs)
	}
	for _, v := range below {
		add(v.name, v.text)
	}
	return argv, env, dir, nil
}

// An assignment is one variable of an environment.
type assignment struct{ name, value, text string } // text is KEY=VALUE

// below returns the variables that the program's own win over, by name, each once. The arguments are those of [Program.Resolve].
func (p *Program) below(base []string, identity, envFile map[string]string) []assignment {
	all := make([]assignment, 0, len(envFile)+len(identity)+len(base))
	for name, value := range envFile {
		if !slices.Contains(runVariables, name) {
			all = append(all, assignment{name, value, name + "=" + value})
		}
	}
	for name, value := range identity {
		all = append(all, assignment{name, value, name + "=" + value})
	}
	if p.InheritEnvironment {
		for _, text := range base {
			if name, value, ok := strings.Cut(text, "="); ok && inherited(name) {
				all = append(all, assignment{name, value, text})
			}
		}
	}
	// Of those with one name the first wins: that of the env file, of the user, and of two of superd's own the first, as for getenv.
	slices.SortStableFunc(all, func(a, b assignment) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b assignment) bool { return a.name == b.name })
}

// variables looks variables up in a program's final environment. A variable of the program's own that refers to itself
// means the one below: PATH = "/opt/bin:${PATH}".
type variables struct {
	own     map[string]string
	below   []assignment      // by name
	done    map[string]string // own ones, expanded
	open    map[string]bool   // own ones being expanded
	current string            // the innermost of them
}

func (v *variables) lookup(name string) (value string, ok bool, err error) {
	template, own := v.own[name]
	if !own || name == v.current {
		at, ok := slices.BinarySearchFunc(v.below, name, func(a assignment, name string) int { return strings.Compare(a.name, name) })
		if !ok {
			return "", false, nil
		}
		return v.below[at].value, true, nil
	}
	if value, ok = v.done[name]; ok {
		return value, true, nil
	}
	if v.open[name] {
		return "", true, fmt.Errorf("expand environment.%s: refers to itself by way of ${%s}", name, v.current)
	}
	outer := v.current
	v.open[name], v.current = true, name
	value, err = v.expand("environment."+name, template)
	v.open[name], v.current = false, outer
	v.done[name] = value
	return value, true, err
}

// expand expands the template of a key.
func (v *variables) expand(key, template string) (string, error) {
	var inner error
	expanded, unset, err := expand(template, func(name string) (string, bool) {
		value, ok, err := v.lookup(name)
		inner = errors.Join(inner, err)
		return value, ok
	})
	switch {
	case inner != nil:
		return "", inner
	case err != nil:
		return "", fmt.Errorf("expand %s: %w", key, err)
	case len(unset) > 0:
		return "", fmt.Errorf("expand %s: %s", key, unsetMessage(unset))
	}
	return expanded, nil
}

// unsetMessage says that variables are not set and what to do.
func unsetMessage(names []string) string {
	references := make([]string, len(names))
	for i, name := range names {
		references[i] = "${" + name + "}"
	}
	verb := "is"
	if len(names) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s %s not set: set it in environment or env_file, or write ${%s:-default}", strings.Join(references, " and "), verb, names[0])
}

// joinLine joins errors in one line, each text once.
func joinLine(errs []error) error {
	var texts []string
	for _, err := range errs {
		if !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	return errors.New(strings.Join(texts, "; "))
}
