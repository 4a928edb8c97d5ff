package manifest

import (
	"fmt"
	"strings"
)

// Rules say for each key of a program, and of a socket that it gets ("socket.listen"), what becomes
// of it where it is set. A rule returns the text of a note, "" if the export has the whole meaning.
type Rules map[string]func(*Program) string

// Keep enters keys that the export has.
func (r Rules) Keep(keys string) Rules {
	return r.Decide(keys, func(*Program) string { return "" })
}

// Lose enters keys that have no counterpart. The text says so, and what to do.
func (r Rules) Lose(keys, text string) Rules {
	return r.Decide(keys, func(*Program) string { return text })
}

// Decide enters keys whose rule depends on the program.
func (r Rules) Decide(keys string, rule func(*Program) string) Rules {
	for key := range strings.FieldsSeq(keys) {
		r[key] = rule
	}
	return r
}

// Apply notes the keys of a program, and those of its sockets, that the export does not have.
func (p *Program) Apply(rules Rules) {
	for _, k := range p.set {
		if text := rules.of(k.Name)(p); text != "" {
			p.Note(k.Name, "%s", text)
		}
	}
	if p.Sockets == nil {
		return
	}
	for _, used := range p.Sockets.List {
		s := p.Source.Socket(used.Name)
		for _, k := range s.SetKeys() {
			if k.Name == "fdname" && s.FDName == s.Name {
				continue
			}
			text := rules.of("socket." + k.Name)(p)
			n := Note{s.File, s.Line, "socket." + s.Name + "." + k.Name, text}
			if text != "" {
				p.Notes = append(p.Notes, n)
			}
		}
	}
}

// of returns the rule of a key. A test holds that every key has one.
func (r Rules) of(key string) func(*Program) string {
	if rule, ok := r[key]; ok {
		return rule
	}
	return func(*Program) string { return fmt.Sprintf("the exporter does not know %s", key) }
}

// Set reports whether one of the keys has not its default.
func (p *Program) Set(keys ...string) bool {
	for _, k := range p.set {
		for _, key := range keys {
			if k.Name == key || strings.HasPrefix(k.Name, key+".") {
				return true
			}
		}
	}
	return false
}
