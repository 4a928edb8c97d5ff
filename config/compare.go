package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A Diff says how one configuration became another.
type Diff struct {
	Programs []Change    // of all programs of either, by name
	Superd   []KeyChange // of the table [superd]
}

// A Change is what becomes of one program.
type Change struct {
	Name    string
	Kind    ChangeKind
	Keys    []KeyChange // what is different, in the order of the reference; of a program that was added or removed none
	Program *Program    // as it is in the new configuration; of one that was removed, as it was
}

// ChangeKind is what it takes to follow a change.
type ChangeKind string

// The kinds of changes.
const (
	Unchanged      ChangeKind = "unchanged"
	AppliedLive    ChangeKind = "applied live"   // comes into force while the program runs on
	RestartNeeded  ChangeKind = "restart needed" // comes into force with a new run
	ProgramAdded   ChangeKind = "added"
	ProgramRemoved ChangeKind = "removed"
)

// A KeyChange is one key that means something else.
type KeyChange struct {
	Key      string // dotted below its table: "backoff.initial", "environment.PORT"
	Old, New string // values as TOML, "" for none. Both are "" where they are not to be shown
	What     string // what has happened to the key, where the values don't tell
	Restart  bool   // comes into force with a new run; of [superd], when superd is started anew
}

// String returns the change in words: `stop_timeout "5s" -> "10s"`.
func (k KeyChange) String() string {
	switch {
	case k.What != "":
		return k.Key + " " + k.What
	case k.Old == "":
		return k.Key + " = " + k.New
	case k.New == "":
		return k.Key + " " + k.Old + " taken out"
	}
	return k.Key + " " + k.Old + " -> " + k.New
}

// Key returns the change of a key, nil where it means the same.
func (c *Change) Key(name string) *KeyChange {
	i := slices.IndexFunc(c.Keys, func(k KeyChange) bool { return k.Key == name })
	if i < 0 {
		return nil
	}
	return &c.Keys[i]
}

// Restarts reports whether any of the keys comes into force with a new run of the instances that stay. A number of
// replicas does not, although it may give instances other names.
func (c *Change) Restarts() bool {
	return slices.ContainsFunc(c.Keys, func(k KeyChange) bool { return k.Restart && k.Key != "replicas" })
}

// Differs reports whether the two configurations mean something else.
func (d *Diff) Differs() bool {
	return len(d.Superd) > 0 || slices.ContainsFunc(d.Programs, func(c Change) bool { return c.Kind != Unchanged })
}

// Of returns what becomes of the program of that name; nil where neither configuration has it.
func (d *Diff) Of(program string) *Change {
	i, ok := slices.BinarySearchFunc(d.Programs, program, func(c Change, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return &d.Programs[i]
}

// Names returns the names of the programs with changes of these kinds, by name.
func (d *Diff) Names(kinds ...ChangeKind) []string {
	var names []string
	for i := range d.Programs {
		if slices.Contains(kinds, d.Programs[i].Kind) {
			names = append(names, d.Programs[i].Name)
		}
	}
	return names
}

// An effect is when another value of a key comes into force.
type effect uint8

const (
	live    effect = iota // at once, or when it matters next
	anew                  // with a new run: it is part of what a process is born with, or of where its output goes
	counted               // replicas: the difference starts or ends
)

// effects has each key of [program.NAME].
var effects = sync.OnceValue(func() map[string]effect {
	return map[string]effect{
		"command": anew, "directory": anew, "environment": anew, "env_file": anew, "inherit_environment": anew,
		"user": anew, "supplementary_groups": anew, "umask": anew,
		"limits.nofile": anew, "limits.core": anew, "limits.memory": anew, "limits.cpu": anew, "limits.tasks": anew,
		"type": anew, "ready.notify": anew, "ready.fd": anew, "watchdog": anew,
		"log.file": anew, "log.format": anew, "log.stderr": anew, "log.stderr_file": anew, "log.sink": anew, "log.command": live, // it is that of another program

		"replicas": counted,

		"groups": live, "schedule": live, "schedule_jitter": live, "schedule_missed": live, "autostart": live, "essential": live, "requires": live, "after": live,
		"restart": live, "success_exit_codes": live,
		"backoff.initial": live, "backoff.max": live, "backoff.factor": live, "backoff.jitter": live, "backoff.reset_after": live,
		"start_limit.failures": live, "start_limit.within": live, "start_limit.retry_after": live,
		"start_timeout": live, "stop_signal": live, "stop_timeout": live, "kill_mode": live,
		"log.owner": live, "log.group": live, "log.mode": live, "log.address": live, "log.identifier": live, "log.facility": live,
		"ready.line": live, "ready.tcp": live, "ready.http": live, "ready.exec": live, "ready.interval": live, "ready.timeout": live,
		"health.tcp": live, "health.http": live, "health.exec": live, "health.interval": live, "health.timeout": live, "health.failures": live, "health.action": live,
		"pre_start": live, "post_stop": live,
		"log.max_size": live, "log.keep": live, "log.max_age": live, "log.max_total": live, "log.compress": live,
		"log.overflow": live, "log.min_free": live,
	}
})

// superdEffects has each key of [superd].
var superdEffects = map[string]effect{"runtime_dir": anew, "log_dir": anew, "exit_when": live, "log_max_total": live}

// Compare returns what is different in after. What counts is what the tables mean, defaults included, and which
// mistakes programs have; where they are written doesn't, nor does the content of an env file.
func Compare(before, after *Config) Diff {
	diff := Diff{Programs: make([]Change, 0, len(after.Programs))}
	old, next := before.Programs, after.Programs // both by name
	for len(old) > 0 || len(next) > 0 {
		switch {
		case len(next) == 0 || len(old) > 0 && old[0].Name < next[0].Name:
			diff.Programs = append(diff.Programs, Change{Name: old[0].Name, Kind: ProgramRemoved, Program: old[0]})
			old = old[1:]
		case len(old) == 0 || next[0].Name < old[0].Name:
			diff.Programs = append(diff.Programs, Change{Name: next[0].Name, Kind: ProgramAdded, Program: next[0]})
			next = next[1:]
		default:
			diff.Programs = append(diff.Programs, CompareProgram(old[0], next[0]))
			old, next = old[1:], next[1:]
		}
	}
	if before.Superd != after.Superd {
		diff.Superd = compareKeys("superd", superdEffects, &draft{superd: before.Superd}, &draft{superd: after.Superd})
	}
	return diff
}

// CompareProgram returns what became of a program.
func CompareProgram(before, after *Program) Change {
	c := Change{Name: after.Name, Kind: Unchanged, Program: after}
	if before == after || before.equal(after) {
		return c
	}
	c.Keys = append(compareMistakes(before.Invalid, after.Invalid), compareKeys("program", effects(), before.draft(), after.draft())...)
	if before.LoggerOf != after.LoggerOf {
		c.Keys = append(c.Keys, KeyChange{Key: "log.command", What: "reads the output of another program", Restart: true})
	}
	c.Kind = AppliedLive
	if slices.ContainsFunc(c.Keys, func(k KeyChange) bool { return k.Restart }) {
		c.Kind = RestartNeeded
	}
	return c
}

func (p *Program) equal(other *Program) bool {
	if !slices.EqualFunc(p.Invalid, other.Invalid, sameMistake) {
		return false
	}
	a, b := *p, *other
	for _, program := range []*Program{&a, &b} {
		program.Invalid, program.File, program.Line = nil, "", 0
	}
	return reflect.DeepEqual(a, b)
}

func sameMistake(a, b *KeyError) bool { return a.Key == b.Key && a.Err.Error() == b.Err.Error() }

// draft returns a draft with what the program's table means.
func (p *Program) draft() *draft {
	d := builtin()
	d.Program = *p
	if p.Ready != nil {
		d.ready = *p.Ready
	}
	if p.Health != nil {
		d.health = *p.Health
	}
	return d
}

// compareKeys compares a table key by key.
func compareKeys(table string, effects map[string]effect, before, after *draft) (changes []KeyChange) {
	all := keys()
	for i := range all {
		k := &all[i]
		if k.table != table || reflect.DeepEqual(k.get(before), k.get(after)) {
			continue
		}
		restart := effects[k.name] == anew
		if k.name == "environment" { // its values may be secrets
			changes = append(changes, compareEnvironments(before.Environment, after.Environment)...)
			continue
		}
		if effects[k.name] == counted {
			restart = (before.Replicas == 1) != (after.Replicas == 1) && before.Replicas*after.Replicas > 0 // web becomes web@1
		}
		c := KeyChange{Key: k.name, Old: k.shown(before), New: k.shown(after), Restart: restart}
		if c.Old == c.New {
			c.Old, c.New, c.What = "", "", "changed"
		}
		changes = append(changes, c)
	}
	return changes
}

// compareEnvironments tells which variables are different, and no value.
func compareEnvironments(before, after map[string]string) (changes []KeyChange) {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		was, had := before[name]
		is, has := after[name]
		what := "changed"
		switch {
		case had && has && was == is:
			continue
		case !had:
			what = "added"
		case !has:
			what = "taken out"
		}
		changes = append(changes, KeyChange{Key: "environment." + name, What: what, Restart: true})
	}
	return changes
}

// compareMistakes tells which mistakes a program has come by, or is rid of. Either takes a start.
func compareMistakes(before, after Errors) (changes []KeyChange) {
	tell := func(these, others Errors, what func(*KeyError) string) {
		for _, mistake := range these {
			if slices.ContainsFunc(others, func(other *KeyError) bool { return sameMistake(mistake, other) }) {
				continue
			}
			key := strings.TrimPrefix(mistake.Key, "program.")
			if _, own, ok := strings.Cut(key, "."); ok {
				key = own
			}
			changes = append(changes, KeyChange{Key: key, What: what(mistake), Restart: true})
		}
	}
	tell(before, after, func(*KeyError) string { return "corrected" })
	tell(after, before, func(mistake *KeyError) string { return "has a mistake: " + mistake.Err.Error() })
	return changes
}
