// Package environ makes the environment of a run from what superd inherited, what the run and its
// user add, and what a program sets, and expands references to these variables.
package environ

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"superd/config/document"
)

// IsOfRun reports whether superd sets the variable for each run. Nothing else can set it.
func IsOfRun(name string) bool {
	switch name {
	case "SUPERD_INSTANCE", "SUPERD_INVOCATION_ID", "SUPERD_NAME", "SUPERD_OWNER", "SUPERD_REPLICA":
		return true
	}
	return false
}

// IsOfIdentity reports whether the variable is set from the user that a program runs as.
func IsOfIdentity(name string) bool {
	switch name {
	case "HOME", "LOGNAME", "SHELL", "USER":
		return true
	}
	return false
}

// inherited reports whether programs may inherit a variable of superd's environment. Variables
// about superd itself are not inherited.
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

// Variables are the variables of an environment, sorted by name, each once.
type Variables []assignment

// An assignment is one variable of an environment.
type assignment struct{ name, value, text string } // text is KEY=VALUE

// Inherited returns the variables of base (KEY=VALUE), superd's own environment, that programs may
// inherit: all except those about superd itself. Of two with the same name the first counts, as in
// getenv.
func Inherited(base []string) Variables {
	all := make(Variables, 0, len(base))
	for _, text := range base {
		if name, value, ok := strings.Cut(text, "="); ok && inherited(name) {
			all = append(all, assignment{name, value, text})
		}
	}
	slices.SortStableFunc(all, func(a, b assignment) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b assignment) bool { return a.name == b.name })
}

// Set sets a variable.
func (v *Variables) Set(name, value string) {
	at, ok := v.find(name)
	a := assignment{name, value, name + "=" + value}
	if ok {
		(*v)[at] = a
		return
	}
	*v = slices.Insert(*v, at, a)
}

// Get returns the value of a variable, and whether it is set.
func (v Variables) Get(name string) (value string, ok bool) {
	at, ok := v.find(name)
	if !ok {
		return "", false
	}
	return v[at].value, true
}

func (v Variables) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(v, name, func(a assignment, name string) int { return strings.Compare(a.name, name) })
}

// A Template is what is executed, with references that are not yet expanded.
type Template struct {
	Command   []string
	Directory string
	Own       map[string]string // variables
	Inherit   bool              // whether those of the base are inherited
}

// Resolve returns what to execute: arguments, environment (KEY=VALUE, by name) and absolute
// directory, all expanded.
//
// base is the result of [Inherited]; run has the variables of the run, which nothing else sets;
// identity has those of the program's user (nil if it runs as the user of superd); envFile is the
// result of [document.ReadEnvFile]. Of these identity overrides base and envFile overrides
// identity. The program's own environment overrides them, and run overrides all.
//
// The error names the key and each variable that is not set. A variable that stands for words need
// not be set.
func (t *Template) Resolve(base, run Variables, identity, envFile map[string]string) (argv, env []string, dir string, err error) {
	if !t.Inherit {
		base = nil
	}
	vars := &variables{
		own: t.Own, above: above(run, identity, envFile), base: base,
		sources: "environment or env_file",
	}

	var errs []error
	expandKey := func(key, template string) string {
		expanded, err := vars.expand(key, template)
		if err != nil {
			errs = append(errs, err)
		}
		return expanded
	}
	argv = make([]string, 0, len(t.Command))
	for _, arg := range t.Command {
		if name, ok := document.WordsOf(arg); ok {
			words, err := vars.words("command", name)
			if err != nil {
				errs = append(errs, err)
			}
			argv = append(argv, words...)
			continue
		}
		argv = append(argv, expandKey("command", arg))
	}
	if len(errs) == 0 && (len(argv) == 0 || argv[0] == "") {
		errs = append(errs, errors.New("expand command: the name of the program is empty"))
	}
	if dir = expandKey("directory", t.Directory); len(errs) == 0 && !strings.HasPrefix(dir, "/") {
		errs = append(errs, fmt.Errorf("expand directory: %s is not an absolute path",
			document.Quote(dir)))
	}
	// Merge three lists that are sorted by name. For equal names the program's own entry wins, then
	// that of the upper list.
	env = make([]string, 0, len(base)+len(vars.above)+len(t.Own)+len(run))
	add := func(name, text string) {
		if _, ours := run.find(name); !ours && !IsOfRun(name) {
			env = append(env, text)
		}
	}
	over := vars.above
	before := func(name string, all bool) { // adds the entries before name
		for len(over) > 0 && (all || over[0].name <= name) || len(base) > 0 && (all || base[0].name <= name) {
			var next assignment
			switch {
			case len(base) == 0 || len(over) > 0 && over[0].name < base[0].name:
				next, over = over[0], over[1:]
			case len(over) == 0 || base[0].name < over[0].name:
				next, base = base[0], base[1:]
			default:
				next, over, base = over[0], over[1:], base[1:]
			}
			if all || next.name < name {
				add(next.name, next.text)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Own)) {
		value, _, err := vars.lookup(name)
		if err != nil {
			errs = append(errs, err)
		}
		before(name, false)
		add(name, name+"="+value)
	}
	if len(errs) > 0 {
		return nil, nil, "", joinLine(errs)
	}
	before("", true)
	for _, v := range run {
		env = append(env, v.text)
	}
	return argv, env, dir, nil
}

// Expand returns the value of a key that is not executed, expanded. base and run are those of
// Resolve. It does not know the variables of env files and of the program's user, which superd
// reads only to start a process.
func (t *Template) Expand(key, template string, base, run Variables) (string, error) {
	if strings.IndexByte(template, '$') < 0 {
		return template, nil
	}
	if !t.Inherit {
		base = nil
	}
	vars := &variables{own: t.Own, above: run, base: base, sources: "environment"}
	return vars.expand(key, template)
}

// above returns the variables that override inherited ones and are overridden by the program's own.
// The arguments are those of [Program.Resolve].
func above(run Variables, identity, envFile map[string]string) Variables {
	if len(identity)+len(envFile) == 0 {
		return run
	}
	all := make(Variables, 0, len(envFile)+len(identity)+len(run))
	for name, value := range envFile {
		if !IsOfRun(name) {
			all = append(all, assignment{name, value, name + "=" + value})
		}
	}
	all = append(all, run...)
	for name, value := range identity {
		all = append(all, assignment{name, value, name + "=" + value})
	}
	// Of equal names the first wins.
	slices.SortStableFunc(all, func(a, b assignment) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b assignment) bool { return a.name == b.name })
}

// variables looks up variables in a program's final environment. If one of the program's own
// variables refers to itself, it means the one below: PATH = "/opt/bin:${PATH}".
type variables struct {
	own         map[string]string
	above, base Variables         // below the program's own; above overrides base
	done        map[string]string // expanded own variables; nil until the first
	open        map[string]bool   // own variables that are being expanded
	current     string            // innermost variable of open
	sources     string            // keys that may set a variable, for messages
}

func (v *variables) lookup(name string) (value string, ok bool, err error) {
	template, own := v.own[name]
	if !own || name == v.current {
		if value, ok = v.above.Get(name); !ok {
			value, ok = v.base.Get(name)
		}
		return value, ok, nil
	}
	if value, ok = v.done[name]; ok {
		return value, true, nil
	}
	if v.open[name] {
		return "", true, fmt.Errorf("expand environment.%s: refers to itself through ${%s}", name, v.current)
	}
	if v.open == nil {
		v.open, v.done = map[string]bool{}, map[string]string{}
	}
	outer := v.current
	v.open[name], v.current = true, name
	value, err = v.expand("environment."+name, template)
	v.open[name], v.current = false, outer
	v.done[name] = value
	return value, true, err
}

// words returns the words of a variable's value; none if it is not set.
func (v *variables) words(key, name string) ([]string, error) {
	value, _, err := v.lookup(name)
	if err != nil {
		return nil, err
	}
	words, err := document.SplitWords(value)
	if err != nil {
		return nil, fmt.Errorf("expand %s: split $%s into words: %w: correct its value, or write ${%s} for one argument", key, name, err, name)
	}
	return words, nil
}

// expand expands the template of a key.
func (v *variables) expand(key, template string) (string, error) {
	if strings.IndexByte(template, '$') < 0 { // usual case: no lookup
		expanded, _, err := document.Expand(template, nil)
		if err != nil {
			return "", fmt.Errorf("expand %s: %w", key, err)
		}
		return expanded, nil
	}
	var inner error
	expanded, unset, err := document.Expand(template, func(name string) (string, bool) {
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
		return "", fmt.Errorf("expand %s: %s", key, UnsetMessage(unset, v.sources))
	}
	return expanded, nil
}

// UnsetMessage returns a message that variables are not set, with the remedy. sources are the keys
// that may set them.
func UnsetMessage(names []string, sources string) string {
	references := make([]string, len(names))
	for i, name := range names {
		references[i] = "${" + name + "}"
	}
	verb := "is"
	if len(names) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s %s not set: set it in %s, or write ${%s:-default}", strings.Join(references, " and "), verb, sources, names[0])
}

// joinLine joins errors into one line, each text once.
func joinLine(errs []error) error {
	var texts []string
	for _, err := range errs {
		if !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	return errors.New(strings.Join(texts, "; "))
}
