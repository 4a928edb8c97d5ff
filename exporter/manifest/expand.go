package manifest

import (
	"maps"
	"slices"
	"strings"

	"superd/config/document"
	"superd/config/environ"
)

// A Notation is how a target writes texts that its programs get.
type Notation struct {
	// Escape writes literal text, so that the target changes nothing in it
	Escape func(string) string
	// Before writes literal text that a reference follows; nil: as Escape
	Before func(string) string
	// Reference writes the value that a variable has when the program starts; ok is false if the
	// target can't. nil: it can't at all
	Reference func(name string) (text string, ok bool)
	// OfRun: it can refer to the variables that superd sets for each run
	OfRun bool
	// Words: an argument $X stands for the words of its value, as in superd
	Words bool
	// Inherits: programs get variables that no file has
	Inherits bool
}

// mark encloses the names of variables that are known at the start only. No value has it.
const mark = "\x00"

// Text returns a template of the program as the target writes it: variables of `environment` are
// replaced by their values, others by a reference. What can't be written so has a note.
func (p *Program) Text(key, template string, n Notation) string {
	return p.render(key, p.expand(key, template, n), n)
}

// render returns an expanded text as the target writes it.
func (p *Program) render(key, expanded string, n Notation) string {
	var b strings.Builder
	parts := strings.Split(expanded, mark)
	for i, part := range parts {
		switch {
		case i%2 == 1:
		case i < len(parts)-1 && n.Before != nil:
			b.WriteString(n.Before(part))
			continue
		default:
			b.WriteString(n.Escape(part))
			continue
		}
		if n.Reference != nil && (n.OfRun || !environ.IsOfRun(part)) {
			if text, ok := n.Reference(part); ok {
				b.WriteString(text)
				continue
			}
		}
		p.Note(key, "${%s} is not known there: write its value", part)
		b.WriteString(n.Escape("${" + part + "}"))
	}
	return b.String()
}

// expand returns a template with marks around the names of what is known at the start only.
func (p *Program) expand(key, template string, n Notation) string {
	_, needed := document.References(template)
	expanded, _, err := document.Expand(template, func(name string) (string, bool) {
		value, known := p.variable(name, n, nil)
		switch {
		case known:
			return value, true
		case slices.Contains(needed, name):
			return mark + name + mark, true
		}
		if len(p.EnvFiles) > 0 || n.Inherits && p.InheritEnvironment || environ.IsOfIdentity(name) && p.User != "" {
			p.Note(key, "${%s:-…} has its default there, also if the variable is set", name)
		}
		return "", false
	})
	if err != nil {
		p.Note(key, "%s can't be calculated there: write the value, or a program for each replica", template)
		return template
	}
	return expanded
}

// variable returns what a variable of the program is before its start. within are the variables
// whose values refer to it.
func (p *Program) variable(name string, n Notation, within []string) (value string, known bool) {
	if p.Replicas == 1 {
		switch name {
		case "SUPERD_NAME", "SUPERD_INSTANCE":
			return p.Name, true
		case "SUPERD_REPLICA":
			return "1", true
		}
	}
	if name == "SUPERD_NAME" {
		return p.Name, true
	}
	template, own := p.Environment[name]
	if !own || slices.Contains(within, name) {
		return "", false // a variable that refers to itself means the inherited one
	}
	within = append(slices.Clone(within), name)
	_, needed := document.References(template)
	value, _, err := document.Expand(template, func(other string) (string, bool) {
		if inner, ok := p.variable(other, n, within); ok {
			return inner, true
		}
		return mark + other + mark, slices.Contains(needed, other)
	})
	return value, err == nil
}

// Arguments returns a command as the target writes it.
func (p *Program) Arguments(key string, command []string, n Notation) (args []string) {
	for _, arg := range command {
		name, words := document.WordsOf(arg)
		if !words {
			args = append(args, p.Text(key, arg, n))
			continue
		}
		value, known := p.variable(name, n, nil)
		split, err := document.SplitWords(value)
		switch {
		case known && err == nil && !strings.Contains(value, mark):
			for _, word := range split {
				args = append(args, n.Escape(word))
			}
		case n.Words:
			args = append(args, "$"+name)
		default:
			p.Note(key, "$%s stands for words there only if `environment` has it: write them", name)
		}
	}
	if len(command) > 0 && (len(args) == 0 || args[0] == "") {
		p.Note(key, "nothing is left of it there: write it without variables")
		args = []string{n.Escape(strings.Join(command, " "))}
	}
	return args
}

// A Variable is one of a program's environment.
type Variable struct{ Name, Value string }

// Variables returns the program's environment as the target writes it, sorted by name.
func (p *Program) Variables(n Notation) (all []Variable) {
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		value, known := p.variable(name, n, nil)
		if !known {
			p.Note("environment", "%s can't be calculated there: write its value", name)
			continue
		}
		all = append(all, Variable{name, p.render("environment", value, n)})
	}
	return all
}
